"""Pointers, Changes, snapshots and the log of references over gRPC."""

from __future__ import annotations

from headwater.consumers.clients.feed_http import LEVEL_SEPARATOR
from headwater.consumers.clients.grpc_stream.change_structs import change_of, frame_changes, one_change, page_of, value_of
from headwater.consumers.clients.grpc_stream.exchange import Asked, Exchange, HttpQuestion, answered, asked, unary
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.feed_json import (
    Head,
    PointerInfo,
    PointerKind,
    PointersPage,
    ReferenceLogAnswer,
    SnapshotEntry,
    StatePage,
)
from headwater.schemas.rpc import feed_pb2


def pointers(question: HttpQuestion) -> Exchange:
    page = yield from unary("FeedService/ListPointers", prefix=question.one("prefix"), page=question.page)
    found = [
        PointerInfo(
            name=one.name,
            kind=PointerKind(one.kind),
            seq=one.seq,
            commit_id=one.commit_id,
            oldest_seq=one.oldest_seq,
            deleted=one.deleted,
            entry_id=one.entry_id,
        )
        for one in page.pointers
    ]
    return answered(PointersPage(pointers=found, next_token=page.page.next_token or None, realm_instance=page.realm_instance))


def changes(question: HttpQuestion) -> Exchange:
    page = yield from unary(
        "FeedService/GetChanges",
        source=_source(question),
        after=question.one("after"),
        filter=_filter(question),
        limit=int(question.one("limit", "0")),
        wait_seconds=float(question.one("wait", "0")),
    )
    shown = yield from frame_changes(page.frame)
    return answered(page_of(page.frame, shown))


def commit(question: HttpQuestion) -> Exchange:
    return answered((yield from one_change(question.parts[-1])))


def snapshot(question: HttpQuestion) -> Exchange:
    """One page: up to the first message that says how to continue."""
    fields = {"token": question.one("token")} if question.one("token") else {"at": question.one("at")}
    source = None if question.one("token") else _source(question)
    messages = yield asked("FeedService/GetSnapshot", source=source, **fields)._replace(until=_ends_page)
    if any(entry.value_omitted for message in messages for entry in message.entries):
        raise InvalidInput("a value is too large for gRPC.", field="url", remedy="Connect to the server's http:// address.")
    last = messages[-1]
    entries = [
        SnapshotEntry(key=tuple(one.key), type=one.type, content_id=one.content_id, value=value_of(one.value))
        for message in messages
        for one in message.entries
    ]
    at = Head(last.at.seq, last.at.entry_id, last.at.commit_id)
    return answered(StatePage(pointer=last.pointer, at=at, entries=entries, cursor=last.cursor, next_token=last.token or None))


def reference_log(question: HttpQuestion) -> Exchange:
    messages = yield asked(
        "FeedService/GetReferenceLog",
        catalog=question.one("catalog"),
        kinds=question.many("kind"),
        page=question.page,
    )
    found = []
    for move in (one for message in messages for one in message.moves):
        if move.HasField("change"):
            found.append(change_of(move.change))
        else:
            found.append((yield from one_change(move.large.entry_id)))
    last = messages[-1]
    return answered(ReferenceLogAnswer(changes=found, next_token=last.page.next_token or None, withheld=last.withheld))


def subscribe(question: HttpQuestion) -> Asked:
    """The stream itself."""
    return asked(
        "FeedService/Subscribe",
        source=_source(question),
        after=question.headers.get("last-event-id") or question.one("after"),
        filter=_filter(question),
        heartbeat_seconds=float(question.one("heartbeat", "0")),
    )


def _ends_page(message: feed_pb2.GetSnapshotResponse) -> bool:
    return bool(message.cursor)


def _source(question: HttpQuestion) -> feed_pb2.FeedSource:
    return feed_pb2.FeedSource(
        pointers=question.many("pointer"), catalog=question.one("catalog"), branch=question.one("branch")
    )


def _filter(question: HttpQuestion) -> feed_pb2.Filter:
    prefix = question.one("prefix")
    return feed_pb2.Filter(
        kinds=question.many("kind"),
        operations=question.many("op"),
        types=question.many("type"),
        content_ids=question.many("content_id"),
        prefix=_levels(prefix) if prefix else (),
    )


def _levels(text: str) -> list[str]:
    """Prefixes as the HTTP feed reads them: without another separator, dots separate levels."""
    return text.split(LEVEL_SEPARATOR) if LEVEL_SEPARATOR in text else text.split(".")
