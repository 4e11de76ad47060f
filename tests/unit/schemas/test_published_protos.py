"""The published protos stay compatible: proto/published.json is an image, as buf calls it, of what clients were built against.

Run this file as a program to add what is new; it refuses to take anything away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

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


def image(files: Iterable[FileDescriptor]) -> FileDescriptorSet:
    """As buf reads it: with what they import, and the names in JSON."""
    found = FileDescriptorSet()
    known = set[str]()

    def add(file: FileDescriptor) -> None:
        if file.name in known:
            return
        known.add(file.name)
        for imported in file.dependencies:
            add(imported)
        file.CopyToProto(found.file.add())
        for plain, message in zip(found.file[-1].message_type, file.message_types_by_name.values(), strict=True):
            _name_in_json(plain, message)

    for file in files:
        add(file)
    return found


def _name_in_json(plain: DescriptorProto, message: Descriptor) -> None:
    for field in plain.field:
        field.json_name = message.fields_by_name[field.name].json_name
    for nested in plain.nested_type:
        _name_in_json(nested, message.nested_types_by_name[nested.name])


def shape(image: FileDescriptorSet) -> dict[str, str]:
    """What a client is built against, one line each: messages, fields by number, values of enums, methods. ⚠ All that makes a
    change break code or bytes, as the rules FILE of buf have it: a test of the examples compares with buf itself."""
    pool, found = DescriptorPool(), dict[str, str]()
    for one in image.file:
        pool.Add(one)
    for file in [pool.FindFileByName(one.name) for one in image.file if one.name.startswith("io/headwater/")]:
        enums = list(file.enum_types_by_name.values())
        for message in messages(file):
            enums += message.enum_types
            found[message.full_name] = f"message of {file.name}"
            found |= {f"{message.full_name}#{field.number}": _field(field) for field in message.fields}
        for enum in enums:
            found[enum.full_name] = f"enum of {file.name}"
            found |= {f"{enum.full_name}#{value.number}": value.name for value in enum.values}
        for service in file.services_by_name.values():
            found[service.full_name] = f"service of {file.name}"
            for method in service.methods:
                taken, given = ("stream " if one else "" for one in (method.client_streaming, method.server_streaming))
                found[f"{service.full_name}/{method.name}"] = (
                    f"{taken}{method.input_type.full_name} -> {given}{method.output_type.full_name}"
                )
    return dict(sorted(found.items()))


def now() -> dict[str, str]:
    return shape(image(files()))


def published() -> FileDescriptorSet:
    return json_format.Parse(PUBLISHED.read_text(), FileDescriptorSet())


def _field(field: FieldDescriptor) -> str:
    kind = field.message_type or field.enum_type
    named = _type_name(field) if kind is None else kind.full_name
    choice = field.containing_oneof
    is_optional = choice is not None and len(choice.fields) == 1 and choice.name == f"_{field.name}"
    many = "repeated " if field.is_repeated else "optional " if is_optional else ""
    one_of = f" of {choice.name}" if choice is not None and not is_optional else ""
    return f"{many}{named} {field.name} {field.json_name}{one_of}"


def _type_name(field: FieldDescriptor) -> str:
    return next(
        name.removeprefix("TYPE_").lower()
        for name, number in vars(FieldDescriptor).items()
        if name.startswith("TYPE_") and number == field.type
    )


def broken(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [f"{name}: {was} became {now.get(name, 'nothing')}" for name, was in before.items() if now.get(name) != was]


def test_nothing_that_was_published_has_changed() -> None:
    before = shape(published())
    assert broken(before, now()) == []
    assert before == now(), "new fields and methods: run this file as a program"


def _file(changed: FileDescriptorSet, name: str) -> FileDescriptorProto:
    return next(one for one in changed.file if one.name == f"io/headwater/{name}.proto")


def _message(changed: FileDescriptorSet, file: str, name: str) -> DescriptorProto:
    return next(one for one in _file(changed, file).message_type if one.name == name)


def _renumbered(changed: FileDescriptorSet) -> None:
    _message(changed, "common/v1/common", "Name").field[1].number = 9


def _renamed(changed: FileDescriptorSet) -> None:
    _message(changed, "common/v1/common", "Name").field[1].name = "levels"


def _retyped(changed: FileDescriptorSet) -> None:
    _message(changed, "common/v1/common", "MutationMeta").field[1].type = FieldDescriptorProto.TYPE_INT32


def _renamed_in_json(changed: FileDescriptorSet) -> None:
    _message(changed, "common/v1/common", "Name").field[1].json_name = "levels"


def _no_choice_any_more(changed: FileDescriptorSet) -> None:
    target = _message(changed, "common/v1/common", "ContentRef")
    for field in target.field:
        field.ClearField("oneof_index")
    del target.oneof_decl[:]


def _not_optional_any_more(changed: FileDescriptorSet) -> None:
    precondition = _message(changed, "common/v1/common", "Precondition")
    precondition.field[0].ClearField("oneof_index")
    precondition.field[0].proto3_optional = False
    del precondition.oneof_decl[:]


def _without_a_value(changed: FileDescriptorSet) -> None:
    del _file(changed, "common/v1/common").enum_type[0].value[-1]


def _without_a_method(changed: FileDescriptorSet) -> None:
    del _file(changed, "feed/v1/feed").service[0].method[-1]


def _without_a_message(changed: FileDescriptorSet) -> None:
    file = _file(changed, "common/v1/common")
    file.message_type.remove(next(one for one in file.message_type if one.name == "PrincipalContext"))


def _streaming(changed: FileDescriptorSet) -> None:
    _file(changed, "feed/v1/feed").service[0].method[0].server_streaming = True


@pytest.mark.parametrize(
    "change",
    [
        _renumbered,
        _renamed,
        _retyped,
        _renamed_in_json,
        _no_choice_any_more,
        _not_optional_any_more,
        _without_a_value,
        _without_a_method,
        _without_a_message,
        _streaming,
    ],
)
def test_what_breaks_a_client_is_found(change: Callable[[FileDescriptorSet], None]) -> None:
    changed = FileDescriptorSet()
    changed.CopyFrom(image(files()))
    change(changed)
    assert broken(now(), shape(changed))


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
    if lost := broken(shape(published()), now()):
        raise SystemExit("\n".join(lost))
    PUBLISHED.write_text(json_format.MessageToJson(image(files()), indent=1) + "\n")
