"""What keys hold, as messages: in rules of merges, and in the differences of two states."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from headwater.schemas.errors import RequestTooLarge
from headwater.schemas.http.merge_json import ContentInfo
from headwater.schemas.rpc import reference_pb2
from headwater.service.grpc.messages.message_fields import json_field

VALUE_BYTES_MAX = 2 * 1024 * 1024

_json_text = msgspec.json.Encoder(order="deterministic").encode


def content_message(content: ContentInfo | None) -> reference_pb2.KeyContent | None:
    if content is None:
        return None
    value = _json_text(content.value)
    if len(value) > VALUE_BYTES_MAX:
        raise RequestTooLarge(f"a content has {len(value)} bytes.", field="catalog", remedy="Ask for it over HTTP.")
    return reference_pb2.KeyContent(type=content.type, content_id=content.content_id, value=value.decode())


def ruled_content(rule: Any, field: str) -> ContentInfo | UnsetType | None:
    """UNSET where the rule says nothing of it, None where it says that the key has none."""
    if not rule.HasField(field):
        return UNSET
    given = getattr(rule, field)
    if not given.HasField("content"):
        return None
    one = given.content
    return ContentInfo(type=one.type, content_id=one.content_id, value=json_field(one.value, f"into.rules.{field}.value"))
