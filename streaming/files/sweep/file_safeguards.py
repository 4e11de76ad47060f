"""Which safeguards of the file sweep are on. All are; tests switch one off at a time, to show that it loses a file then."""

from __future__ import annotations

import msgspec

from headwater.streaming.files.marks.cache_proof import CacheSafeguards


class FileSafeguards(msgspec.Struct, frozen=True, kw_only=True):
    """Not for use outside of tests: the command has no way to set it."""

    claim: bool = True
    nested_claims: bool = True
    union: bool = True
    strict: bool = True
    foreign_names: bool = True
    protected_prefixes: bool = True
    kinds: bool = True
    grace: bool = True
    proof: bool = True
    second_look: bool = True
    share: bool = True
    second_fence: bool = True
    reservations: bool = True
    lease: bool = True
    probe: bool = True
    cache_length: bool = True
    cache_digest: bool = True
    cache_proof: bool = True
    cache_stamp: bool = True

    @property
    def cache(self) -> CacheSafeguards:
        return CacheSafeguards(
            length=self.cache_length, digest=self.cache_digest, proof=self.cache_proof, stamp=self.cache_stamp
        )


ALL_ON = FileSafeguards()
