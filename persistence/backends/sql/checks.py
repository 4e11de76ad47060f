"""Arguments of a write enter; nothing leaves, or the one clear error that says why no row can hold them.

Both databases would refuse most of this themselves, each in its own words and some of it only after part of the work.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.persistence.codec import OBJECT_ID_MAX
from headwater.persistence.rows import NAME_BYTES_MAX, ROW_BYTES_MAX, ObjectRow, RootedRow
from headwater.schemas.errors import IdOutOfRange, InvalidName, ObjectTooLarge


def check_text(field: str, text: str) -> None:
    """Realm, name, type or key: what a key column of every database can hold."""
    if text.isascii():
        if len(text) <= NAME_BYTES_MAX and "\0" not in text:
            return
        size_bytes = len(text)
    else:
        try:
            size_bytes = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidName(
                "it contains half of a surrogate pair.", field=field, remedy="Use text that UTF-8 can hold."
            ) from error
    if "\0" in text:
        raise InvalidName("it contains the character U+0000.", field=field, remedy="Leave it out.")
    if size_bytes > NAME_BYTES_MAX:
        raise InvalidName(
            f"it has {size_bytes} bytes in UTF-8.",
            field=field,
            remedy=f"Use at most {NAME_BYTES_MAX}.",
            bytes=size_bytes,
            bytes_max=NAME_BYTES_MAX,
        )


def check_objects(rows: Sequence[ObjectRow]) -> None:
    for row in rows:
        if not 0 < row.id <= OBJECT_ID_MAX:
            raise IdOutOfRange(f"{row.id} is not an object id.", field="id", remedy=f"Ids are 1 to {OBJECT_ID_MAX}.")
        check_text("type", row.type)
        _check_payload(f"object {row.id} ({row.type}) part {row.part}", row.payload)


def check_rooted(row: RootedRow) -> None:
    check_text("type", row.type)
    check_text("key", row.key)
    _check_payload(f"{row.type} {row.key!r}", row.payload)


def _check_payload(what: str, payload: bytes) -> None:
    if len(payload) > ROW_BYTES_MAX:
        raise ObjectTooLarge(
            f"{what} has {len(payload)} bytes, over the row limit of {ROW_BYTES_MAX}.",
            field="object",
            remedy="Write it in parts, or make it smaller.",
            bytes=len(payload),
            bytes_max=ROW_BYTES_MAX,
        )
