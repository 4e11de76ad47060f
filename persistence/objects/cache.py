"""An LRU cache of decoded immutable objects, bounded by bytes.

The cache knows content, never existence: what is not in it is simply asked for, and nothing is ever remembered as absent.
Objects never change under their id and realm instances are never used twice, so no entry can grow stale and caches of several
processes need no coordination.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

V = TypeVar("V")

ENTRY_BYTES = 300
"""What an entry takes beside its value (key, its two integers and strings, the slot in the table), so that the bound holds
for a million tiny objects too."""


class ObjectCache(Generic[V]):
    """Least recently used first out, bounded by bytes. Zero bytes switch it off."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[tuple[str, int], tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, realm: str, object_id: int) -> V | None:
        key = (realm, object_id)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.misses += 1
                return None
            self._entries.move_to_end(key)
            self.hits += 1
            return entry[0]

    def peek(self, realm: str, object_id: int) -> V | None:
        """The value, without counting as a use."""
        entry = self._entries.get((realm, object_id))
        return None if entry is None else entry[0]

    def get_many(self, realm: str, object_ids: Iterable[int]) -> dict[int, V]:
        """Those that are here, under one lock."""
        found: dict[int, V] = {}
        with self._lock:
            for object_id in object_ids:
                entry = self._entries.get((realm, object_id))
                if entry is None:
                    self.misses += 1
                else:
                    self._entries.move_to_end((realm, object_id))
                    self.hits += 1
                    found[object_id] = entry[0]
        return found

    def put(self, realm: str, object_id: int, value: V, value_bytes: int) -> None:
        """Keep the value as the newest; one that alone exceeds the bound is not kept and pushes nothing out."""
        self.put_many(realm, ((object_id, value, value_bytes),))

    def put_many(self, realm: str, values: Iterable[tuple[int, V, int]]) -> None:
        """Ids with their values and bytes, under one lock."""
        entries = self._entries
        with self._lock:
            for object_id, value, value_bytes in values:
                key, weight = (realm, object_id), value_bytes + ENTRY_BYTES
                replaced = entries.pop(key, None)
                if replaced is not None:
                    self.bytes_used -= replaced[1]
                if weight <= self.bytes_max:
                    entries[key] = (value, weight)
                    self.bytes_used += weight
            while self.bytes_used > self.bytes_max:
                self.bytes_used -= entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Forget every entry; the counts stay."""
        with self._lock:
            self._entries.clear()
            self.bytes_used = 0
