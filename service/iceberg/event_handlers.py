"""`POST …/events`: a page of events of the prefix's branch."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from headwater.schemas.errors import InvalidInput
from headwater.service.http.responses import Response, json_response
from headwater.service.iceberg.call import IcebergCall
from headwater.service.iceberg.events.event_pages import (
    FILTER_ITEMS_MAX,
    PAGE_EVENTS,
    PAGE_EVENTS_MAX,
    EventFilter,
    EventQuery,
    read_events,
)

_Some = Annotated[list[str], Meta(max_length=FILTER_ITEMS_MAX)]
_SomeNames = Annotated[list[tuple[str, ...]], Meta(max_length=FILTER_ITEMS_MAX)]
_OBJECT_TYPES = ("namespace", "table", "view")


class QueryEvents(msgspec.Struct, frozen=True, rename="kebab"):
    continuation_token: str | None = None
    page_size: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    since_timestamp_ms: int | None = None
    operation_types: _Some | None = None
    catalog_objects_by_name: _SomeNames | None = None
    catalog_objects_by_uuid: _Some | None = None
    object_types: _Some | None = None
    custom_filters: dict[str, str] = {}


def query_events(call: IcebergCall) -> Response:
    body = call.read(QueryEvents) if call.body.strip() else QueryEvents()
    unknown = [name for name in body.object_types or () if name not in _OBJECT_TYPES]
    if unknown or body.custom_filters:
        what = unknown[0] if unknown else next(iter(body.custom_filters))
        raise InvalidInput(f"There is no filter {what[:80]!r}.", field="object-types" if unknown else "custom-filters")
    uuids = body.catalog_objects_by_uuid
    filter = EventFilter(
        body.operation_types,
        body.catalog_objects_by_name,
        None if uuids is None else [uuid.lower() for uuid in uuids],
        body.object_types,
    )
    size = min(body.page_size or PAGE_EVENTS, PAGE_EVENTS_MAX)
    query = EventQuery(filter, body.continuation_token, size, body.since_timestamp_ms)
    pointer = call.branch.pointer
    return json_response(read_events(call.feed, pointer, query, call.viewer.view_now(pointer)))
