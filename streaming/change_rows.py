"""Log entries or Avro records enter; Arrow batches leave, one row for each Change: the same columns whatever the transport.

Object ids are numbers here (they are hex digits in JSON), so that they join with the rows of a scan. Values before and after
are JSON text, for their fields are the content type's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from headwater.persistence.log_entry import (
    Logged,
    StoredOperation,
    head_before,
    objects_added,
    objects_released,
    parent,
)
from headwater.schemas.entry_ids import content_id_text, micros_of

CHANGE_DDL = (
    "realm string, realm_instance string, pointer string, seq bigint, entry_id string, kind string, commit_id string, "
    "parent_id string, head_before string, time timestamp, author string, message string, headers map<string,string>, "
    "request_id string, operations array<struct<op:string,key:array<string>,content_id:string,type:string,"
    "before:string,after:string,from_key:array<string>>>, objects_added array<bigint>, objects_released array<bigint>, "
    "base struct<pointer:string,seq:bigint,commit_id:string>, source struct<pointer:string,commit_id:string>"
)
"""What `DataFrame.schema` is, as Spark writes it."""

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


def row_of_entry(logged: Logged, realm_instance: str) -> Row:
    """The same as `change_of`, without the way over text."""
    entry = logged.entry
    base, source = entry.base, entry.source
    return {
        "realm": realm_instance.partition("#")[0],
        "realm_instance": realm_instance,
        "pointer": entry.pointer,
        "seq": entry.seq,
        "entry_id": logged.entry_id.hex(),
        "kind": str(entry.kind),
        "commit_id": logged.commit.hex(),
        "parent_id": parent(entry).hex(),
        "head_before": head_before(entry).hex(),
        "time": entry.time,
        "author": entry.author,
        "message": entry.message,
        "headers": list(entry.headers.items()),
        "request_id": entry.request_id,
        "operations": [_operation(op) for op in entry.operations],
        "objects_added": objects_added(entry, logged.object_id),
        "objects_released": objects_released(entry),
        "base": base and {"pointer": base.pointer, "seq": base.seq, "commit_id": base.commit.hex()},
        "source": source and {"pointer": source.pointer, "commit_id": source.commit.hex()},
    }


def row_of_avro(decoded: Row, realm_instance: str) -> Row:
    """A Change as Avro reads it: values are JSON text already, in the same order of fields."""
    decoded["realm_instance"] = realm_instance
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
