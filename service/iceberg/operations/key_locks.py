"""Locks on keys of a branch, so that writers of one worker queue instead of losing races."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from headwater.schemas.change import KeyPath

LOCKS = 1_024


class KeyLocks:
    """One of a fixed number of locks for each key; taken in one order, so there is no deadlock."""

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    @contextmanager
    def of(self, pointer: str, keys: Sequence[KeyPath]) -> Iterator[None]:
        with ExitStack() as held:
            for number in sorted({hash((pointer, key)) % LOCKS for key in keys}):
                held.enter_context(self._locks[number])
            yield
