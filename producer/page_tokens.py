"""Encodes where a page ended as an opaque token, and refuses tokens that it did not make."""

from __future__ import annotations

import base64
import binascii
from typing import TypeVar

import msgspec

from headwater.schemas.errors import InvalidInput

T = TypeVar("T", bound=msgspec.Struct)


def make_token(position: msgspec.Struct) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(position)).rstrip(b"=").decode()


def read_token(text: str, position: type[T]) -> T:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.msgpack.decode(raw, type=position)
    except (binascii.Error, msgspec.MsgspecError, ValueError, TypeError):
        raise InvalidInput(
            f"{str(text)[:40]!r} is not a page token.",
            field="page_token",
            remedy="Pass the token of the previous page, unchanged.",
        ) from None


def check_limit(limit: int, limit_max: int) -> int:
    if not isinstance(limit, int) or not 1 <= limit <= limit_max:
        raise InvalidInput(f"a page of {limit}.", field="limit", remedy=f"Use 1 to {limit_max}.")
    return limit
