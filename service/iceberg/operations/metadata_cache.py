"""A cache of metadata files that were read or written, bounded per worker."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

KEPT_BYTES_MAX = 256 * 1024 * 1024
"""Total per worker, over all warehouses."""
BYTES_A_BYTE = 6
"""What a byte of JSON takes in memory: itself, the values made of it (4, as measured), and the copy that engines are shown."""


class Sized(Protocol):
    json: bytes


T = TypeVar("T", bound=Sized)
Key = tuple[str, str]
"""⚠ Of warehouse and location: what one warehouse was allowed to read is not given to another one."""


class MetadataCache(Generic[T]):
    """Those that were not asked for longest go first. Thread-safe, and quick enough for an event loop."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[Key, T] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: Key) -> T | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
            return kept

    def keep(self, key: Key, file: T) -> T:
        """The one that is kept: the first of two that were read at once."""
        with self._lock:
            if key in self._kept:
                return self._kept[key]
            self._kept[key] = file
            self.bytes += _weight(file)
            while self.bytes > self._bytes_max and len(self._kept) > 1:
                self.bytes -= _weight(self._kept.popitem(last=False)[1])
        return file

    def supersede(self, key: Key) -> None:
        """There is a newer one: this one goes first, unless it is asked for again."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key, last=False)

    def forget(self, key: Key) -> None:
        with self._lock:
            gone = self._kept.pop(key, None)
            self.bytes -= 0 if gone is None else _weight(gone)


def _weight(file: Sized) -> int:
    return BYTES_A_BYTE * len(file.json)
