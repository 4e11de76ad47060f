"""Pages of listings: sizes, and tokens that are bound to the method and the filter that they were issued for."""

from __future__ import annotations

import hashlib
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


def page_token(call: RpcCall) -> str | None:
    """The operation's own token; None for the first page."""
    given: str = call.message.page.token
    if not given:
        return None
    token = read_token(given, RpcToken)
    if token.method != call.context.method or token.filter != _filter(call.message):
        raise InvalidInput(
            "the token is of another listing.", field="page.token", remedy="Send it with the request that it came from."
        )
    return token.inner


def next_token(call: RpcCall, inner: str | None) -> str:
    return "" if inner is None else make_token(RpcToken(call.context.method, _filter(call.message), inner))


def _filter(message: Message) -> bytes:
    """Everything that the request says but its page."""
    plain = type(message)()
    plain.CopyFrom(message)
    plain.ClearField("page")
    return hashlib.sha256(plain.SerializeToString(deterministic=True)).digest()[:16]
