"""Requests under `/feed/v1/{realm}` that are not hot enter; JSON leaves. Whatever may ask the store runs off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from headwater.persistence.log.log_entry import change_of
from headwater.persistence.records.subscriptions import Subscription
from headwater.schemas.errors import InvalidInput, SubscriptionMoved, SubscriptionNotFound
from headwater.schemas.filters import NO_FILTER
from headwater.schemas.http.feed_json import Acknowledgement, Rewind, SubscriptionBody
from headwater.schemas.redaction import MaySee
from headwater.service.auth.caller import caller_of
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.rights.rights import Right
from headwater.service.feed.changes import NO_CACHE
from headwater.service.feed.page_json import subscription_page_json
from headwater.service.feed.service import Service
from headwater.service.http import parameters
from headwater.service.http.bodies import decode_body, read_body
from headwater.service.http.parameters import parse_query
from headwater.service.http.preconditions import expected_version, precondition_failed
from headwater.service.http.responses import JSON, NO_STORE, Receive, Response, Scope, json_response
from headwater.service.idempotency.keyed_requests import idempotent_run
from headwater.service.operations.commits import find_commit, no_commit
from headwater.service.operations.feed_pages import PAGE_BYTES_MAX, Page, PointerPart
from headwater.service.operations.feed_wait import NewsWaiter
from headwater.service.operations.pointers import list_pointers
from headwater.service.operations.realm_feeds import RealmFeed
from headwater.service.operations.states import States
from headwater.service.operations.subscriptions import Subscribing

T = TypeVar("T")
Handler = Callable[[Service, RealmFeed, Scope, Receive, str], Awaitable[Response]]
"""What a route calls: the last argument is the rest of the path, an id or a name."""

_subscription = msgspec.json.Decoder(SubscriptionBody)
_acknowledgement = msgspec.json.Decoder(Acknowledgement)
_rewind = msgspec.json.Decoder(Rewind)


async def pointers(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, _: str) -> Response:
    given = parse_query(scope["query_string"], parameters.POINTERS)
    page = await asyncio.to_thread(
        list_pointers,
        feed.kernel,
        prefix=given["prefix"] or "",
        after=given["token"] or "",
        limit=given["limit"],
        may_see=_viewer(service, feed, scope).may_see_now,
    )
    return json_response(page)


async def snapshot(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, _: str) -> Response:
    given = parse_query(scope["query_string"], parameters.SNAPSHOT)
    states = States(feed.pages)
    if given["token"] is not None:
        may_see = await _may_see(service, feed, scope, states.pointer_of(given["token"]))
        return json_response(await asyncio.to_thread(states.next, given["token"], given["limit"], may_see))
    if given["pointer"] is None:
        raise InvalidInput(
            "pointer: it is missing.",
            field="pointer",
            remedy="Name one, or send the token of a page.",
            parameters=[{"name": "pointer", "detail": "it is missing."}],
        )
    may_see = await _may_see(service, feed, scope, given["pointer"])
    return json_response(await asyncio.to_thread(states.first, given["pointer"], given["at"], given["limit"], may_see))


async def commit_by_id(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, id: str) -> Response:
    parse_query(scope["query_string"], parameters.NO_PARAMETERS)
    viewer = _viewer(service, feed, scope)
    logged, found = await asyncio.to_thread(find_commit, feed, id, viewer.may_see_now)
    view = await viewer.view([logged.entry.pointer])
    if view is None:
        return Response(200, [JSON, NO_CACHE], found.json)
    seen = await asyncio.to_thread(view.seen, change_of(logged, feed.name))
    if seen is None:
        raise no_commit(id)
    return json_response(seen)


# ── subscriptions ───────────────────────────────────────────────────────────────────────────────────────────


async def create_subscription(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, name: str) -> Response:
    body = await _body(service, scope, receive, _subscription)
    viewer = _viewer(service, feed, scope)
    await viewer.view(body.pointers)
    await viewer.require_subscribing(body.pointers)
    info, made = await asyncio.to_thread((await _subscribing(service, feed, scope)).create, name, body)
    return json_response(info, 201 if made else 200, _version(info.version))


async def read_subscription(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, name: str) -> Response:
    parse_query(scope["query_string"], parameters.NO_PARAMETERS)
    info = await asyncio.to_thread((await _subscribing(service, feed, scope, name)).get, name)
    return json_response(info, 200, _version(info.version))


async def delete_subscription(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, name: str) -> Response:
    given = parse_query(scope["query_string"], parameters.DELETE_SUBSCRIPTION)
    expected = expected_version(scope)
    try:
        subscribing = await _subscribing(service, feed, scope, name)
        await asyncio.to_thread(subscribing.delete, name, expected or given["version"])
    except SubscriptionMoved as moved:
        raise moved if expected is None else precondition_failed(moved.message) from moved
    except SubscriptionNotFound:
        run = idempotent_run(scope)
        if run is None or not run.again:  # else an earlier run of this request has deleted it
            raise
    return Response(204, [NO_STORE], b"")


async def acknowledge(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, name: str) -> Response:
    body = await _body(service, scope, receive, _acknowledgement)
    info = await asyncio.to_thread((await _subscribing(service, feed, scope, name)).acknowledge, name, body, _request_id(scope))
    return json_response(info, 200, _version(info.version))


async def rewind(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, name: str) -> Response:
    body = await _body(service, scope, receive, _rewind)
    info = await asyncio.to_thread((await _subscribing(service, feed, scope, name)).rewind, name, body, _request_id(scope))
    return json_response(info, 200, _version(info.version))


async def subscription_changes(service: Service, feed: RealmFeed, scope: Scope, receive: Receive, name: str) -> Response:
    """The next page, and what to post back when it is done with. Reading it moves nothing."""
    given: dict[str, Any] = parse_query(scope["query_string"], parameters.SUBSCRIPTION_CHANGES)
    one = await asyncio.to_thread((await _subscribing(service, feed, scope, name)).read, name)
    page = await _next_page(service, feed, one, given["limit"], given["wait"], _viewer(service, feed, scope))
    return Response(200, [JSON, NO_STORE], subscription_page_json(page, one.version))


async def _next_page(
    service: Service, feed: RealmFeed, one: Subscription, limit: int, wait_seconds: float, viewer: Viewer
) -> Page:
    filter = NO_FILTER if one.record.filter == NO_FILTER else one.record.filter
    starts = one.record.positions
    view = await viewer.view(starts)
    page = await asyncio.to_thread(feed.pages.read, starts, limit, filter, PAGE_BYTES_MAX, view)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    with NewsWaiter(feed.watch, starts, service.stopping) as waiter:
        while not page.entries and await waiter.wait(page.ends, max(0.0, deadline - loop.time())):
            view = await viewer.view(starts)
            page = await asyncio.to_thread(feed.pages.read, page.ends, limit, filter, PAGE_BYTES_MAX, view)
    parts = {pointer: PointerPart(starts[pointer], part.end, part.head) for pointer, part in page.parts.items()}
    return Page(page.entries, parts, page.withheld)


# ── what the caller may see ─────────────────────────────────────────────────────────────────────────────────


def _viewer(service: Service, feed: RealmFeed, scope: Scope) -> Viewer:
    return Viewer(service.access, caller_of(scope), feed)


async def _may_see(service: Service, feed: RealmFeed, scope: Scope, pointer: str) -> MaySee | None:
    view = await _viewer(service, feed, scope).view([pointer])
    return None if view is None else view.may_see[pointer]


async def _subscribing(service: Service, feed: RealmFeed, scope: Scope, name: str | None = None) -> Subscribing:
    """The caller's own subscriptions, or all of them for who manages the realm's. ⚠ One that exists is used only while its
    pointers may be seen and `subscription.manage` holds over each of them."""
    caller = caller_of(scope)
    sees_all = await service.access.allows(caller, Right.SUBSCRIPTION_MANAGE)
    subscribing = Subscribing(feed.pages, owner=caller.owner_id, sees_all=sees_all)
    if name is not None and not caller.development:
        one = await asyncio.to_thread(subscribing.read, name)
        viewer = _viewer(service, feed, scope)
        await viewer.view(one.record.positions)
        await viewer.require_subscribing(one.record.positions)
    return subscribing


async def _body(service: Service, scope: Scope, receive: Receive, decoder: msgspec.json.Decoder[T]) -> T:
    parse_query(scope["query_string"], parameters.NO_PARAMETERS)
    return decode_body(await read_body(scope, receive, service.config.request_bytes_max), decoder)


def _request_id(scope: Scope) -> str:
    run = idempotent_run(scope)
    return "" if run is None else run.request.id


def _version(version: str) -> tuple[bytes, bytes]:
    return b"etag", f'"{version}"'.encode()
