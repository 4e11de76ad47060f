"""FeedService: pointers, Changes, snapshots, streams, commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from headwater.persistence.log.log_entry import change_of
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.schemas.http.feed_json import (
    CommitAnswer,
    CommitBody,
    PointersPage,
    ReferenceLogAnswer,
    SnapshotEntry,
    StatePage,
)
from headwater.schemas.rpc import feed_pb2
from headwater.service.feed.call import FeedCall
from headwater.service.feed.feed_query import FeedQuery, changes_query, stream_query
from headwater.service.feed.feed_routes import CHANGES_ROUTE, COMMIT_ROUTE, FEED, STREAM_ROUTE
from headwater.service.feed.page_json import page_cursor
from headwater.service.gate.request import LEVELS
from headwater.service.grpc.messages.change_messages import change_message
from headwater.service.grpc.messages.committed import fill_committed
from headwater.service.grpc.messages.frames import CHUNK_BYTES, FRAME_BYTES, chunks
from headwater.service.grpc.messages.message_fields import catalog_name, json_field
from headwater.service.grpc.messages.paging import next_token, page_size, page_token
from headwater.service.grpc.rpc import Bound, Rpc, RpcCall, sibling
from headwater.service.grpc.subscribing import subscribe
from headwater.service.http.responses import Response
from headwater.service.operations.commits import find_commit, no_commit
from headwater.service.operations.states import States

SERVICE = "io.headwater.feed.v1.FeedService"
VALUE_BYTES_MAX = 2 * 1024 * 1024
STATE_KEYS = 500

_POINTERS = sibling("GET", f"{FEED}/pointers")
_CHANGES = sibling("GET", CHANGES_ROUTE)
_STREAM = sibling("GET", STREAM_ROUTE)
_SNAPSHOT = sibling("GET", f"{FEED}/snapshot")
_CHANGE = sibling("GET", f"{FEED}/commits/{{id}}")
_COMMIT = sibling("POST", COMMIT_ROUTE)
_REFERENCE_LOG = sibling("GET", f"{FEED}/reference-log")

_json_text = msgspec.json.Encoder(order="deterministic").encode
_Query = dict[str, str | list[str]]


# ── pointers ────────────────────────────────────────────────────────────────────────────────────────────────


def _list_pointers(call: RpcCall) -> Bound:
    query: _Query = {"limit": str(page_size(call.message))}
    token = page_token(call)
    if token is not None:
        query["token"] = token
    if call.message.prefix:
        query["prefix"] = call.message.prefix
    return Bound(route=_POINTERS, query=query)


def _pointers(call: RpcCall, request: FeedCall, response: Response) -> feed_pb2.ListPointersResponse:
    page = msgspec.json.decode(response.body, type=PointersPage)
    shown = feed_pb2.ListPointersResponse()
    for one in page.pointers:
        shown.pointers.add(
            name=one.name,
            kind=one.kind,
            seq=one.seq,
            commit_id=one.commit_id,
            oldest_seq=one.oldest_seq,
            deleted=one.deleted,
            entry_id=one.entry_id,
        )
    shown.realm_instance = page.realm_instance
    shown.page.next_token = next_token(call, page.next_token)
    return shown


# ── changes ─────────────────────────────────────────────────────────────────────────────────────────────────


def _source(message: Any) -> _Query:
    source, query = message.source, _Query()
    if source.pointers:
        query["pointer"] = list(source.pointers)
    if source.catalog:
        query["catalog"] = source.catalog
    if source.branch:
        query["branch"] = source.branch
    return query


def _filtered(message: Any) -> _Query:
    query, filter = _source(message), message.filter
    if message.after:
        query["after"] = message.after
    for name, values in (
        ("kind", filter.kinds),
        ("op", filter.operations),
        ("type", filter.types),
        ("content_id", filter.content_ids),
    ):
        if values:
            query[name] = list(values)
    if filter.prefix:
        if not all(filter.prefix) or any(LEVELS in level for level in filter.prefix):
            raise InvalidInput("a level is empty, or holds 1F.", field="filter.prefix", remedy="Name every level.")
        query["prefix"] = LEVELS.join(filter.prefix) if len(filter.prefix) > 1 else f"{filter.prefix[0]}"
    return query


def _get_changes(call: RpcCall) -> Bound:
    message, query = call.message, _filtered(call.message)
    if message.limit:
        query["limit"] = str(message.limit)
    if message.wait_seconds:
        query["wait"] = repr(message.wait_seconds)
    return Bound(route=_CHANGES, query=query)


async def _page(call: RpcCall, request: FeedCall) -> feed_pb2.GetChangesResponse:
    query = _parsed_query(call, changes_query(request.scope["query_string"]))
    page, filter = await call.runtime.service.changes.page(request.feed, query, request.viewer, FRAME_BYTES)
    frame = call.runtime.frames.frame(page, page_cursor(page, request.feed.kernel.realm, filter))
    return feed_pb2.GetChangesResponse(frame=frame)


def _parsed_query(call: RpcCall, query: FeedQuery) -> FeedQuery:
    """One level of a prefix may hold dots: over HTTP these would part levels."""
    prefix = tuple(call.message.filter.prefix)
    if not prefix or prefix == query.filter.prefix:
        return query
    return msgspec.structs.replace(query, filter=msgspec.structs.replace(query.filter, prefix=prefix))


# ── one change ──────────────────────────────────────────────────────────────────────────────────────────────


async def _change_parts(call: RpcCall, request: FeedCall) -> AsyncIterator[bytes]:
    id, viewer = call.message.id, request.viewer
    logged, _ = await asyncio.to_thread(find_commit, request.feed, id, viewer.may_see_now)
    change = await asyncio.to_thread(change_of, logged, request.feed.name)
    view = await viewer.view([logged.entry.pointer])
    seen = change if view is None else await asyncio.to_thread(view.seen, change)
    if seen is None:
        raise no_commit(id)
    message = change_message(seen)
    if message.ByteSize() <= FRAME_BYTES:
        yield feed_pb2.GetChangeResponse(change=message).SerializeToString()
        return
    for chunk in chunks(message.SerializeToString()):
        yield feed_pb2.GetChangeResponse(chunk=chunk).SerializeToString()


# ── snapshots ───────────────────────────────────────────────────────────────────────────────────────────────


def _get_snapshot(call: RpcCall) -> Bound:
    if call.message.token:
        return Bound(route=_SNAPSHOT, query={"token": call.message.token, "limit": str(STATE_KEYS)})
    query = _source(call.message)
    if isinstance(query.get("pointer"), list) and len(query["pointer"]) > 1:
        raise InvalidInput("a snapshot is of one pointer.", field="source.pointers", remedy="Name one.")
    if call.message.at:
        query["at"] = call.message.at
    return Bound(route=_SNAPSHOT, query={**query, "limit": str(STATE_KEYS)})


async def _snapshot_parts(call: RpcCall, request: FeedCall) -> AsyncIterator[bytes]:
    """All pages are of the entry that the first one was read at. Each ends with the token that continues after it."""
    response = await request.handle()
    if response is None:
        raise LookupError("a snapshot sends by itself")
    page = msgspec.json.decode(response.body, type=StatePage)
    while page.next_token is not None:
        for message in _ended_page(page, page.next_token):
            yield message.SerializeToString()
        token, viewer = page.next_token, request.viewer
        view = await viewer.view([page.pointer])
        may_see = None if view is None else view.may_see[page.pointer]
        page = await asyncio.to_thread(States(request.feed.pages).next, token, STATE_KEYS, may_see)
    for message in _ended_page(page, ""):
        yield message.SerializeToString()


def _ended_page(page: StatePage, token: str) -> list[feed_pb2.GetSnapshotResponse]:
    messages = _state_messages(page)
    messages[-1].cursor, messages[-1].token = page.cursor, token
    return messages


def _state_messages(page: StatePage) -> list[feed_pb2.GetSnapshotResponse]:
    """At least one, none much larger than a chunk, unless a single value is."""
    messages = [_state_message(page)]
    size = 0
    for entry in page.entries:
        made = _snapshot_entry(entry)
        if size and size + made.ByteSize() > CHUNK_BYTES:
            messages.append(_state_message(page))
            size = 0
        messages[-1].entries.append(made)
        size += made.ByteSize()
    return messages


def _state_message(page: StatePage) -> feed_pb2.GetSnapshotResponse:
    at = feed_pb2.Head(seq=page.at.seq, entry_id=page.at.entry_id, commit_id=page.at.commit_id)
    return feed_pb2.GetSnapshotResponse(pointer=page.pointer, at=at)


def _snapshot_entry(entry: SnapshotEntry) -> feed_pb2.SnapshotEntry:
    value = _json_text(entry.value).decode()
    is_large = len(value) > VALUE_BYTES_MAX
    return feed_pb2.SnapshotEntry(
        key=entry.key,
        type=entry.type,
        content_id=entry.content_id,
        value="" if is_large else value,
        value_omitted=is_large,
    )


# ── the log of references ───────────────────────────────────────────────────────────────────────────────────


def _reference_log(call: RpcCall) -> Bound:
    token = page_token(call)
    query: _Query = {"catalog": catalog_name(call.message.catalog, "catalog"), "limit": str(page_size(call.message))}
    if call.message.kinds:
        query["kind"] = list(call.message.kinds)
    return Bound(route=_REFERENCE_LOG, query=query if token is None else query | {"token": token})


async def _moves(call: RpcCall, request: FeedCall) -> AsyncIterator[bytes]:
    response = await request.handle()
    if response is None:
        raise LookupError("a log of references sends by itself")
    page = await asyncio.to_thread(msgspec.json.decode, response.body, type=ReferenceLogAnswer)
    shown = feed_pb2.GetReferenceLogResponse(withheld=page.withheld)
    size = 0
    for change in page.changes:
        move = _move(change)
        if size and size + move.ByteSize() > CHUNK_BYTES:
            yield shown.SerializeToString()
            shown, size = feed_pb2.GetReferenceLogResponse(withheld=page.withheld), 0
        shown.moves.append(move)
        size += move.ByteSize()
    shown.page.next_token = next_token(call, page.next_token)
    yield shown.SerializeToString()


def _move(change: Change) -> feed_pb2.LoggedMove:
    message = change_message(change)
    size = message.ByteSize()
    if size <= FRAME_BYTES:
        return feed_pb2.LoggedMove(change=message)
    large = feed_pb2.LargeChange(pointer=change.pointer, seq=change.seq, entry_id=change.entry_id, bytes=size)
    return feed_pb2.LoggedMove(large=large)


# ── stream ──────────────────────────────────────────────────────────────────────────────────────────────────


def _subscribe(call: RpcCall) -> Bound:
    query = _filtered(call.message)
    if call.message.heartbeat_seconds:
        query["heartbeat"] = repr(call.message.heartbeat_seconds)
    return Bound(route=_STREAM, query=query)


def _stream_parts(call: RpcCall, request: FeedCall) -> AsyncIterator[bytes]:
    """⚠ The stream itself, not a wrapper: slow readers are reported to it."""
    query = _parsed_query(call, stream_query(request.scope["query_string"], None))
    return subscribe(call.runtime.service, request.feed, query, request.viewer, call.runtime.frames)


# ── commits ─────────────────────────────────────────────────────────────────────────────────────────────────


def _commit(call: RpcCall) -> Bound:
    message = call.message
    body = CommitBody(
        catalog=message.catalog,
        operations=[_operation(one, f"operations[{place}]") for place, one in enumerate(message.operations)],
        branch=message.branch or None,
        author=message.author or None,
        message=message.message,
        headers=dict(message.headers),
        expected_head=message.expected_head if message.HasField("expected_head") else None,
        base_commit=message.base_commit if message.HasField("base_commit") else None,
    )
    if not body.catalog:
        raise InvalidInput("it is empty.", field="catalog", remedy="Name a catalog.")
    return Bound(route=_COMMIT, body=body)


def _operation(one: Any, field: str) -> dict[str, Any]:
    """As the JSON of an operation has it: there is one parser of operations."""
    operation: dict[str, Any] = {"op": one.op, "key": list(one.key)}
    for name in ("expected_type", "expected_content_id", "content_id"):
        if one.HasField(name):
            operation[name] = getattr(one, name)
    for name in ("content", "expected"):
        if one.HasField(name):
            operation[name] = json_field(getattr(one, name), f"{field}.{name}")
    if one.type:
        operation["type"] = one.type
    if one.must_not_exist:
        operation["must_not_exist"] = True
    if one.from_key:
        operation["from_key"] = list(one.from_key)
    return operation


def _committed(call: RpcCall, request: FeedCall, response: Response) -> feed_pb2.CommitResponse:
    message = feed_pb2.CommitResponse()
    fill_committed(message, msgspec.json.decode(response.body, type=CommitAnswer))
    return message


def _rows() -> Iterable[Rpc]:
    yield Rpc(method=f"{SERVICE}/ListPointers", routes=(_POINTERS,), bind=_list_pointers, reply=_pointers)
    yield Rpc(method=f"{SERVICE}/GetChanges", routes=(_CHANGES,), bind=_get_changes, answer=_page)
    yield Rpc(
        method=f"{SERVICE}/GetChange",
        routes=(_CHANGE,),
        bind=lambda call: Bound(route=_CHANGE, names={"id": call.message.id}),
        serve=_change_parts,
    )
    yield Rpc(method=f"{SERVICE}/GetSnapshot", routes=(_SNAPSHOT,), bind=_get_snapshot, serve=_snapshot_parts)
    yield Rpc(method=f"{SERVICE}/GetReferenceLog", routes=(_REFERENCE_LOG,), bind=_reference_log, serve=_moves)
    yield Rpc(method=f"{SERVICE}/Subscribe", routes=(_STREAM,), bind=_subscribe, serve=_stream_parts)
    yield Rpc(method=f"{SERVICE}/Commit", routes=(_COMMIT,), bind=_commit, reply=_committed)


ROWS = tuple(_rows())
