"""A Bloom filter of object ids: no false negatives, and a bounded false-positive rate.

⚠ The hash is our own, keyed with a salt that travels with the bits: it depends neither on an interpreter's `hash` nor on the
machine. It is written twice, for one id and for many at once; a test checks that both find the same places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_POSITIVES = 1e-5
SALT_BYTES = 16
IDS_AT_ONCE = 50_000
"""Batch size of the fast path: its temporary arrays fit into a processor's cache."""
_ALL = 2**64 - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class BloomFilter:
    name = "bloom"

    def __init__(self, capacity: int, salt: bytes, false_positives: float = FALSE_POSITIVES) -> None:
        self.salt = salt
        self.bits = max(64, math.ceil(-capacity * math.log(false_positives) / math.log(2) ** 2))
        self.hashes = max(1, round(self.bits / capacity * math.log(2)))
        self._field = bytearray((self.bits + 7) // 8)

    def add(self, realm: str, ids: Iterable[int]) -> None:
        field, keys = self._field, self._keys(realm)
        for object_id in ids:
            for bit in self._places(keys, object_id):
                field[bit >> 3] |= 1 << (bit & 7)

    def keeps(self, realm: str, object_id: int) -> bool:
        field = self._field
        return all(field[bit >> 3] & (1 << (bit & 7)) for bit in self._places(self._keys(realm), object_id))

    def merge(self, other: BloomFilter) -> BloomFilter:
        """Merges a filter from another worker, of the same size and salt."""
        if (self.bits, self.hashes, self.salt) != (other.bits, other.hashes, other.salt):
            raise ValueError("two filters of different make cannot be merged")
        mine = int.from_bytes(self._field, "little") | int.from_bytes(other._field, "little")
        self._field = bytearray(mine.to_bytes(len(self._field), "little"))
        return self

    def measured_false_positives(self) -> float:
        """Computed from the bits that are really set, not from the expected number of ids."""
        filled = int.from_bytes(self._field).bit_count()
        return float((filled / self.bits) ** self.hashes)

    # ── many at once ────────────────────────────────────────────────────────────────────────────────────────

    def add_many(self, realm: str, ids: NDArray[np.int64]) -> None:
        import numpy as np

        field = np.frombuffer(self._field, np.uint8)
        for first in range(0, len(ids), IDS_AT_ONCE):
            for places in self._many_places(realm, ids[first : first + IDS_AT_ONCE]):
                _set_bits(field, (places >> np.uint64(3)).astype(np.intp), _bit_in_byte(places))

    def keeps_many(self, realm: str, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        import numpy as np

        field = np.frombuffer(self._field, np.uint8)
        kept = np.ones(len(ids), np.bool_)
        for first in range(0, len(ids), IDS_AT_ONCE):
            here = kept[first : first + IDS_AT_ONCE]
            for places in self._many_places(realm, ids[first : first + IDS_AT_ONCE]):
                here &= (field[(places >> np.uint64(3)).astype(np.intp)] & _bit_in_byte(places)) != 0
        return kept

    def _many_places(self, realm: str, ids: NDArray[np.int64]) -> Iterable[NDArray[np.uint64]]:
        import numpy as np

        first_key, second_key = self._keys(realm)
        numbers = ids.astype(np.uint64)
        place, step = _mixed_many(numbers ^ np.uint64(first_key)), _mixed_many(numbers ^ np.uint64(second_key)) | np.uint64(1)
        for _ in range(self.hashes):
            yield place % np.uint64(self.bits)
            place = place + step

    # ── the hash ────────────────────────────────────────────────────────────────────────────────────────────

    def _keys(self, realm: str) -> tuple[int, int]:
        digest = blake2b(realm.encode(), key=self.salt, digest_size=16).digest()
        return int.from_bytes(digest[:8]), int.from_bytes(digest[8:])

    def _places(self, keys: tuple[int, int], object_id: int) -> list[int]:
        place, step = _mixed(object_id ^ keys[0]), _mixed(object_id ^ keys[1]) | 1
        return [(place + number * step & _ALL) % self.bits for number in range(self.hashes)]


def _mixed(number: int) -> int:
    """Each of the 64 output bits depends on each input bit; the constants are those of splitmix64."""
    number = (number ^ number >> 30) * _FIRST & _ALL
    number = (number ^ number >> 27) * _SECOND & _ALL
    return number ^ number >> 31


def _mixed_many(numbers: Any) -> Any:
    import numpy as np

    numbers = (numbers ^ numbers >> np.uint64(30)) * np.uint64(_FIRST)
    numbers = (numbers ^ numbers >> np.uint64(27)) * np.uint64(_SECOND)
    return numbers ^ numbers >> np.uint64(31)


def _set_bits(field: Any, bytes_at: Any, bits: Any) -> None:
    """If several bits fall into one byte, an assignment keeps only the last: missing bits are set again, at most 8 times."""
    while len(bytes_at):
        field[bytes_at] |= bits
        missing = (field[bytes_at] & bits) == 0
        bytes_at, bits = bytes_at[missing], bits[missing]


def _bit_in_byte(places: NDArray[np.uint64]) -> NDArray[np.uint8]:
    import numpy as np

    return np.left_shift(np.uint8(1), (places & np.uint64(7)).astype(np.uint8))
