"""Refuses values that one of JSON, Avro and msgpack cannot carry.

No NaN, no infinity, integers within 64 bits, text that UTF-8 can carry, keys that are text, bounded depth and size.
"""

from __future__ import annotations

import math

import msgspec

from headwater.schemas.change import Value
from headwater.schemas.errors import InvalidInput

VALUE_BYTES_MAX = 100_000
"""Of one encoded value: before and after fit one row together."""
DEPTH_MAX = 32

_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_encoded = msgspec.msgpack.Encoder().encode
_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


def check_value(value: Value, field: str) -> Value:
    if not isinstance(value, dict):
        raise InvalidInput(f"a value is a JSON object, not {type(value).__name__}.", field=field, remedy="Send {…}.")
    _check(value, field, DEPTH_MAX)
    return check_size(value, field)


def check_size(value: Value, field: str) -> Value:
    """Enough for a value whose fields have all been checked against their types."""
    try:
        size = len(_encoded(value))
    except UnicodeEncodeError:
        raise InvalidInput("it is not valid Unicode.", field=field, remedy="Remove lone surrogates.") from None
    if size > VALUE_BYTES_MAX:
        raise InvalidInput(
            f"the value takes {size} bytes.",
            field=field,
            remedy=f"Use at most {VALUE_BYTES_MAX} bytes; keep large metadata in files and commit their location.",
        )
    return value


def same_value(one: Value, other: Value) -> bool:
    """Equal as JSON: only Python holds 1, 1.0 and true to be equal."""
    return one == other and _canonical(one) == _canonical(other)


def check_text(text: str, field: str, bytes_max: int, *, blank: bool = True) -> str:
    """Text of a bounded size; `blank=False` asks for at least one visible character."""
    if not isinstance(text, str):
        raise InvalidInput(f"it is {type(text).__name__}, not text.", field=field, remedy="Send a string.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput("it is not valid Unicode.", field=field, remedy="Remove lone surrogates.") from None
    if size > bytes_max:
        raise InvalidInput(f"it takes {size} bytes.", field=field, remedy=f"Use at most {bytes_max} bytes of UTF-8.")
    if not blank and not text.strip():
        raise InvalidInput("it is blank.", field=field, remedy="Say something.")
    return text


def _check(value: object, field: str, depth_left: int) -> None:
    match value:
        case None | bool():
            return
        case int():
            if not _INT_MIN <= value <= _INT_MAX:
                raise InvalidInput(f"{value} is beyond 64 bits.", field=field, remedy="Send it as text.")
        case float():
            if not math.isfinite(value):
                raise InvalidInput(f"{value} is not a JSON number.", field=field, remedy="Send null or text.")
        case str():
            check_text(value, field, VALUE_BYTES_MAX)
        case dict() | list() | tuple():
            if depth_left == 0:
                raise InvalidInput("it is nested too deeply.", field=field, remedy=f"Use at most {DEPTH_MAX} levels.")
            _check_items(value, field, depth_left - 1)
        case _:
            raise InvalidInput(f"{type(value).__name__} is not JSON.", field=field, remedy="Use JSON types only.")


def _check_items(value: dict[object, object] | list[object] | tuple[object, ...], field: str, depth_left: int) -> None:
    if not isinstance(value, dict):
        for position, item in enumerate(value):
            _check(item, f"{field}[{position}]", depth_left)
        return
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidInput(f"the key {key!r} is not text.", field=field, remedy="Use strings as keys.")
        check_text(key, field, VALUE_BYTES_MAX)
        _check(item, f"{field}.{key}", depth_left)
