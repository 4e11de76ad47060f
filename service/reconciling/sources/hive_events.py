"""Turns notifications of a Hive metastore, and its databases and tables, into what a connector takes. Pure.

A message holds structs as Thrift writes them into JSON: by field number, each value under the name of its type.
"""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Iterator
from hashlib import blake2s
from typing import Any

import msgspec

from headwater.producer.connectors.source_spi import SourceContent, SourceOperation
from headwater.producer.content.content_types import ICEBERG_TABLE, NAMESPACE
from headwater.schemas.change import KeyPath, Op, Value
from headwater.schemas.errors import SourceRefused
from headwater.schemas.whole_numbers import whole_number
from headwater.service.reconciling.sources.thrift_calls import Fields

CATALOG = "hive"
"""The metastore's default catalog, which is followed; older releases have no other."""
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
_NAME, _DESCRIPTION, _LOCATION, _DATABASE_PARAMETERS = 1, 2, 3, 4
_TABLE, _DATABASE, _TABLE_PARAMETERS = 1, 2, 9


class HiveEvent(msgspec.Struct, frozen=True):
    id: int
    seconds: int
    type: str
    database: str
    table: str
    message: str
    catalog: str
    format: str

    @property
    def digest(self) -> str:
        """Another log has another event under the id."""
        return blake2s(msgspec.json.encode(self), digest_size=8).hexdigest()


def event_of(fields: Fields) -> HiveEvent:
    texts = {id: fields.get(id) or "" for id in (3, 4, 5, 6, 7, 8)}
    if not isinstance(fields.get(1), int) or not all(isinstance(text, str) for text in texts.values()):
        raise SourceRefused("a notification without an id.", field="uri")
    return HiveEvent(fields[1], int(fields.get(2) or 0), texts[3], texts[4], texts[5], texts[6], texts[8], texts[7])


def operations_of(event: HiveEvent) -> tuple[SourceOperation, ...]:
    """None for events that change nothing that is kept here, such as those on partitions, and those of other catalogs."""
    read = _READERS.get(event.type)
    if read is None or event.catalog not in ("", CATALOG):
        return ()
    return tuple(read(event, _message(event)))


def namespace_of(database: Fields) -> SourceContent:
    properties = {**(database.get(_DATABASE_PARAMETERS) or {})}
    for name, id in (("location", _LOCATION), ("comment", _DESCRIPTION)):
        if database.get(id):
            properties[name] = str(database[id])
    return SourceContent(key=(_text(database, _NAME),), id="", type=NAMESPACE.name, value={"properties": properties})


def table_of(table: Fields) -> SourceContent | None:
    """None for what is no Iceberg table."""
    key = key_of(table)
    parameters = table.get(_TABLE_PARAMETERS) or {}
    location = parameters.get("metadata_location", "")
    if parameters.get("table_type", "").upper() != "ICEBERG" or not location:
        return None
    value: Value = {"metadata_location": location}
    if (snapshot := whole_number(parameters.get("current-snapshot-id", ""))) is not None:
        value["snapshot_id"] = snapshot
    return SourceContent(key=key, id=parameters.get("uuid", ""), type=ICEBERG_TABLE.name, value=value)


def key_of(table: Fields) -> KeyPath:
    return _text(table, _DATABASE), _text(table, _TABLE)


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


def _database_put(event: HiveEvent, message: Value) -> Iterator[SourceOperation]:
    content = namespace_of(_struct(event, message, "dbAfterJson" if "dbAfterJson" in message else "dbJson"))
    yield SourceOperation(op=Op.PUT, key=content.key, content=content)


def _database_dropped(event: HiveEvent, message: Value) -> Iterator[SourceOperation]:
    yield SourceOperation(op=Op.DELETE, key=(event.database,))


def _table_created(event: HiveEvent, message: Value) -> Iterator[SourceOperation]:
    content = table_of(_struct(event, message, "tableObjJson"))
    if content is not None:
        yield SourceOperation(op=Op.PUT, key=content.key, content=content)


def _table_altered(event: HiveEvent, message: Value) -> Iterator[SourceOperation]:
    before, after = (_struct(event, message, f"tableObj{which}Json") for which in ("Before", "After"))
    came_from, content = key_of(before), table_of(after)
    if content is None:
        yield SourceOperation(op=Op.DELETE, key=came_from)
    elif content.key == came_from:
        yield SourceOperation(op=Op.PUT, key=content.key, content=content)
    else:
        yield SourceOperation(op=Op.RENAME, key=content.key, from_key=came_from, content=content)


def _table_dropped(event: HiveEvent, message: Value) -> Iterator[SourceOperation]:
    yield SourceOperation(op=Op.DELETE, key=(event.database, event.table))


_READERS = {
    "CREATE_DATABASE": _database_put,
    "ALTER_DATABASE": _database_put,
    "DROP_DATABASE": _database_dropped,
    "CREATE_TABLE": _table_created,
    "ALTER_TABLE": _table_altered,
    "DROP_TABLE": _table_dropped,
}


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────


def _message(event: HiveEvent) -> Value:
    try:
        raw = event.message.encode()
        if event.format.startswith("gzip"):
            with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(raw))) as packed:
                raw = packed.read(MESSAGE_BYTES_MAX + 1)
        if len(raw) > MESSAGE_BYTES_MAX:
            raise SourceRefused(f"event {event.id} has more than {MESSAGE_BYTES_MAX} bytes.", field="uri")
        return msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, OSError, EOFError) as error:
        raise SourceRefused(f"event {event.id} cannot be read: {error}.", field="uri") from error


def _struct(event: HiveEvent, message: Value, name: str) -> Fields:
    try:
        fields = msgspec.json.decode(message[name], type=dict[str, dict[str, Any]])
        return {int(id): _plain(value) for id, value in fields.items() if value}
    except (KeyError, TypeError, ValueError, msgspec.DecodeError) as error:
        raise SourceRefused(f"event {event.id} has no {name} that can be read.", field="uri") from error


def _plain(value: dict[str, Any]) -> Any:
    """Texts, numbers and maps; other structs and lists are as they came."""
    kind, found = next(iter(value.items()))
    return dict(found[3]) if kind == "map" and isinstance(found, list) and len(found) > 3 else found


def _text(fields: Fields, id: int) -> str:
    found = fields.get(id)
    if not isinstance(found, str) or not found:
        raise SourceRefused("a database or table without a name.", field="uri")
    return found
