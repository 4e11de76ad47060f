"""What `after` may say on every transport, and the opaque `hwc1_…` token that carries positions in logs.

`parse_after` is the one parser of it: a seq, an entry or commit id, a time, a token, `earliest` or `latest`. Tokens that are
truncated, forged or mistyped are refused.

A token carries the realm *instance*: a realm that was deleted and re-created under its old name answers `CursorReset`. It
carries entry ids beside numbers: a log that was replaced by another one is noticed too. It holds no secret and grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from enum import StrEnum
from typing import Annotated

import msgspec

from headwater.schemas.entry_ids import ID_DIGITS, micros_of, parse_id
from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import NO_FILTER, Filter

PREFIX = "hwc1_"
SEQ_DIGITS_MAX = 19
_DATE = re.compile(r"[0-9]{4}-?[0-9]{2}")
"""Text that begins like this is parsed as a time, and refused if it is not one."""
POINTERS_MAX = 100
_CHECK_BYTES = 6


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The last entry that a reader has seen of a pointer; seq 0 and no id before the first."""

    seq: Annotated[int, msgspec.Meta(ge=0)]
    entry_id: bytes


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    realm: str
    """The realm instance."""
    positions: dict[str, Position]
    """By pointer name."""
    filter: Filter = NO_FILTER


class AfterSeq(msgspec.Struct, frozen=True):
    seq: int


class AfterEntry(msgspec.Struct, frozen=True):
    id: bytes
    """Of an entry, or of a commit."""


class AfterTime(msgspec.Struct, frozen=True):
    micros: int


class Edge(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"


After = AfterSeq | AfterEntry | AfterTime | Cursor | Edge
"""Exclusive: what was seen last."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(Cursor).decode


def encode_cursor(cursor: Cursor) -> str:
    if len(cursor.positions) > POINTERS_MAX:
        raise InvalidInput(
            f"{len(cursor.positions)} pointers are too many for one cursor.",
            field="pointer",
            remedy=f"Ask for at most {POINTERS_MAX}, or make a named subscription.",
        )
    body = _encode(cursor)
    return PREFIX + base64.urlsafe_b64encode(_check(body) + body).decode().rstrip("=")


def is_cursor(text: str) -> bool:
    return text.startswith(PREFIX)


def decode_cursor(text: str, *, field: str = "after") -> Cursor:
    try:
        raw = base64.b64decode(_padded(text.removeprefix(PREFIX)), altchars=b"-_", validate=True)
        check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
        if not is_cursor(text) or check != _check(body):
            raise ValueError("its check digits are wrong")
        return _decode(body)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise InvalidInput(
            f"the cursor is damaged: {error}.", field=field, remedy="Send it back exactly as it was received."
        ) from error


def parse_after(after: str | int | After, *, field: str = "after") -> After:
    """What a reader says it has seen. A value that is parsed already is returned unchanged."""
    if not isinstance(after, str | int) or isinstance(after, Edge):
        return after
    text = str(after)
    if text in (Edge.EARLIEST, Edge.LATEST):
        return Edge(text)
    if text.isascii() and text.isdecimal() and len(text) <= SEQ_DIGITS_MAX:
        return AfterSeq(int(text))
    if is_cursor(text):
        return decode_cursor(text, field=field)
    if len(text) == ID_DIGITS:
        return AfterEntry(parse_id(text, field=field))
    if _DATE.match(text) and not text.isdecimal():
        return AfterTime(micros_of(text, field=field))
    raise InvalidInput(
        f"{text[:80]!r} is not a cursor.",
        field=field,
        remedy="Use a commit or entry id, a seq, a cursor token, an RFC 3339 time, 'earliest' or 'latest'.",
    )


def check_many(after: After, pointers: int, *, field: str = "after") -> None:
    """A seq or an id is a place in the log of one pointer."""
    if pointers > 1 and isinstance(after, AfterSeq | AfterEntry):
        said = after.seq if isinstance(after, AfterSeq) else after.id.hex()
        raise InvalidInput(
            f"{said} is a place in one log, and {pointers} pointers are read.",
            field=field,
            remedy="Name one pointer, or use a cursor, a time, 'earliest' or 'latest'.",
        )


def _check(body: bytes) -> bytes:
    return hashlib.blake2s(body, digest_size=_CHECK_BYTES, person=PREFIX.encode()).digest()


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
