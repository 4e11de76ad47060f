"""Turns log entries or Avro records into Arrow batches, one row per Change, with the same columns on every transport.

Object ids are numbers here (they are hex digits in JSON), so that they join with the rows of a scan. Values before and after
are JSON text, because their fields depend on the content type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from headwater.persistence.log.log_entry import (
    LogRecord,
    StoredOperation,
    head_before,
    objects_added,
    objects_released,
    parent,
)
from headwater.persistence.rows import realm_name_of
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import content_id_text, micros_of

CHANGE_TYPES = {
    "realm": "string",
    "realm_instance": "string",
    "pointer": "string",
    "seq": "bigint",
    "entry_id": "string",
    "previous_id": "string",
    "kind": "string",
    "commit_id": "string",
    "parent_id": "string",
    "head_before": "string",
    "time": "timestamp",
    "author": "string",
    "message": "string",
    "headers": "map<string,string>",
    "request_id": "string",
    "operations": "array<struct<op:string,key:array<string>,content_id:string,type:string,"
    "before:string,after:string,from_key:array<string>>>",
    "objects_added": "array<bigint>",
    "objects_released": "array<bigint>",
    "base": "struct<pointer:string,seq:bigint,commit_id:string>",
    "source": "struct<pointer:string,commit_id:string>",
}
"""Columns in their order, as Spark spells their types."""


def change_ddl(columns: Iterable[str] = CHANGE_TYPES) -> str:
    return ", ".join(f"{name} {CHANGE_TYPES[name]}" for name in columns)


CHANGE_DDL = change_ddl()
"""What `DataFrame.schema` is with all columns."""

_TEXTS = pa.list_(pa.string())
_IDS = pa.list_(pa.int64())
_OPERATION = pa.struct(
    [
        ("op", pa.string()),
        ("key", _TEXTS),
        ("content_id", pa.string()),
        ("type", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("from_key", _TEXTS),
    ]
)
CHANGE_ARROW = pa.schema(
    [
        ("realm", pa.string()),
        ("realm_instance", pa.string()),
        ("pointer", pa.string()),
        ("seq", pa.int64()),
        ("entry_id", pa.string()),
        ("previous_id", pa.string()),
        ("kind", pa.string()),
        ("commit_id", pa.string()),
        ("parent_id", pa.string()),
        ("head_before", pa.string()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("author", pa.string()),
        ("message", pa.string()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("request_id", pa.string()),
        ("operations", pa.list_(_OPERATION)),
        ("objects_added", _IDS),
        ("objects_released", _IDS),
        ("base", pa.struct([("pointer", pa.string()), ("seq", pa.int64()), ("commit_id", pa.string())])),
        ("source", pa.struct([("pointer", pa.string()), ("commit_id", pa.string())])),
    ]
)

Row = dict[str, Any]
_json_text = msgspec.json.Encoder(order="deterministic").encode


def arrow_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=CHANGE_ARROW)


def entries_batch(
    entries: Sequence[LogRecord], realm_instance: str, columns: Sequence[str] = tuple(CHANGE_TYPES)
) -> pa.RecordBatch:
    """Column by column: columns that were not requested are not computed, and Arrow reads no dictionaries."""
    arrays = []
    for name in columns:
        value = _VALUES[name]
        arrays.append(pa.array([value(logged, realm_instance) for logged in entries], CHANGE_ARROW.field(name).type))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def row_of_entry(logged: LogRecord, realm_instance: str) -> Row:
    """The same as `change_of`, without going through text."""
    return {name: value(logged, realm_instance) for name, value in _VALUES.items()}


def _base(logged: LogRecord, _: str) -> Row | None:
    base = logged.entry.base
    return None if base is None else {"pointer": base.pointer, "seq": base.seq, "commit_id": base.commit.hex()}


def _source(logged: LogRecord, _: str) -> Row | None:
    source = logged.entry.source
    return None if source is None else {"pointer": source.pointer, "commit_id": source.commit.hex()}


_VALUES: dict[str, Callable[[LogRecord, str], Any]] = {
    "realm": lambda _, realm: realm_name_of(realm),
    "realm_instance": lambda _, realm: realm,
    "pointer": lambda logged, _: logged.entry.pointer,
    "seq": lambda logged, _: logged.entry.seq,
    "entry_id": lambda logged, _: logged.entry_id.hex(),
    "previous_id": lambda logged, _: logged.entry.previous.hex(),
    "kind": lambda logged, _: str(logged.entry.kind),
    "commit_id": lambda logged, _: logged.commit.hex(),
    "parent_id": lambda logged, _: parent(logged.entry).hex(),
    "head_before": lambda logged, _: head_before(logged.entry).hex(),
    "time": lambda logged, _: logged.entry.time,
    "author": lambda logged, _: logged.entry.author,
    "message": lambda logged, _: logged.entry.message,
    "headers": lambda logged, _: list(logged.entry.headers.items()),
    "request_id": lambda logged, _: logged.entry.request_id,
    "operations": lambda logged, _: [_operation(op) for op in logged.entry.operations],
    "objects_added": lambda logged, _: objects_added(logged.entry, logged.object_id),
    "objects_released": lambda logged, _: objects_released(logged.entry),
    "base": _base,
    "source": _source,
}


def changes_batch(
    changes: Sequence[Change], previous_ids: Mapping[str, str], realm_instance: str, columns: Sequence[str]
) -> pa.RecordBatch:
    """Changes as a server shows them; `previous_ids` by entry id, where they are known."""
    rows = [_row_of_change(change, previous_ids.get(change.entry_id, ""), realm_instance) for change in changes]
    return arrow_batch(rows).select(list(columns))


def _row_of_change(change: Change, previous_id: str, realm_instance: str) -> Row:
    row: Row = msgspec.to_builtins(change)
    for operation in row["operations"]:
        for side in ("before", "after"):
            operation[side] = None if operation[side] is None else _json_text(operation[side]).decode()
    return row_of_avro(row, realm_instance, previous_id)


def row_of_avro(decoded: Row, realm_instance: str, previous_id: str) -> Row:
    """A Change as Avro reads it: values are JSON text already, in the same order of fields."""
    decoded["realm_instance"] = realm_instance
    decoded["previous_id"] = previous_id
    decoded["time"] = micros_of(decoded["time"])
    decoded["headers"] = list(decoded["headers"].items())
    decoded["objects_added"] = _numbers(decoded["objects_added"])
    decoded["objects_released"] = _numbers(decoded["objects_released"])
    return decoded


def _operation(op: StoredOperation) -> Row:
    return {
        "op": str(op.op),
        "key": op.key,
        "content_id": content_id_text(op.content_id),
        "type": op.type,
        "before": None if op.before is None else _json_text(op.before).decode(),
        "after": None if op.after is None else _json_text(op.after).decode(),
        "from_key": op.from_key,
    }


def _numbers(hex_ids: Sequence[str]) -> list[int]:
    return [int(text, 16) for text in hex_ids]
