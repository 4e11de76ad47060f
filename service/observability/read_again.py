"""Reads figures from the store at a bounded rate, however often metrics are scraped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from headwater.schemas.errors import HeadwaterError

READ_AGAIN_SECONDS = 5.0

T = TypeVar("T")


class ReadAgain(Generic[T]):
    def __init__(self, look: Callable[[], T], seconds: float = READ_AGAIN_SECONDS) -> None:
        self._look = look
        self._seconds = seconds
        self._lock = threading.Lock()
        self._read: T | None = None
        self._read_at = float("-inf")

    def newest(self) -> T | None:
        """None while the store is away: other figures matter all the more then."""
        with self._lock:
            if time.monotonic() - self._read_at > self._seconds:
                try:
                    self._read = self._look()
                except HeadwaterError:
                    self._read = None
                self._read_at = time.monotonic()
            return self._read
