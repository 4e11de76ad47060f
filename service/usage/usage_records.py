"""The usage of realms, as rows of the system realm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM
from headwater.persistence.store import RealmKernel, Store
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import OutcomeUnknown
from headwater.schemas.http.manage_json import RealmUsage, TypeUsage

USAGE_TYPE = "usage"


class UsageOfType(msgspec.Struct, frozen=True, array_like=True):
    table: str
    type: str
    rows: int
    bytes: int


class UsageRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload; its key is the realm instance. Append new fields, never move one."""

    measured_at: int
    types: list[UsageOfType]


OBJECT_TYPES.register(ObjectType(USAGE_TYPE, UsageRecord, Life.MUTABLE))


def write_usage(store: Store, instance: str, record: UsageRecord) -> None:
    """One of several servers that write at the same time wins: all of them measured the same thing."""
    there = store.backend.read_mutable(SYSTEM_REALM, USAGE_TYPE, instance)
    row = next_row(USAGE_TYPE, instance, there, msgspec.msgpack.encode(record), record.measured_at)
    with suppress(OutcomeUnknown):  # written again with the next round
        cas_row(store.backend, SYSTEM_REALM, there, row, store.clock)


def read_usage(kernel: RealmKernel) -> RealmUsage:
    row = kernel.store.backend.read_mutable(SYSTEM_REALM, USAGE_TYPE, kernel.realm)
    record = UsageRecord(0, []) if row is None else msgspec.msgpack.decode(row.payload, type=UsageRecord)
    types = [TypeUsage(table=one.table, type=one.type, rows=one.rows, bytes=one.bytes) for one in record.types]
    return RealmUsage(
        realm=kernel.realm_name,
        measured=time_text(record.measured_at) if record.measured_at else None,
        rows=sum(one.rows for one in types),
        bytes=sum(one.bytes for one in types),
        types=types,
    )


def all_usage(store: Store) -> Iterator[tuple[str, UsageRecord]]:
    """By realm instance."""
    for row in store.backend.all_mutable(SYSTEM_REALM, USAGE_TYPE):
        yield row.key, msgspec.msgpack.decode(row.payload, type=UsageRecord)


def forget_usage(store: Store, but: set[str]) -> None:
    """Deletes the records of realms that no longer exist."""
    for instance in [instance for instance, _ in all_usage(store) if instance not in but]:
        row = store.backend.read_mutable(SYSTEM_REALM, USAGE_TYPE, instance)
        if row is not None:
            delete_row(store.backend, SYSTEM_REALM, row, store.clock)
