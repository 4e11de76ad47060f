"""Which safeguards of the file sweep are on. All are; tests switch one off at a time, to show that it loses a file then."""

from __future__ import annotations

import msgspec


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
    lease: bool = True
    probe: bool = True


ALL_ON = FileSafeguards()
