"""A sorted set of millions of object ids, eight bytes each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Protocol

RUN_IDS = 500_000
"""Ids that are collected as a Python set before they are packed into a sorted run."""


class MarkedIds(Protocol):
    """The ids that must stay of one realm, wherever they are held."""

    def __len__(self) -> int: ...

    def local(self) -> IdSet:
        """In this process."""

    def release(self) -> None:
        """The ids are not needed any more."""


class IdSet:
    """Immutable. Object ids are below 2**63."""

    def __init__(self, ids: array[int] | memoryview[int]) -> None:
        """Sorted, and each once."""
        self._ids = ids

    def __contains__(self, object_id: int) -> bool:
        return self.position(object_id) is not None

    def position(self, object_id: int) -> int | None:
        """Its position in the order of ids; None if it is not among them."""
        at = bisect_left(self._ids, object_id)
        return at if at < len(self._ids) and self._ids[at] == object_id else None

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def local(self) -> IdSet:
        return self

    def release(self) -> None:
        pass

    def packed(self) -> bytes:
        """Eight bytes each, sorted, in this machine's byte order."""
        return self._ids.tobytes()

    def view(self) -> memoryview[int]:
        """The same without a copy."""
        return memoryview(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdSet) and self._ids == other._ids

    def __hash__(self) -> int:
        return hash(self._ids.tobytes())


class IdCollector:
    def __init__(self) -> None:
        self._newest: set[int] = set()
        self._runs: list[array[int]] = []

    def add(self, ids: Iterable[int]) -> None:
        self._newest.update(ids)
        if len(self._newest) >= RUN_IDS:
            self._pack()

    def finish(self) -> IdSet:
        self._pack()
        if len(self._runs) == 1:
            return IdSet(self._runs[0])
        merged = array("q")
        for run in self._runs:
            merged.extend(run)
        last = -1
        unique = array("q")
        for object_id in sorted(merged):  # already in runs: this is a merge
            if object_id != last:
                unique.append(object_id)
                last = object_id
        return IdSet(unique)

    def _pack(self) -> None:
        if self._newest or not self._runs:
            self._runs.append(array("q", sorted(self._newest)))
            self._newest = set()
