"""Answers that are too large for a message: pages get fewer entries, and a mutation returns only its `meta`."""

from __future__ import annotations

from typing import Any, cast

from google.protobuf.message import Message

from headwater.schemas.errors import RequestTooLarge
from headwater.service.grpc.messages.paging import SIZE


def smaller_page(message: Message, bytes_of_answer: int, bytes_max: int) -> Message | None:
    """The request for a page that should fit; None where it is not one for a page, or the page has one entry already."""
    if "page" not in message.DESCRIPTOR.fields_by_name:
        return None
    smaller = cast(Any, type(message)())
    smaller.CopyFrom(message)
    size = smaller.page.size or SIZE
    if size <= 1:
        return None
    smaller.page.size = max(1, min(size - 1, size * bytes_max * 4 // (bytes_of_answer * 5)))
    return cast(Message, smaller)


def meta_alone(kind: type[Message], raw: bytes) -> bytes:
    """⚠ Of a mutation: a refusal would say that nothing was done."""
    whole, reduced = cast(Any, kind.FromString(raw)), cast(Any, kind())
    if "meta" in kind.DESCRIPTOR.fields_by_name:
        reduced.meta.CopyFrom(whole.meta)
    return cast(Message, reduced).SerializeToString()


def too_large(size: int, bytes_max: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the answer has {size} bytes.", field="message", remedy="Ask for less, or over HTTP.", bytes_max=bytes_max
    )
