"""A cache bounded by what its values weigh, per worker."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class WeighedCache(Generic[K, V]):
    """Those that were not asked for longest go first. Thread-safe. ⚠ Values are shared: nobody may change them."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def keep(self, key: K, value: V, weight_bytes: int) -> None:
        if weight_bytes > self.bytes_max:
            return
        with self._lock:
            if key in self._kept:
                return
            self._kept[key] = (value, weight_bytes)
            self.bytes += weight_bytes
            while self.bytes > self.bytes_max:
                self.bytes -= self._kept.popitem(last=False)[1][1]
