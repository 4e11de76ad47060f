"""Parses a JSON list of operations from a file, standard input or HTTP; an error names the field.

One operation: `{"op": "put", "key": ["db", "orders"], "type": "ICEBERG_TABLE", "content": {…}}`. Beside it may stand
`expected` (a value of the same type, or of `expected_type`), `expected_content_id`, `must_not_exist`, `content_id`; a rename
has `from_key`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename, Unchanged
from headwater.producer.content.content_types import OtherContent
from headwater.schemas.errors import InvalidInput

_FIELDS = {
    "put": {"op", "key", "type", "content", "expected", "expected_type", "expected_content_id", "must_not_exist", "content_id"},
    "delete": {"op", "key", "type", "expected", "expected_type", "expected_content_id"},
    "rename": {"op", "key", "from_key", "type", "expected", "expected_type", "expected_content_id"},
    "unchanged": {"op", "key", "type", "expected", "expected_type", "expected_content_id", "must_not_exist"},
}
_SHOWN = '{"op": "put", "key": ["db", "orders"], "type": "ICEBERG_TABLE", "content": {"metadata_location": "…"}}'


def parse_operations(text: str | bytes) -> list[CatalogOperation]:
    """A JSON list of operations, or an object that has it under `operations`."""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON: {error}.", field="operations", remedy=f"Send a list like [{_SHOWN}].") from None
    if isinstance(decoded, dict) and "operations" in decoded:
        decoded = decoded["operations"]
    return operations_from_json(decoded)


def operations_from_json(decoded: Any) -> list[CatalogOperation]:
    if not isinstance(decoded, list):
        raise InvalidInput(
            f"operations are a list, not {type(decoded).__name__}.", field="operations", remedy=f"Send [{_SHOWN}]."
        )
    return [_operation(one, f"operations[{position}]") for position, one in enumerate(decoded)]


def _operation(one: Any, field: str) -> CatalogOperation:
    if not isinstance(one, dict):
        raise InvalidInput(f"an operation is an object, not {type(one).__name__}.", field=field, remedy=f"Send {_SHOWN}.")
    op = one.get("op")
    if not isinstance(op, str) or op not in _FIELDS:
        raise InvalidInput(f"{op!r} is not an operation.", field=f"{field}.op", remedy=f"Use one of {', '.join(_FIELDS)}.")
    for name in one:
        if name not in _FIELDS[op]:
            raise InvalidInput(f"{op} has no field {name!r}.", field=field, remedy=f"It has {', '.join(sorted(_FIELDS[op]))}.")
    if "key" not in one:
        raise InvalidInput("there is no key.", field=field, remedy='Add "key": ["db", "orders"].')
    expected, expected_id = _expected(one, field), _text(one, "expected_content_id", field)
    key = _key(one["key"], f"{field}.key")
    match op:
        case "put":
            return Put(key, _content(one, field), expected, expected_id, _flag(one, field), _text(one, "content_id", field))
        case "delete":
            return Delete(key, expected, expected_id)
        case "rename":
            if "from_key" not in one:
                raise InvalidInput("a rename needs a source.", field=field, remedy='Add "from_key": ["db", "old"].')
            return Rename(_key(one["from_key"], f"{field}.from_key"), key, expected, expected_id)
        case _:
            return Unchanged(key, expected, expected_id, _flag(one, field))


def _content(one: dict[str, Any], field: str) -> OtherContent:
    """Known types are checked against their struct when the operations are prepared."""
    for name in ("type", "content"):
        if name not in one:
            raise InvalidInput(f"there is no {name}.", field=field, remedy=f"Send {_SHOWN}.")
    return OtherContent(one["type"], one["content"])


def _expected(one: dict[str, Any], field: str) -> OtherContent | None:
    if one.get("expected") is None:
        return None
    type_name = one.get("expected_type", one.get("type"))
    if type_name is None:
        raise InvalidInput("the type is missing.", field=f"{field}.expected", remedy='Add "type": "ICEBERG_TABLE".')
    return OtherContent(type_name, one["expected"])


def _key(key: Any, field: str) -> tuple[str, ...]:
    if not isinstance(key, list):
        raise InvalidInput(
            f"a key is a list of names, not {type(key).__name__}.", field=field, remedy='Send e.g. ["db", "orders"].'
        )
    return tuple(key)


def _flag(one: dict[str, Any], field: str) -> bool:
    flag = one.get("must_not_exist", False)
    if not isinstance(flag, bool):
        raise InvalidInput("it is true or false.", field=f"{field}.must_not_exist", remedy="Send true or false.")
    return flag


def _text(one: dict[str, Any], name: str, field: str) -> str | None:
    text = one.get(name)
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"it is {type(text).__name__}, not text.", field=f"{field}.{name}", remedy="Send a string.")
    return text
