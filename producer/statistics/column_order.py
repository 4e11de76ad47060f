"""Decodes bounds from Iceberg's binary form into values that compare in the column's order. Pure."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

from headwater.schemas.errors import InvalidInput

Comparable = int | float | str | bytes

_FIXED = re.compile(r"fixed\[(\d+)\]")
_DECIMAL = re.compile(r"decimal\(\s*\d+\s*,\s*\d+\s*\)")


def _number(*formats: str) -> Callable[[bytes], Comparable]:
    """Little-endian. A column that was widened still has bounds of its narrow type."""
    by_size = {struct.calcsize(one): one for one in formats}

    def decode(raw: bytes) -> Comparable:
        if len(raw) not in by_size:
            raise ValueError(f"{len(raw)} bytes instead of {' or '.join(str(size) for size in by_size)}")
        value: int | float = struct.unpack(by_size[len(raw)], raw)[0]
        if math.isnan(value):
            raise ValueError("NaN is not a bound")
        return value

    return decode


def _sized(size: int) -> Callable[[bytes], Comparable]:
    def decode(raw: bytes) -> Comparable:
        if len(raw) != size:
            raise ValueError(f"{len(raw)} bytes instead of {size}")
        return raw

    return decode


def _decimal(raw: bytes) -> Comparable:
    """The unscaled value, big-endian."""
    if not 1 <= len(raw) <= 16:
        raise ValueError(f"{len(raw)} bytes instead of 1 to 16")
    return int.from_bytes(raw, "big", signed=True)


def _text(raw: bytes) -> Comparable:
    return raw.decode()


_DECODERS: dict[str, Callable[[bytes], Comparable]] = {
    "boolean": _sized(1),
    "int": _number("<i"),
    "long": _number("<q", "<i"),
    "float": _number("<f"),
    "double": _number("<d", "<f"),
    "date": _number("<i"),
    **dict.fromkeys(("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _number("<q", "<i")),
    "string": _text,
    "uuid": _sized(16),
    "binary": bytes,
}


def decode_bound(type: str, raw: bytes, field: str) -> Comparable:
    """`InvalidInput` for bytes that are no value of the type, and for types that have no order."""
    fixed = _FIXED.fullmatch(type)
    decoder = _sized(int(fixed.group(1))) if fixed else _decimal if _DECIMAL.fullmatch(type) else _DECODERS.get(type)
    if decoder is None:
        raise InvalidInput(f"a column of type {type[:80]} has no bounds.", field=field, remedy="Leave them out.")
    try:
        return decoder(raw)
    except (ValueError, struct.error) as error:
        raise InvalidInput(
            f"{raw[:32].hex()} is no {type[:80]}: {error}.", field=field, remedy="Send Iceberg's binary form of the value."
        ) from None
