"""Derives the Avro schema from the structs of the contract, so that there is one source of truth.

Enumerations become strings and contents become JSON text: so a reader of this version reads what a later one writes, and a
field that is added with a default is read by this one.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import inspect

NAMESPACE = "io.headwater"

Schema = str | dict[str, Any] | list[Any]


def avro_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The record of a struct; nested structs are defined where they are first used."""
    return _record(inspect.type_info(struct), set())


def is_json_text(info: inspect.Type) -> bool:
    """Contents: maps of anything, which Avro cannot type."""
    return isinstance(info, inspect.DictType) and isinstance(info.value_type, inspect.AnyType)


def without_null(info: inspect.Type) -> tuple[inspect.Type, bool]:
    """The type without None, and whether None is allowed."""
    if not isinstance(info, inspect.UnionType):
        return info, False
    others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
    if len(others) != 1:
        raise TypeError(f"the contract has no unions except with null: {info}")
    return others[0], info.includes_none


def _record(info: inspect.Type, named: set[str]) -> dict[str, Any]:
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{info} is not a struct")
    named.add(info.cls.__name__)
    fields = [_field(field, named) for field in info.fields]
    return {"type": "record", "name": info.cls.__name__, "namespace": NAMESPACE, "fields": fields}


def _field(field: inspect.Field, named: set[str]) -> dict[str, Any]:
    plain, nullable = without_null(field.type)
    schema = _schema(plain, named)
    if nullable:
        return {"name": field.name, "type": ["null", schema], "default": None}
    return {"name": field.name, "type": schema}


def _schema(info: inspect.Type, named: set[str]) -> Schema:
    match info:
        case inspect.StrType() | inspect.EnumType():
            return "string"
        case inspect.IntType():
            return "long"
        case inspect.StructType():
            return f"{NAMESPACE}.{info.cls.__name__}" if info.cls.__name__ in named else _record(info, named)
        case inspect.VarTupleType() | inspect.ListType():
            return {"type": "array", "items": _schema(info.item_type, named)}
        case inspect.DictType() if is_json_text(info):
            return "string"
        case inspect.DictType():
            return {"type": "map", "values": _schema(info.value_type, named)}
        case _:
            raise TypeError(f"the contract has no Avro for {info}")
