"""Checks and bounds author, message and headers of a commit, because an entry must fit one row."""

from __future__ import annotations

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.producer.json_safety import check_text
from headwater.producer.random_ids import random_bytes
from headwater.schemas.errors import InvalidInput
from headwater.schemas.redaction import WITHHELD_HEADER

AUTHOR_BYTES_MAX = 512
MESSAGE_BYTES_MAX = 16_384
HEADERS_MAX = 100
HEADERS_BYTES_MAX = 16_384
REQUEST_ID_BYTES_MAX = 256


class CommitMeta(msgspec.Struct, frozen=True):
    """Who, why, and whatever else the caller wants to keep with the entry."""

    author: str
    message: str = ""
    headers: dict[str, str] = {}


def check_meta(meta: CommitMeta) -> CommitMeta:
    check_text(meta.author, "author", AUTHOR_BYTES_MAX, blank=False)
    check_text(meta.message, "message", MESSAGE_BYTES_MAX)
    if not isinstance(meta.headers, dict) or len(meta.headers) > HEADERS_MAX:
        raise InvalidInput("headers are too many.", field="headers", remedy=f"Send an object of at most {HEADERS_MAX}.")
    size = 0
    for name, value in meta.headers.items():
        check_text(name, "headers", HEADERS_BYTES_MAX, blank=False)
        if name == WITHHELD_HEADER:
            raise InvalidInput(f"the header {name!r} is the feed's own.", field="headers", remedy="Use another name.")
        check_text(value, f"headers.{name}", HEADERS_BYTES_MAX)
        size += len(name.encode()) + len(value.encode())
    if size > HEADERS_BYTES_MAX:
        raise InvalidInput(
            f"headers take {size} bytes.", field="headers", remedy=f"Use at most {HEADERS_BYTES_MAX} bytes in all."
        )
    return meta


def check_request_id(request: str | RequestKey | None) -> tuple[str, bool, bytes]:
    """The id, whether the caller supplied it, and the fingerprint of the request."""
    if request is None:
        return random_bytes(16).hex(), False, b""
    key = request if isinstance(request, RequestKey) else RequestKey(request)
    return check_text(key.id, "request_id", REQUEST_ID_BYTES_MAX, blank=False), True, key.fingerprint
