"""Encodes positions in logs as one opaque `hwc1_…` token, and refuses tokens that are truncated, forged or mistyped.

A token carries the realm *instance*: a realm that was deleted and made again under its old name answers `CursorReset`. It
carries entry ids beside numbers: a log that was replaced by another one is noticed too. It holds no secret and grants nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.schemas.filters import NO_FILTER, Filter

PREFIX = "hwc1_"
POINTERS_MAX = 100
_CHECK_BYTES = 6


class Position(msgspec.Struct, frozen=True, array_like=True):
    """The last entry that a reader has seen of a pointer; seq 0 and no id before the first."""

    seq: int
    entry_id: bytes


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    realm: str
    """The realm instance."""
    positions: dict[str, Position]
    """By pointer name."""
    filter: Filter = NO_FILTER


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


def _check(body: bytes) -> bytes:
    return hashlib.blake2s(body, digest_size=_CHECK_BYTES, person=PREFIX.encode()).digest()


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
