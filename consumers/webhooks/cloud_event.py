"""A Change as a CloudEvent in JSON, with the attributes that its Kafka record carries too."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from headwater.schemas.change import Change

CONTENT_TYPE = "application/cloudevents+json"


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    specversion: str = "1.0"
    type: str = "io.headwater.change"
    source: str
    """The realm."""
    id: str
    """The entry id: the same for every attempt, and in Kafka."""
    subject: str
    """The pointer."""
    time: str
    datacontenttype: str = "application/json"
    data: Change


def cloud_event(change: Change) -> CloudEvent:
    return CloudEvent(
        source=f"/realms/{quote(change.realm, safe='')}",
        id=change.entry_id,
        subject=change.pointer,
        time=change.time,
        data=change,
    )
