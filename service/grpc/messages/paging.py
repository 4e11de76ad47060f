"""Pages of listings: sizes, and tokens that are bound to the method and the filter that they were issued for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from google.protobuf.message import Message

from headwater.producer.page_tokens import make_token, read_token
from headwater.schemas.errors import InvalidInput
from headwater.service.grpc.rpc import RpcCall

SIZE, SIZE_MAX = 50, 1_000


class RpcToken(msgspec.Struct, frozen=True, array_like=True):
    method: str
    filter: bytes
    inner: str
    """What the operation itself calls its token."""


def page_size(message: Any) -> int:
    size: int = message.page.size
    if size < 0 or size > SIZE_MAX:
        raise InvalidInput(f"a page of {size}.", field="page.size", remedy=f"Use 1 to {SIZE_MAX}, or 0 for {SIZE}.")
    return size or SIZE


def page_token(call: RpcCall, *, but: Sequence[str] = ()) -> str | None:
    """The operation's own token; None for the first page. `but` names fields that the token itself decides."""
    given: str = call.message.page.token
    if not given:
        return None
    token = read_token(given, RpcToken)
    if token.method != call.context.method or token.filter != filter_of(call.message, but):
        raise InvalidInput(
            "the token is of another listing.", field="page.token", remedy="Send it with the request that it came from."
        )
    return token.inner


def parts_of(token: str, count: int) -> list[str]:
    """The parts of a token that this server has joined with colons. ⚠ Tokens are not signed: anybody may send one."""
    parts = token.split(":", count - 1)
    if len(parts) != count or not all(parts):
        raise InvalidInput("the token is none of this listing.", field="page.token", remedy="Send it as received.")
    return parts


def next_token(call: RpcCall, inner: str | None, *, but: Sequence[str] = ()) -> str:
    return "" if inner is None else make_token(RpcToken(call.context.method, filter_of(call.message, but), inner))


def filter_of(message: Message, but: Sequence[str]) -> bytes:
    """Everything that the request says but its page."""
    plain = type(message)()
    plain.CopyFrom(message)
    for field in ("page", *but):
        plain.ClearField(field)
    return hashlib.sha256(plain.SerializeToString(deterministic=True)).digest()[:16]
