"""Checks names and rows before any backend is touched."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.persistence.rows import NAME_BYTES_MAX, ROW_BYTES_MAX, MutableRow, ObjectRow
from headwater.schemas.errors import InvalidName, ObjectTooLarge


def check_name(name: str, field: str = "name") -> str:
    """A pointer name, mutable key or realm instance that every database can keep as a key."""
    size = _bytes_of(name)
    if not size or "\0" in name:
        raise InvalidName(
            f"{name!r} is not a name.", field=field, remedy="Names are text of at least one character, without NUL."
        )
    if size > NAME_BYTES_MAX:
        raise InvalidName(
            f"{name[:40] + '…'!r} has {size} bytes.", field=field, remedy=f"Use at most {NAME_BYTES_MAX} bytes of UTF-8."
        )
    return name


def check_objects(rows: Sequence[ObjectRow]) -> None:
    """All rows of a write, before the first of them is sent."""
    for row in rows:
        if len(row.payload) > ROW_BYTES_MAX:
            raise _too_large(f"object {row.id} part {row.part} ({row.type})", len(row.payload))


def check_mutable_row(row: MutableRow) -> None:
    check_name(row.key, f"{row.type} key")
    if len(row.payload) > ROW_BYTES_MAX:
        raise _too_large(f"{row.type} {row.key!r}", len(row.payload))


def _bytes_of(name: str) -> int:
    """0 for text that UTF-8 cannot carry (lone surrogates)."""
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        return 0


def _too_large(what: str, size: int) -> ObjectTooLarge:
    return ObjectTooLarge(
        f"{what} has {size} bytes, over the row limit of {ROW_BYTES_MAX}.",
        field="payload",
        remedy="Split it into parts, or make it smaller.",
        bytes=size,
        bytes_max=ROW_BYTES_MAX,
    )
