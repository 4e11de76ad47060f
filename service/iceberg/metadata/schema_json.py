"""Checks schemas in the specification's JSON, lists their field ids, and assigns fresh ids."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

import msgspec

from headwater.service.iceberg.metadata.shapes import (
    FieldShape,
    ListShape,
    MapShape,
    Plain,
    SchemaShape,
    StructShape,
    TypeShape,
    malformed,
    shaped,
)

DEPTH_MAX = 100

_PLAIN_TYPES = frozenset(
    {
        *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid", "binary"),
        *("unknown", "variant", "timestamp_ns", "timestamptz_ns", "geometry", "geography"),
    }
)
_TYPES_WITH_PARAMETERS = re.compile(r"fixed\[\d{1,9}\]|decimal\(\d{1,2}, ?\d{1,2}\)|(geometry|geography)\([^()]{1,200}\)")
_SINCE_FORMAT_3 = re.compile(r"unknown|variant|timestamp_ns|timestamptz_ns|(geometry|geography)(\(.*\))?")


class CheckedSchema:
    """What is asked about a schema again and again."""

    def __init__(self, schema: Plain, format_version: int) -> None:
        shape = shaped(schema, SchemaShape, "schema")
        self.ids: list[int] = []
        for id, type in _walk(StructShape(shape.fields)):
            self.ids.append(id)
            if isinstance(type, str):
                _check_primitive(type, format_version)
        if len(set(self.ids)) != len(self.ids):
            raise malformed("schema: two fields have the same id.", "schema")
        strangers = set(shape.identifier_field_ids) - set(self.ids)
        if strangers:
            raise malformed(f"schema: the identifier field {min(strangers)} is none of its fields.", "schema")
        self.highest_id = max(self.ids, default=0)


def schema_meaning(schema: Plain) -> bytes:
    """Equal for schemas that are the same but for their ids."""
    identifiers = sorted(set(schema.get("identifier-field-ids") or ()))
    return msgspec.json.encode([schema["fields"], identifiers], order="sorted")


def field_ids(schema: Plain) -> set[int]:
    """Field ids of a schema that was checked before."""
    return {id for id, _ in _walk(StructShape(shaped(schema, SchemaShape, "schema").fields))}


def field_types(schema: Plain) -> dict[int, str | None]:
    """The types of primitive fields as the specification spells them, by field id; None for structs, lists and maps."""
    fields = StructShape(shaped(schema, SchemaShape, "schema").fields)
    return {id: type if isinstance(type, str) else None for id, type in _walk(fields)}


def with_fresh_ids(schema: Plain) -> tuple[Plain, dict[int, int]]:
    """Ids from 1 on, level by level as the reference implementation gives them, and which old id became which new one."""
    numbers = itertools.count(1)
    renamed: dict[int, int] = {}

    def fresh(old: int) -> int:
        renamed[old] = next(numbers)
        return renamed[old]

    fields = _fresh_fields(schema["fields"], fresh)
    made = {**schema, "type": "struct", "schema-id": 0, "fields": fields}
    made["identifier-field-ids"] = [renamed[id] for id in schema.get("identifier-field-ids") or ()]
    return made, renamed


def _fresh_fields(fields: list[Plain], fresh: Callable[[int], int]) -> list[Plain]:
    ids = [fresh(field["id"]) for field in fields]
    return [{**field, "id": id, "type": _fresh_type(field["type"], fresh)} for id, field in zip(ids, fields, strict=True)]


def _fresh_type(type: str | Plain, fresh: Callable[[int], int]) -> str | Plain:
    if isinstance(type, str):
        return type
    if type["type"] == "struct":
        return {**type, "fields": _fresh_fields(type["fields"], fresh)}
    if type["type"] == "list":
        return {**type, "element-id": fresh(type["element-id"]), "element": _fresh_type(type["element"], fresh)}
    ids = {"key-id": fresh(type["key-id"]), "value-id": fresh(type["value-id"])}
    return {**type, **ids, "key": _fresh_type(type["key"], fresh), "value": _fresh_type(type["value"], fresh)}


def _walk(type: TypeShape, depth: int = 0) -> Iterator[tuple[int, TypeShape]]:
    if depth > DEPTH_MAX:
        raise malformed(f"schema: types are nested more than {DEPTH_MAX} deep.", "schema")
    for id, inner in _parts(type):
        yield id, inner
        if not isinstance(inner, str):
            yield from _walk(inner, depth + 1)


def _parts(type: TypeShape) -> list[tuple[int, TypeShape]]:
    match type:
        case StructShape(fields=fields):
            _check_names(fields)
            return [(field.id, field.type) for field in fields]
        case ListShape():
            return [(type.element_id, type.element)]
        case MapShape():
            return [(type.key_id, type.key), (type.value_id, type.value)]
        case _:
            return []


def _check_names(fields: list[FieldShape]) -> None:
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise malformed(f"schema: two fields have the name {twice[:80]!r}.", "schema")


def _check_primitive(type: str, format_version: int) -> None:
    if type not in _PLAIN_TYPES and not _TYPES_WITH_PARAMETERS.fullmatch(type):
        raise malformed(f"schema: there is no type {type[:80]!r}.", "schema")
    if format_version < 3 and _SINCE_FORMAT_3.fullmatch(type):
        raise malformed(f"schema: the type {type[:80]!r} needs format version 3.", "schema")
