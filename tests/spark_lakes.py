"""A store URL enters; a realm leaves with a small history that has every kind of entry, and what the log says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from headwater.embedded import CatalogHandle, Headwater
from headwater.persistence.log_entry import change_of
from headwater.persistence.pointer_log import PointerLog
from headwater.persistence.rows import Anchor
from headwater.persistence.store import RealmKernel
from headwater.producer.content import IcebergTable, Namespace
from headwater.producer.operations import Delete, Put, Rename
from headwater.schemas.change import Base, Change, Kind, Op, Operation, Source
from headwater.schemas.entry_ids import time_text


def fill(engine: Headwater, tables: int = 12) -> CatalogHandle:
    """Commits, drops, renames, branches, a tag, an assign, a merge and a deleted branch."""
    realm = engine.ensure_realm()
    lake = realm.ensure_catalog("lake", storage_root="file:///lake")
    main = lake.branch("main")
    main.commit([Put(("db",), Namespace())], author="ada", message="begin")
    for number in range(tables):
        main.commit(
            [Put(("db", f"t{number}"), IcebergTable(f"s3://lake/{number}.json"))], author="ada" if number % 2 else "bob"
        )
    lake.create_tag("v1")
    dev = lake.create_branch("dev")
    dev.commit([Put(("db", "new"), IcebergTable("s3://lake/new.json")), Delete(("db", "t0"))], author="cyd")
    dev.commit([Rename(("db", "t1"), ("db", "renamed"))], author="cyd")
    lake.merge("dev", "main", author="cyd")
    lake.create_branch("old", "v1").delete()
    dev.assign("v1")
    dev.commit([Put(("db", "after"), IcebergTable("s3://lake/after.json"))], author="cyd")
    main.commit([Put(("db", "t2"), IcebergTable("s3://lake/2b.json"))], author="ada")
    return lake


def logged_changes(kernel: RealmKernel) -> list[Change]:
    """Everything that the logs of the realm hold, by pointer and seq."""
    names = kernel.store.backend.list_names(kernel.realm)
    rows = kernel.store.backend.read_pointers(kernel.realm, names)
    return [
        change_of(logged, kernel.realm_name)
        for name in sorted(name for name in names if name in rows and rows[name].head)
        for logged in PointerLog(kernel, name).forward()
    ]


def change_of_row(row: Any) -> Change:
    """A row of a Spark DataFrame as the Change that it must be."""
    micros = (row.time.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return Change(
        **{name: row[name] for name in ("realm", "pointer", "seq", "entry_id", "commit_id", "parent_id", "head_before")},
        **{name: row[name] for name in ("author", "message", "headers", "request_id")},
        kind=Kind(row.kind),
        time=time_text(micros),
        operations=tuple(_operation(op) for op in row.operations),
        objects_added=tuple(f"{added:016x}" for added in row.objects_added),
        objects_released=tuple(f"{released:016x}" for released in row.objects_released),
        base=None if row.base is None else Base(**row.base.asDict()),
        source=None if row.source is None else Source(**row.source.asDict()),
    )


def _operation(op: Any) -> Operation:
    return Operation(
        op=Op(op.op),
        key=tuple(op.key),
        content_id=op.content_id,
        type=op.type,
        before=None if op.before is None else msgspec.json.decode(op.before),
        after=None if op.after is None else msgspec.json.decode(op.after),
        from_key=None if op.from_key is None else tuple(op.from_key),
    )


def put_tables(engine: Headwater, *names: str) -> None:
    main = engine.realm().catalog("lake").branch("main")
    for name in names:
        main.commit([Put(("db", name), IcebergTable(f"s3://lake/{name}.json"))], author="ada")


def cut_history(engine: Headwater, pointer: str) -> None:
    """What expiring does to the pointer's row: only the newest entry is left in the feed."""
    kernel = engine.realm().kernel
    row = engine.store.backend.read_pointer(kernel.realm, pointer)
    assert row is not None
    below = kernel.walk.at(kernel.walk.load(row.head), row.seq - 1)
    anchor = Anchor(below.entry_id, below.entry.time)
    cut = msgspec.structs.replace(row, floor=row.seq, anchor=anchor, version=row.version + 1)
    assert engine.store.backend.cas_pointer(kernel.realm, pointer, row.version, cut)
