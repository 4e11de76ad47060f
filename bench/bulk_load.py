"""Fills a branch with a given number of tables, or its log with a given number of commits.

It is built by the ordinary `Draft` and `Attempt`, so that index, links and chain are what commits of callers would have left;
only the batches are larger, and nothing is looked up for conflicts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from headwater.persistence.commit.attempt import Attempt, AttemptStats
from headwater.persistence.commit.draft import Draft, Plan, PlannedOperation
from headwater.persistence.log.head import Head, load_head
from headwater.persistence.store import RealmKernel
from headwater.producer.content.content_types import ICEBERG_TABLE, NAMESPACE, ContentType
from headwater.schemas.change import KeyPath, Kind, Op, Value

OBJECTS_AT_ONCE = 4_000
"""Written by one CAS."""
TABLES_AT_ONCE = 500
"""Put by one commit."""
TABLES_OF_A_LOG = 1_000
"""Among which the commits of a long log go round."""
NAMESPACES = 100


def namespace_key(number: int) -> KeyPath:
    return (f"db{number % NAMESPACES:02d}",)


def table_key(number: int) -> KeyPath:
    return (*namespace_key(number), f"table_{number:07d}")


def table_value(number: int, snapshot: int) -> Value:
    location = f"s3://lake/db{number % NAMESPACES:02d}/table_{number:07d}/metadata/{snapshot:08d}.metadata.json"
    return {"metadata_location": location, "snapshot_id": snapshot, "schema_id": 0, "spec_id": 0, "sort_order_id": 0}


def load_tables(kernel: RealmKernel, pointer: str, count: int) -> None:
    """Tables 0 to `count`, in an order that has nothing to do with their keys, some hundred by each commit."""
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    with BulkLoad(kernel, pointer) as load:
        load.commit([_put(namespace_key(number), b"n%015d" % number, NAMESPACE, {}) for number in range(NAMESPACES)])
        for first in range(0, count, TABLES_AT_ONCE):
            some = numbers[first : first + TABLES_AT_ONCE]
            load.commit([_put(table_key(n), b"t%015d" % n, ICEBERG_TABLE, table_value(n, 1)) for n in some])


def load_commits(kernel: RealmKernel, pointer: str, count: int, told: Callable[[int], None] = lambda _: None) -> None:
    """A log of `count` commits of one put each."""
    newest: dict[int, _Newest] = {}
    with BulkLoad(kernel, pointer) as load:
        for step in range(count):
            number = step % TABLES_OF_A_LOG
            before = newest.get(number)
            value = table_value(number, step)
            put = _put((f"table_{number:05d}",), b"t%015d" % number, ICEBERG_TABLE, value, before)
            newest[number] = _Newest(value, load.commit([put]))
            if step % 10_000 == 0:
                told(step)


class _Newest(NamedTuple):
    value: Value
    object_id: int


def _put(key: KeyPath, content_id: bytes, type: ContentType, value: Value, before: _Newest | None = None) -> PlannedOperation:
    return PlannedOperation(
        op=Op.PUT, key=key, content_id=content_id, type=type.name, tag=type.tag, after=value,
        before=before.value if before else None, before_id=before.object_id if before else 0,
    )  # fmt: skip


class BulkLoad:
    """Commits that are drafted one after the other and written together."""

    def __init__(self, kernel: RealmKernel, pointer: str) -> None:
        self._kernel = kernel
        self._pointer = pointer
        row = kernel.store.backend.read_pointer(kernel.realm, pointer)
        self._draft = self._new_draft(load_head(kernel.objects, row))
        self._commits = 0

    def __enter__(self) -> BulkLoad:
        return self

    def __exit__(self, fault: object, *_: object) -> None:
        if fault is None:
            self._write()

    def commit(self, operations: list[PlannedOperation]) -> int:
        """The id of the first content that it writes."""
        self._commits += 1
        plan = Plan(kind=Kind.COMMIT, author="bulk", message="", operations=operations)
        logged = self._draft.add(plan, f"bulk-{self._commits}")
        if len(self._draft.new_objects) >= OBJECTS_AT_ONCE:
            self._write()
        return logged.entry.operations[0].after_id

    def _write(self) -> None:
        kernel = self._kernel
        store = kernel.store
        if not self._draft.entries:
            return
        attempt = Attempt(store.backend, kernel.realm, kernel.objects, store.clock, store.options.retries, AttemptStats())
        row = attempt.run(self._draft)
        if row is None:
            raise AssertionError(f"somebody else commits to {self._pointer}")
        head = self._draft.head
        self._draft = self._new_draft(msgspec.structs.replace(head, row=row))

    def _new_draft(self, head: Head) -> Draft:
        store = self._kernel.store
        return Draft(self._pointer, head, self._kernel.objects, store, store.clock)
