"""The published protos stay compatible: proto/published.json holds what clients were built against.

Run this file as a program to add what is new; it refuses to take anything away.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor

from headwater.schemas.rpc import change_pb2, common_pb2
from headwater.schemas.rpc.services import SERVICES

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "proto" / "published.json"
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PASCAL = re.compile(r"([A-Z][A-Za-z0-9]*)+")


def files() -> list[FileDescriptor]:
    found = {service.file.name: service.file for service in SERVICES}
    found |= {one.DESCRIPTOR.name: one.DESCRIPTOR for one in (change_pb2, common_pb2)}
    return [found[name] for name in sorted(found)]


def messages(file: FileDescriptor) -> Iterator[Descriptor]:
    waiting = list(file.message_types_by_name.values())
    while waiting:
        message = waiting.pop()
        waiting += message.nested_types
        yield message


def shape() -> dict[str, str]:
    """What a client is built against, one line each: fields by number, values of enums, methods."""
    found: dict[str, str] = {}
    for file in files():
        for message in messages(file):
            found |= {f"{message.full_name}#{field.number}": _field(field) for field in message.fields}
        for enum in file.enum_types_by_name.values():
            found |= {f"{enum.full_name}#{value.number}": value.name for value in enum.values}
        for service in file.services_by_name.values():
            for method in service.methods:
                taken, given = ("stream " if one else "" for one in (method.client_streaming, method.server_streaming))
                found[f"{service.full_name}/{method.name}"] = (
                    f"{taken}{method.input_type.full_name} -> {given}{method.output_type.full_name}"
                )
    return dict(sorted(found.items()))


def _field(field: FieldDescriptor) -> str:
    kind = field.message_type or field.enum_type
    named = _type_name(field) if kind is None else kind.full_name
    many = "repeated " if field.is_repeated else "optional " if field.has_presence and kind is None else ""
    return f"{many}{named} {field.name}"


def _type_name(field: FieldDescriptor) -> str:
    return next(
        name.removeprefix("TYPE_").lower()
        for name, number in vars(FieldDescriptor).items()
        if name.startswith("TYPE_") and number == field.type
    )


def broken(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [f"{name}: {was} became {now.get(name, 'nothing')}" for name, was in before.items() if now.get(name) != was]


def test_nothing_that_was_published_has_changed() -> None:
    published: dict[str, str] = json.loads(PUBLISHED.read_text())
    assert broken(published, shape()) == []
    assert published == shape(), "new fields and methods: run this file as a program"


@pytest.mark.parametrize("name", ["io.headwater.common.v1.Name#2", "io.headwater.feed.v1.FeedService/Commit"])
def test_a_change_of_type_name_or_number_and_a_removal_are_found(name: str) -> None:
    now = shape()
    assert broken(now, {**now, name: "string other"}) == [f"{name}: {now[name]} became string other"]
    assert broken(now, {key: value for key, value in now.items() if key != name}) == [f"{name}: {now[name]} became nothing"]


def test_names_follow_the_rules_of_buf() -> None:
    """STANDARD of buf, as far as it is about names: packages end with a version, requests and responses are a method's own."""
    wrong: list[str] = []
    for file in files():
        if not re.fullmatch(r"io\.headwater(\.\w+)?\.v1", file.package) or not file.name.startswith(
            file.package.replace(".", "/")
        ):
            wrong.append(file.name)
        for message in messages(file):
            if message.GetOptions().map_entry:
                continue
            wrong += [] if _PASCAL.fullmatch(message.name) else [message.full_name]
            wrong += [field.full_name for field in message.fields if not _SNAKE.fullmatch(field.name)]
        for enum in file.enum_types_by_name.values():
            wrong += _wrong_values(enum)
        for service in file.services_by_name.values():
            wrong += [] if service.name.endswith("Service") else [service.full_name]
            for method in service.methods:
                if (method.input_type.name, method.output_type.name) != (f"{method.name}Request", f"{method.name}Response"):
                    wrong.append(method.full_name)
    assert wrong == []


def _wrong_values(enum: EnumDescriptor) -> list[str]:
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper()
    first = [] if enum.values[0].name == f"{prefix}_UNSPECIFIED" else [enum.full_name]
    return first + [f"{enum.full_name}.{value.name}" for value in enum.values if not value.name.startswith(f"{prefix}_")]


if __name__ == "__main__":
    before = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}
    if lost := broken(before, shape()):
        raise SystemExit("\n".join(lost))
    PUBLISHED.write_text(json.dumps(shape(), indent=1) + "\n")
