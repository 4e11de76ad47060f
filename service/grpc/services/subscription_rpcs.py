"""FeedService: named subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from headwater.schemas.cursor import POINTERS_MAX
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.feed_json import (
    Acknowledgement,
    FilterBody,
    Rewind,
    SubscriptionBody,
    SubscriptionInfo,
    SubscriptionPosition,
)
from headwater.schemas.rpc import feed_pb2
from headwater.service.feed.call import FeedCall
from headwater.service.feed.feed_handlers import next_page, own_subscriptions
from headwater.service.feed.feed_routes import FEED
from headwater.service.feed.page_json import positions_cursor
from headwater.service.grpc.messages.frames import FRAME_BYTES
from headwater.service.grpc.messages.message_fields import version_of
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, sibling
from headwater.service.grpc.services.feed_rpcs import SERVICE
from headwater.service.http.responses import Response

_ONE = f"{FEED}/subscriptions/{{name}}"
_CREATE, _GET, _DELETE = sibling("PUT", _ONE), sibling("GET", _ONE), sibling("DELETE", _ONE)
_READ = sibling("GET", f"{_ONE}/changes")
_ACKNOWLEDGE, _REWIND = sibling("POST", f"{_ONE}/acknowledge"), sibling("POST", f"{_ONE}/rewind")


def _named(call: RpcCall) -> dict[str, str]:
    if not call.message.name:
        raise InvalidInput("it is empty.", field="name", remedy="Name a subscription.")
    return {"name": call.message.name}


def _create(call: RpcCall) -> Bound:
    message, filter = call.message, call.message.filter
    if not 1 <= len(message.pointers) <= 1_000:
        raise InvalidInput(f"{len(message.pointers)} pointers.", field="pointers", remedy="Name 1 to 1,000.")
    try:
        body = msgspec.convert(
            {
                "pointers": list(message.pointers),
                "after": message.after or "latest",
                "filter": FilterBody(
                    kinds=tuple(filter.kinds),
                    operations=tuple(filter.operations),
                    types=tuple(filter.types),
                    prefix=tuple(filter.prefix),
                    content_ids=tuple(filter.content_ids),
                ),
                **({"pin_seconds": message.pin_seconds} if message.HasField("pin_seconds") else {}),
            },
            SubscriptionBody,
        )
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{error}.", field="subscription", remedy="docs/grpc.md describes the fields.") from None
    return Bound(route=_CREATE, names=_named(call), body=body)


def _delete(call: RpcCall) -> Bound:
    return Bound(route=_DELETE, names=_named(call), version=version_of(call.message))


def _acknowledge(call: RpcCall) -> Bound:
    message = call.message
    body = Acknowledgement(
        version=message.version,
        positions={
            pointer: SubscriptionPosition(seq=at.seq, entry_id=at.entry_id) for pointer, at in message.positions.items()
        },
        cursor=message.cursor if message.HasField("cursor") else None,
    )
    if any(at.seq < 0 for at in message.positions.values()):
        raise InvalidInput("a seq is negative.", field="positions", remedy="Send positions as received.")
    return Bound(route=_ACKNOWLEDGE, names=_named(call), body=body)


def _rewind(call: RpcCall) -> Bound:
    message = call.message
    if not message.after:
        raise InvalidInput("it is empty.", field="after", remedy="Say to where.")
    body = Rewind(version=message.version, after=message.after, pointers=list(message.pointers))
    return Bound(route=_REWIND, names=_named(call), body=body)


def _read(call: RpcCall) -> Bound:
    query = {}
    if call.message.limit:
        query["limit"] = str(call.message.limit)
    if call.message.wait_seconds:
        query["wait"] = repr(call.message.wait_seconds)
    return Bound(route=_READ, names=_named(call), query=query)


async def _read_page(call: RpcCall, request: FeedCall) -> feed_pb2.ReadSubscriptionResponse:
    one = await asyncio.to_thread((await own_subscriptions(request)).read, call.message.name)
    page = await next_page(
        request.service, request.feed, one, request.query["limit"], request.query["wait"], request.viewer, FRAME_BYTES
    )
    cursor = (
        positions_cursor(page.ends, request.feed.kernel.realm, one.record.filter) if len(page.parts) <= POINTERS_MAX else ""
    )
    message = feed_pb2.ReadSubscriptionResponse(frame=call.runtime.frames.frame(page, cursor), version=one.version)
    for pointer, part in page.parts.items():
        if part.end.seq > part.start.seq:
            at = message.positions[pointer]
            at.seq, at.entry_id = part.end.seq, part.end.entry_id.hex()
    return message


def _info(raw: bytes) -> feed_pb2.Subscription:
    info = msgspec.json.decode(raw, type=SubscriptionInfo)
    shown = feed_pb2.Subscription(
        name=info.name,
        version=info.version,
        filter=feed_pb2.Filter(
            kinds=info.filter.kinds,
            operations=info.filter.operations,
            types=info.filter.types,
            prefix=info.filter.prefix,
            content_ids=info.filter.content_ids,
        ),
        pin_seconds=info.pin_seconds,
        pinned_until=info.pinned_until,
        created=info.created,
        updated=info.updated,
        lag=info.lag,
        cursor=info.cursor or "",
    )
    for pointer, at in info.positions.items():
        position = shown.positions[pointer]
        position.seq, position.entry_id = at.seq, at.entry_id
    return shown


def _created(call: RpcCall, request: Any, response: Response) -> feed_pb2.CreateSubscriptionResponse:
    return feed_pb2.CreateSubscriptionResponse(subscription=_info(response.body), created=response.status == 201)


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/CreateSubscription", routes=(_CREATE,), bind=_create, reply=_created, is_keyed=True)
    yield Rpc(
        method=f"{SERVICE}/GetSubscription",
        routes=(_GET,),
        bind=lambda call: Bound(route=_GET, names=_named(call)),
        reply=lambda call, request, response: feed_pb2.GetSubscriptionResponse(subscription=_info(response.body)),
    )
    yield Rpc(method=f"{SERVICE}/ReadSubscription", routes=(_READ,), bind=_read, answer=_read_page)
    yield Rpc(
        method=f"{SERVICE}/DeleteSubscription",
        routes=(_DELETE,),
        bind=_delete,
        reply=lambda call, request, response: feed_pb2.DeleteSubscriptionResponse(),
        is_keyed=True,
    )
    yield Rpc(
        method=f"{SERVICE}/Acknowledge",
        routes=(_ACKNOWLEDGE,),
        bind=_acknowledge,
        reply=lambda call, request, response: feed_pb2.AcknowledgeResponse(subscription=_info(response.body)),
        is_keyed=True,
    )
    yield Rpc(
        method=f"{SERVICE}/Rewind",
        routes=(_REWIND,),
        bind=_rewind,
        reply=lambda call, request, response: feed_pb2.RewindResponse(subscription=_info(response.body)),
        is_keyed=True,
    )


ROWS = tuple(_rows())
