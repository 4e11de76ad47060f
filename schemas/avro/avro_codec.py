"""Encodes a Change in Avro, and decodes it with this version's schema or the one that the writer used."""

from __future__ import annotations

import io
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import fastavro
import msgspec
from msgspec import inspect

from headwater.schemas.avro.avro_schema import avro_schema, is_json_text, without_null
from headwater.schemas.change import Change

CHANGE_SCHEMA = avro_schema(Change)
_PARSED = fastavro.parse_schema(CHANGE_SCHEMA)
_json_text = msgspec.json.Encoder(order="deterministic").encode

Convert = Callable[[Any], Any]


def to_avro(change: Change) -> bytes:
    """The bare datum: the transport adds the framing (registry, single-object)."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _PARSED, avro_record(change))
    return buffer.getvalue()


def from_avro(datum: bytes, writer_schema: dict[str, Any] | None = None) -> Change:
    """Fields that this version does not know are dropped; fields that the writer did not know get their defaults."""
    writer = _PARSED if writer_schema is None else fastavro.parse_schema(writer_schema)
    decoded = fastavro.schemaless_reader(io.BytesIO(datum), writer, _PARSED)
    return msgspec.convert(_raise_change(decoded), Change)


def avro_record(change: Change) -> dict[str, Any]:
    """The record that Avro writes: values before and after are JSON text."""
    record: dict[str, Any] = _lower_change(change)
    return record


def _converter(info: inspect.Type, *, lower: bool) -> Convert | None:
    """Converts a value of that type to what Avro writes, or back; None if it is written as it is."""
    plain, nullable = without_null(info)
    convert: Convert | None = None
    match plain:
        case inspect.StructType():
            convert = _lower_struct(plain) if lower else _raise_struct(plain)
        case inspect.VarTupleType():
            convert = _each(_converter(plain.item_type, lower=lower))
        case _ if is_json_text(plain):
            convert = _to_json_text if lower else msgspec.json.decode
    return _unless_none(convert) if nullable and convert is not None else convert


def _lower_struct(info: inspect.StructType) -> Convert:
    names = [field.name for field in info.fields]
    values = attrgetter(*names)
    converted = [(field.name, convert) for field in info.fields if (convert := _converter(field.type, lower=True))]

    def lower(struct: Any) -> dict[str, Any]:
        record = dict(zip(names, values(struct), strict=True))
        for name, convert in converted:
            record[name] = convert(record[name])
        return record

    return lower


def _raise_struct(info: inspect.StructType) -> Convert:
    converted = [(field.name, convert) for field in info.fields if (convert := _converter(field.type, lower=False))]

    def back(record: dict[str, Any]) -> dict[str, Any]:
        for name, convert in converted:
            record[name] = convert(record[name])
        return record

    return back


def _each(convert: Convert | None) -> Convert:
    return list if convert is None else lambda items: [convert(item) for item in items]


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _to_json_text(value: Any) -> str:
    return _json_text(value).decode()


def _required(convert: Convert | None) -> Convert:
    if convert is None:
        raise TypeError("the Change is a struct")
    return convert


_lower_change = _required(_converter(inspect.type_info(Change), lower=True))
_raise_change = _required(_converter(inspect.type_info(Change), lower=False))
