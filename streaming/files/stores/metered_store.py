"""Bounds the requests and bytes of listing and reading: one budget for all storages and threads of a process.

Deletions have limits of their own (purging.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headwater.persistence.clock import Clock
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.limits import Rate
from headwater.streaming.files.stores.object_store import Deleted, ObjectStore


class Budget(NamedTuple):
    requests: Rate
    bytes: Rate


def budget_of(requests_per_second: float, bytes_per_second: float, clock: Clock) -> Budget:
    """0 for no limit."""
    return Budget(Rate(requests_per_second, clock), Rate(bytes_per_second, clock))


class MeteredStore:
    """One storage within the budget."""

    def __init__(self, store: ObjectStore, budget: Budget) -> None:
        self._store = store
        self._budget = budget
        self.batch_max = store.batch_max

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        self._budget.requests.take()
        for page in self._store.list(prefix):
            yield page
            self._budget.requests.take()

    def folders(self, prefix: str) -> Sequence[str]:
        self._budget.requests.take()
        return self._store.folders(prefix)

    def files(self, prefix: str) -> Sequence[FoundFile]:
        self._budget.requests.take()
        return self._store.files(prefix)

    def head(self, location: str) -> FoundFile | None:
        self._budget.requests.take()
        return self._store.head(location)

    def read(self, location: str, bytes_max: int) -> bytes:
        """The size is known only afterwards: a large file delays the next one."""
        self._budget.requests.take()
        content = self._store.read(location, bytes_max)
        self._budget.bytes.take(len(content))
        return content

    def write(self, location: str, content: bytes) -> FoundFile:
        self._budget.requests.take()
        return self._store.write(location, content)

    def delete(self, locations: Sequence[str]) -> Deleted:
        return self._store.delete(locations)
