"""Named subscriptions over gRPC."""

from __future__ import annotations

from headwater.consumers.clients.grpc_stream.change_structs import frame_changes, heads_of
from headwater.consumers.clients.grpc_stream.exchange import Answered, Exchange, HttpQuestion, answered, unary
from headwater.schemas.change import Kind, Op
from headwater.schemas.http.feed_json import (
    Acknowledgement,
    FilterBody,
    Range,
    Rewind,
    SubscriptionBody,
    SubscriptionInfo,
    SubscriptionPage,
    SubscriptionPosition,
)
from headwater.schemas.rpc import feed_pb2


def create(question: HttpQuestion) -> Exchange:
    body: SubscriptionBody = question.read(SubscriptionBody)
    filter = body.filter
    done = yield from unary(
        "FeedService/CreateSubscription",
        idempotency=question.key,
        name=question.parts[2],
        pointers=body.pointers,
        after=body.after,
        filter=feed_pb2.Filter(
            kinds=filter.kinds,
            operations=filter.operations,
            types=filter.types,
            prefix=filter.prefix,
            content_ids=filter.content_ids,
        ),
        pin_seconds=body.pin_seconds,
    )
    return answered(_info(done.subscription), 201 if done.created else 200)


def get(question: HttpQuestion) -> Exchange:
    found = yield from unary("FeedService/GetSubscription", name=question.parts[2])
    return answered(_info(found.subscription))


def delete(question: HttpQuestion) -> Exchange:
    yield from unary(
        "FeedService/DeleteSubscription",
        idempotency=question.key,
        name=question.parts[2],
        precondition=question.precondition,
    )
    return Answered(204, b"")


def read(question: HttpQuestion) -> Exchange:
    page = yield from unary(
        "FeedService/ReadSubscription",
        name=question.parts[2],
        limit=int(question.one("limit", "0")),
        wait_seconds=float(question.one("wait", "0")),
    )
    frame = page.frame
    shown = yield from frame_changes(frame)
    positions = {name: SubscriptionPosition(seq=one.seq, entry_id=one.entry_id) for name, one in page.positions.items()}
    return answered(
        SubscriptionPage(
            changes=shown,
            ranges={name: Range(getattr(one, "from"), one.to) for name, one in frame.ranges.items()},
            heads=heads_of(frame),
            acknowledge=Acknowledgement(version=page.version, positions=positions),
            withheld=frame.withheld,
        )
    )


def acknowledge(question: HttpQuestion) -> Exchange:
    body: Acknowledgement = question.read(Acknowledgement)
    positions = {name: feed_pb2.Position(seq=one.seq, entry_id=one.entry_id) for name, one in body.positions.items()}
    done = yield from unary(
        "FeedService/Acknowledge",
        idempotency=question.key,
        name=question.parts[2],
        version=body.version,
        positions=positions,
        cursor=body.cursor,
    )
    return answered(_info(done.subscription))


def rewind(question: HttpQuestion) -> Exchange:
    body: Rewind = question.read(Rewind)
    done = yield from unary(
        "FeedService/Rewind",
        idempotency=question.key,
        name=question.parts[2],
        version=body.version,
        after=body.after,
        pointers=body.pointers,
    )
    return answered(_info(done.subscription))


def _info(one: feed_pb2.Subscription) -> SubscriptionInfo:
    return SubscriptionInfo(
        name=one.name,
        version=one.version,
        positions={name: SubscriptionPosition(seq=at.seq, entry_id=at.entry_id) for name, at in one.positions.items()},
        filter=FilterBody(
            kinds=tuple(Kind(kind) for kind in one.filter.kinds),
            operations=tuple(Op(op) for op in one.filter.operations),
            types=tuple(one.filter.types),
            prefix=tuple(one.filter.prefix),
            content_ids=tuple(one.filter.content_ids),
        ),
        pin_seconds=one.pin_seconds,
        pinned_until=one.pinned_until,
        created=one.created,
        updated=one.updated,
        lag=dict(one.lag),
        cursor=one.cursor or None,
    )
