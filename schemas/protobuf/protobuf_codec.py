"""Encodes a Change in protobuf and decodes it. Unknown fields of a later version are skipped."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from msgspec import inspect

from headwater.schemas.avro.avro_schema import is_json_text, without_null
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.schemas.protobuf.protobuf_schema import PACKAGE, file_descriptor

_pool = descriptor_pool.DescriptorPool()
_pool.Add(file_descriptor())
_Message: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.Change"))
_CHANGE = inspect.type_info(Change)
_json_text = msgspec.json.Encoder(order="deterministic").encode


def to_protobuf(change: Change) -> bytes:
    """The same bytes for the same Change, also across processes."""
    message = _Message()
    _fill(message, change, _CHANGE)
    raw: bytes = message.SerializeToString(deterministic=True)
    return raw


def from_protobuf(raw: bytes) -> Change:
    message = _Message()
    try:
        message.ParseFromString(raw)
    except DecodeError as error:
        raise InvalidInput(f"these bytes are no Change: {error}.", field="change", remedy="Send them as received.") from error
    return msgspec.convert(_read(message, _CHANGE), Change)


def _fill(message: Any, struct: Any, info: inspect.Type) -> None:
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{info} is not a struct")
    for field in info.fields:
        value, (plain, _) = getattr(struct, field.name), without_null(field.type)
        if value is None:
            continue
        match plain:
            case inspect.StructType():
                target = getattr(message, field.name)
                target.SetInParent()
                _fill(target, value, plain)
            case inspect.VarTupleType() if isinstance(plain.item_type, inspect.StructType):
                for item in value:
                    _fill(getattr(message, field.name).add(), item, plain.item_type)
            case inspect.VarTupleType():
                getattr(message, field.name).extend(value)
            case inspect.DictType() if is_json_text(plain):
                setattr(message, field.name, _json_text(value).decode())
            case inspect.DictType():
                getattr(message, field.name).update(value)
            case _:
                setattr(message, field.name, value)


def _read(message: Any, info: inspect.Type) -> dict[str, Any]:
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{info} is not a struct")
    return {field.name: _read_field(message, field) for field in info.fields}


def _read_field(message: Any, field: inspect.Field) -> Any:
    plain, nullable = without_null(field.type)
    value = getattr(message, field.name)
    match plain:
        case inspect.VarTupleType():
            items = [
                _read(item, plain.item_type) if isinstance(plain.item_type, inspect.StructType) else item for item in value
            ]
            return None if nullable and not items else items
        case inspect.DictType() if not is_json_text(plain):
            return dict(value)
        case _ if nullable and not message.HasField(field.name):
            return None
        case inspect.StructType():
            return _read(value, plain)
        case inspect.DictType():
            return msgspec.json.decode(value)
        case _:
            return value
