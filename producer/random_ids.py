"""Random bytes of the operating system, drawn in advance.

Drawing them one by one releases the interpreter's lock each time: on a server's event loop that hands it to a lane that is
busy, and the loop waits for its turn. ⚠ A forked process must not repeat its parent's: the store is emptied in it.
"""

from __future__ import annotations

import os
import threading

DRAWN_BYTES = 8_192


class RandomBytes:
    """Thread-safe: no byte is given out twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = b""
        self._used = 0

    def take(self, count: int) -> bytes:
        with self._lock:
            start = self._used
            if start + count > len(self._drawn):
                self._drawn, start = os.urandom(max(DRAWN_BYTES, count)), 0
            self._used = start + count
            return self._drawn[start : start + count]

    def forget(self) -> None:
        """In a child the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()
        self._drawn, self._used = b"", 0


_random = RandomBytes()
os.register_at_fork(after_in_child=_random.forget)


def random_bytes(count: int) -> bytes:
    return _random.take(count)
