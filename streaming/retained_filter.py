"""Ids that must stay enter; a filter leaves that says of any id whether it is one of them, in one process or on many workers.

`exact` is the sorted ids themselves. `bloom` is a bit field that never forgets an id and now and then spares a stranger: it is
sized for one in 100,000; filled beyond one in 20,000 it is not used at all. ⚠ Its hash is our own, keyed with a salt that
travels with the bits: nothing depends on what a worker's interpreter makes of `hash`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Protocol

import msgspec

from headwater.schemas.errors import FilterOverflow, MaintenanceRefused
from headwater.streaming.identified import IdSet

FALSE_POSITIVES = 1e-5
FALSE_POSITIVES_MAX = 5e-5
GROWTH = 1.1
"""The next run's filter is made for this many times what the last one kept."""
CAPACITY_MIN = 100_000
SALT_BYTES = 16


class RetainedFilter(Protocol):
    def keeps(self, realm: str, object_id: int) -> bool: ...


class ExactFilter:
    """Kept in the order of ids; eight bytes each."""

    name = "exact"

    def __init__(self, by_realm: Mapping[str, IdSet]) -> None:
        self._by_realm = dict(by_realm)

    def keeps(self, realm: str, object_id: int) -> bool:
        return object_id in self._by_realm[realm]


class BloomFilter:
    name = "bloom"

    def __init__(self, capacity: int, salt: bytes, false_positives: float = FALSE_POSITIVES) -> None:
        self.salt = salt
        self.bits = max(64, math.ceil(-capacity * math.log(false_positives) / math.log(2) ** 2))
        self.hashes = max(1, round(self.bits / capacity * math.log(2)))
        self._field = bytearray((self.bits + 7) // 8)

    def add(self, realm: str, ids: Iterable[int]) -> None:
        field = self._field
        for object_id in ids:
            for bit in self._places(realm, object_id):
                field[bit >> 3] |= 1 << (bit & 7)

    def keeps(self, realm: str, object_id: int) -> bool:
        field = self._field
        return all(field[bit >> 3] & (1 << (bit & 7)) for bit in self._places(realm, object_id))

    def measured_false_positives(self) -> float:
        """From the bits that are really set, not from how many ids were expected."""
        filled = int.from_bytes(self._field).bit_count()
        return float((filled / self.bits) ** self.hashes)

    def _places(self, realm: str, object_id: int) -> list[int]:
        digest = blake2b(object_id.to_bytes(8) + realm.encode(), key=self.salt, digest_size=16).digest()
        first, second = int.from_bytes(digest[:8]), int.from_bytes(digest[8:]) | 1
        return [(first + number * second) % self.bits for number in range(self.hashes)]


class FilterSizes(msgspec.Struct, frozen=True, kw_only=True):
    capacity: int
    false_positives: float


def capacity_after(retained_before: int) -> int:
    return max(CAPACITY_MIN, math.ceil(retained_before * GROWTH))


def build_bloom(by_realm: Mapping[str, IdSet], capacity: int, salt: bytes) -> BloomFilter:
    """⚠ `FilterOverflow` above the limit: then nothing is deleted, and the next run is sized by what was found now."""
    bloom = BloomFilter(capacity, salt)
    for realm, ids in by_realm.items():
        bloom.add(realm, ids)
    measured = bloom.measured_false_positives()
    if measured > FALSE_POSITIVES_MAX:
        found = sum(len(ids) for ids in by_realm.values())
        raise FilterOverflow(
            f"the filter was made for {capacity} ids and took {found}: it would spare one in {round(1 / measured)}.",
            field="filter",
            remedy="Run it again: the next filter is sized by this run. Or use --filter exact.",
            capacity=capacity,
            retained=found,
            false_positives=measured,
        )
    return bloom


def probe(retained: RetainedFilter, realm: str, ids: Iterable[int]) -> int:
    """⚠ Each retained id through the filter that workers will use, before anything is deleted. How many there were."""
    count = 0
    for object_id in ids:
        if not retained.keeps(realm, object_id):
            raise MaintenanceRefused(
                f"the filter has lost object {object_id} of {realm!r}.",
                field="filter",
                remedy="Nothing was deleted. Report this; --filter exact works without it.",
                object_id=object_id,
            )
        count += 1
    return count


def packed(ids: IdSet) -> bytes:
    return array("q", ids).tobytes()
