"""Content ids with their keys in few bytes: sorted ids, offsets and encoded keys. Never changed; merged into a new one.

An id of 16 bytes, an offset of 4 and a key of about 20 take 40 bytes, where a dict takes 250.
"""

from __future__ import annotations

import itertools
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

import msgspec

ID_BYTES = 16


class KeyTable(msgspec.Struct, frozen=True):
    """An id may have several keys: then it comes several times."""

    ids: bytes
    offsets: array[int]
    """Where the key of each id begins, and where the last one ends."""
    keys: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.ids) + len(self.offsets) * self.offsets.itemsize + len(self.keys)

    def __len__(self) -> int:
        return len(self.ids) // ID_BYTES

    def id(self, place: int) -> bytes:
        return self.ids[place * ID_BYTES : (place + 1) * ID_BYTES]

    def key(self, place: int) -> bytes:
        return self.keys[self.offsets[place] : self.offsets[place + 1]]

    def keys_of(self, id: bytes) -> list[bytes]:
        place, found = bisect_left(range(len(self)), id, key=self.id), []
        while place < len(self) and self.id(place) == id:
            found.append(self.key(place))
            place += 1
        return found

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        return ((self.id(place), self.key(place)) for place in range(len(self)))

    def with_pairs(self, more: Iterable[tuple[bytes, bytes]]) -> KeyTable:
        """Those that are not in it are put in their places; the rest is copied in slices."""
        ids, keys, lengths = list[bytes](), list[bytes](), array("H")
        done, before = 0, (b"", b"")
        for one in sorted(more):
            if one == before or one[1] in self.keys_of(one[0]):
                continue
            place = bisect_left(range(len(self)), one[0], lo=done, key=self.id)
            self._copy(done, place, ids, keys, lengths)
            ids.append(one[0])
            keys.append(one[1])
            lengths.append(len(one[1]))
            done, before = place, one
        self._copy(done, len(self), ids, keys, lengths)
        return KeyTable(b"".join(ids), array("I", itertools.accumulate(lengths, initial=0)), b"".join(keys))

    def _copy(self, start: int, end: int, ids: list[bytes], keys: list[bytes], lengths: array[int]) -> None:
        if start < end:
            ids.append(self.ids[start * ID_BYTES : end * ID_BYTES])
            keys.append(self.keys[self.offsets[start] : self.offsets[end]])
            lengths.extend(self._lengths(start, end))

    def _lengths(self, start: int, end: int) -> Iterator[int]:
        return (self.offsets[place + 1] - self.offsets[place] for place in range(start, end))

    def lengths(self, start: int, end: int) -> bytes:
        """Lengths of the keys, 2 bytes each, little-endian."""
        return _little(array("H", self._lengths(start, end))).tobytes()


EMPTY_TABLE = KeyTable(b"", array("I", [0]), b"")


def table_of(pairs: Iterable[tuple[bytes, bytes]]) -> KeyTable:
    return EMPTY_TABLE.with_pairs(pairs)


def table_from(ids: list[bytes], lengths: list[bytes], keys: list[bytes]) -> KeyTable:
    """Builds a table from the columns of its parts, in order. `ValueError` if they contradict each other."""
    counted = array("H", b"".join(lengths))
    offsets = array("I", itertools.accumulate(_little(counted), initial=0))
    table = KeyTable(b"".join(ids), offsets, b"".join(keys))
    if len(table.ids) != len(counted) * ID_BYTES or offsets[-1] != len(table.keys):
        raise ValueError("the columns of a directory do not fit together")
    return table


def _little(values: array[int]) -> array[int]:
    """To the byte order of stored numbers, or from it."""
    if sys.byteorder == "big":
        values.byteswap()
    return values
