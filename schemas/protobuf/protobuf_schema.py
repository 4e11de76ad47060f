"""Derives the protobuf file from the structs of the contract, as a descriptor and as text.

Field numbers are the fields' places in the struct: fields are appended, never moved. Enumerations are strings and contents are
JSON text, for the same reasons as in Avro. A list that may be null is empty instead: the contract has no empty ones there.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from msgspec import inspect

from headwater.schemas.avro.avro_schema import is_json_text, without_null
from headwater.schemas.change import Change

PACKAGE = "io.headwater.v1"
FILE = "headwater/change_v1.proto"

_OPTIONAL = FieldDescriptorProto.LABEL_OPTIONAL
_REPEATED = FieldDescriptorProto.LABEL_REPEATED


def file_descriptor(struct: type[msgspec.Struct] = Change) -> FileDescriptorProto:
    file = FileDescriptorProto(name=FILE, package=PACKAGE, syntax="proto3")
    for info in _structs(inspect.type_info(struct), {}).values():
        _describe(info, file.message_type.add(name=info.cls.__name__))
    return file


def proto_text(file: FileDescriptorProto) -> str:
    """What people and other languages' compilers read."""
    lines = ['syntax = "proto3";', "", f"package {PACKAGE};"]
    for message in file.message_type:
        lines += ["", f"message {message.name} {{"]
        lines += [f"  {_field_text(field, message)} = {field.number};" for field in message.field]
        lines += ["}"]
    return "\n".join(lines) + "\n"


def _structs(info: inspect.Type, found: dict[str, inspect.StructType]) -> dict[str, inspect.StructType]:
    """Every struct that is reachable, the inner ones first."""
    plain, _ = without_null(info)
    if isinstance(plain, inspect.VarTupleType):
        return _structs(plain.item_type, found)
    if isinstance(plain, inspect.StructType) and plain.cls.__name__ not in found:
        for field in plain.fields:
            _structs(field.type, found)
        found[plain.cls.__name__] = plain
    return found


def _describe(info: inspect.StructType, message: DescriptorProto) -> None:
    for number, field in enumerate(info.fields, start=1):
        plain, nullable = without_null(field.type)
        described = message.field.add(name=field.name, number=number, label=_OPTIONAL)
        if isinstance(plain, inspect.VarTupleType):
            described.label = _REPEATED
            _set_type(described, plain.item_type)
        elif isinstance(plain, inspect.DictType) and not is_json_text(plain):
            _describe_map(message, described)
        else:
            _set_type(described, plain)
            if nullable and described.type != FieldDescriptorProto.TYPE_MESSAGE:
                described.proto3_optional = True
                described.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")


def _set_type(field: FieldDescriptorProto, info: inspect.Type) -> None:
    match info:
        case inspect.StructType():
            field.type = FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = f".{PACKAGE}.{info.cls.__name__}"
        case inspect.IntType():
            field.type = FieldDescriptorProto.TYPE_INT64
        case inspect.StrType() | inspect.EnumType():
            field.type = FieldDescriptorProto.TYPE_STRING
        case _ if is_json_text(info):
            field.type = FieldDescriptorProto.TYPE_STRING
        case _:
            raise TypeError(f"the contract has no protobuf for {info}")


def _describe_map(message: DescriptorProto, field: FieldDescriptorProto) -> None:
    """Of strings to strings: the only kind that the contract has."""
    entry = message.nested_type.add(name=f"{field.name.title()}Entry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), start=1):
        entry.field.add(name=name, number=number, label=_OPTIONAL, type=FieldDescriptorProto.TYPE_STRING)
    field.label = _REPEATED
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"


def _field_text(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    return " ".join(_words(field, message))


def _words(field: FieldDescriptorProto, message: DescriptorProto) -> Iterator[str]:
    if any(field.type_name.endswith(f".{entry.name}") for entry in message.nested_type):
        yield "map<string, string>"
    else:
        if field.label == _REPEATED:
            yield "repeated"
        elif field.proto3_optional:
            yield "optional"
        scalar = "int64" if field.type == FieldDescriptorProto.TYPE_INT64 else "string"
        yield field.type_name.rpartition(".")[2] or scalar
    yield field.name
