"""Checks that the manifest cache agrees with the files, by reading a sample of its answers and rewritten files again.

⚠ Not thread-safe: the cache guards it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec

from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks.cache_ranges import stamp_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROVED_AT_LEAST = 20
PROVED_ONE_IN = 1_000
DECODED_FILES_MAX = 5_000
"""Of the sample of at least twenty, containers are decoded until they have named so many files; of the others the bytes are
compared with those that the cache has read. ⚠ At least one is decoded: bytes would not show that it was decoded wrongly."""


class CacheSafeguards(msgspec.Struct, frozen=True, kw_only=True):
    """Tests switch one off at a time, to show that it then loses a file."""

    length: bool = True
    digest: bool = True
    proof: bool = True
    stamp: bool = True


class Hit(msgspec.Struct, frozen=True):
    """A container that this run needs."""

    ref: ManifestRef
    is_list: bool
    key: bytes = b""
    digest: bytes = b""
    """Digest of the cached entry."""
    stamp: bytes = b""
    is_fresh: bool = False
    """Read in this run."""
    source: bytes = b""
    """Digest of the bytes that the entry was made from."""
    files: int = 0
    """About how many it names."""
    is_decoded: bool = True
    """Whether the file is decoded again even if its bytes are the same."""


class CacheProof:
    """The proof of one run."""

    def __init__(self, salt: bytes, safeguards: CacheSafeguards, chance: random.Random) -> None:
        self._salt = salt
        self._safeguards = safeguards
        self._chance = chance
        self._sample: list[Hit] = []
        self._proved = 0
        self._hits = 0
        self._files_decoded = 0
        self._named: dict[int, list[Hit]] = {}
        """By fingerprint, for a listing."""
        self._changed: list[tuple[Hit, bytes]] = []

    def name(self, hit: Hit) -> None:
        named = self._named.setdefault(fingerprint(hit.ref.location, self._salt), [])
        if all(one.key != hit.key for one in named):
            named.append(hit)

    def draw(self, hit: Hit) -> None:
        """Every hit has the same chance to be among the first twenty, and on its own a chance of one in a thousand."""
        self._hits += 1
        is_drawn = self._chance.random() * PROVED_ONE_IN < 1
        hit = msgspec.structs.replace(hit, is_decoded=is_drawn)
        if is_drawn or len(self._sample) + self._proved < PROVED_AT_LEAST:
            self._sample.append(hit)
        elif self._sample and self._chance.random() * self._hits < PROVED_AT_LEAST:
            self._sample[self._chance.randrange(len(self._sample))] = hit

    def named(self, ids: NDArray[np.int64]) -> list[int]:
        """Which of these files may be containers of this run, by position."""
        return [at for at, found in enumerate(ids.tolist()) if found in self._named]

    def listed(self, file: FoundFile, found: int, before: int) -> list[tuple[Hit, bytes]]:
        """Containers of this run that a listing shows as they were read, with their stamps. ⚠ A file written at `before` or
        later may be newer than what was read, and gets no stamp."""
        fresh: list[tuple[Hit, bytes]] = []
        for hit in self._named.get(found, ()):
            stamp = stamp_of(file) if file.modified is not None and file.modified < before else b""
            if hit.is_fresh:
                fresh.append((hit, stamp))
            elif not stamp or stamp != hit.stamp:
                self._changed.append((hit, stamp))
        return fresh

    def take(self) -> list[tuple[Hit, bytes]]:
        """What is to be read again, with the stamps of those that a listing has shown."""
        sample, self._sample = self._sample, []
        changed, self._changed = self._changed, []
        self._proved += len(sample)
        taken = [(self._decoded(hit), b"") for hit in self._shuffled(sample)] if self._safeguards.proof else []
        return taken + changed if self._safeguards.stamp else taken

    def _shuffled(self, sample: list[Hit]) -> list[Hit]:
        self._chance.shuffle(sample)
        return sample

    def _decoded(self, hit: Hit) -> Hit:
        if self._files_decoded >= DECODED_FILES_MAX:
            return hit
        self._files_decoded += max(1, hit.files)
        return msgspec.structs.replace(hit, is_decoded=True)
