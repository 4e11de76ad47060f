"""Rows in dictionaries under one lock, shared by the memory backends of a process."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Generic, NamedTuple, TypeVar

import msgspec

from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow

R = TypeVar("R")

BUCKETS = 256
"""A scan copies the references of one bucket at a time, so that writers wait for no more than that."""


class RowKey(NamedTuple):
    realm: str
    type: str
    key: str
    id: int = 0


class StoredRow(msgspec.Struct, Generic[R], frozen=True, gc=False):
    row: R
    revision: int


class RowTable(Generic[R]):
    """The rows of one table, spread over buckets that scans take as shares. Parts of an object lie together."""

    def __init__(self) -> None:
        self.buckets: list[dict[RowKey, dict[int, StoredRow[R]]]] = [{} for _ in range(BUCKETS)]

    def parts(self, key: RowKey) -> dict[int, StoredRow[R]]:
        return self.buckets[hash(key) % BUCKETS].get(key, {})

    def get(self, key: RowKey) -> R | None:
        kept = self.parts(key).get(0)
        return kept.row if kept else None

    def put(self, key: RowKey, row: R, revision: int, part: int = 0) -> None:
        self.buckets[hash(key) % BUCKETS].setdefault(key, {})[part] = StoredRow(row, revision)

    def remove(self, key: RowKey, part: int = 0) -> None:
        bucket = self.buckets[hash(key) % BUCKETS]
        del bucket[key][part]
        if not bucket[key]:
            del bucket[key]

    def remove_realms(self, realms: frozenset[str]) -> None:
        for bucket in self.buckets:
            for key in [key for key in bucket if key.realm in realms]:
                del bucket[key]


class MemoryStore:
    """What several backends of one process may share; its lock guards all of it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.schema_version: int | None = None
        self.writes = 0
        self.pointers: RowTable[PointerRow] = RowTable()
        self.objects: RowTable[ObjectRow] = RowTable()
        self.mutable_rows: RowTable[MutableRow] = RowTable()
        self.names: RowTable[int] = RowTable()
        """Each with the time when it was added."""
        self.sorted_names: defaultdict[str, list[str]] = defaultdict(list)
        self.sorted_keys: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        self.moved: defaultdict[str, dict[str, int]] = defaultdict(dict)
        """Realm → pointer → number of its newest write, the newest last."""

    def next_revision(self) -> int:
        """Never used twice, so that a row that was deleted and written again is not taken for the old one."""
        self.writes += 1
        return self.writes
