"""Handlers of the feed. Whatever may ask the store runs off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headwater.persistence.log.log_entry import change_of
from headwater.persistence.records.subscriptions import Subscription
from headwater.schemas.cursor import Position
from headwater.schemas.errors import InvalidInput, SubscriptionNotFound
from headwater.schemas.filters import NO_FILTER
from headwater.schemas.http.feed_json import Acknowledgement, Rewind, SubscriptionBody
from headwater.schemas.redaction import MaySee
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.rights.rights import Right
from headwater.service.feed.call import FeedCall
from headwater.service.feed.changes import NO_CACHE
from headwater.service.feed.feed_query import named_catalog
from headwater.service.feed.named_branch import named_branch
from headwater.service.feed.page_json import subscription_page_json
from headwater.service.feed.service import Service
from headwater.service.gate.rights import authorize_anywhere
from headwater.service.gate.route import Needs
from headwater.service.http.responses import JSON, NO_STORE, Response, json_response
from headwater.service.operations.commits import find_commit, no_commit
from headwater.service.operations.feed_pages import PAGE_BYTES_MAX, Page, PointerPart
from headwater.service.operations.feed_polls import wait_for_page
from headwater.service.operations.pointers import list_pointers
from headwater.service.operations.realm_feeds import RealmFeed
from headwater.service.operations.states import States
from headwater.service.operations.subscriptions import Subscribing


async def pointers(call: FeedCall) -> Response:
    given = call.query
    page = await asyncio.to_thread(
        list_pointers,
        call.kernel,
        prefix=given["prefix"] or "",
        after=given["token"] or "",
        limit=given["limit"],
        may_see=call.viewer.may_see_now,
    )
    return json_response(page)


async def snapshot(call: FeedCall) -> Response:
    given, states = call.query, States(call.feed.pages)
    if given["token"] is not None:
        may_see = await _may_see(call, states.pointer_of(given["token"]))
        return json_response(await asyncio.to_thread(states.next, given["token"], given["limit"], may_see))
    catalog = named_catalog(given)
    pointer: str | None = given["pointer"]
    if catalog is not None:
        pointer = await named_branch(call.feed, call.viewer, catalog, given["branch"])
    if pointer is None:
        raise InvalidInput(
            "pointer: it is missing.",
            field="pointer",
            remedy="Name one, or a catalog and a branch, or send the token of a page.",
            parameters=[{"name": "pointer", "detail": "it is missing."}],
        )
    may_see = await _may_see(call, pointer)
    return json_response(await asyncio.to_thread(states.first, pointer, given["at"], given["limit"], may_see))


async def commit_by_id(call: FeedCall) -> Response:
    id, viewer = call.names["id"], call.viewer
    logged, found = await asyncio.to_thread(find_commit, call.feed, id, viewer.may_see_now)
    view = await viewer.view([logged.entry.pointer])
    if view is None:
        return Response(200, [JSON, NO_CACHE], found.json)
    seen = await asyncio.to_thread(view.seen, change_of(logged, call.feed.name))
    if seen is None:
        raise no_commit(id)
    return json_response(seen)


# ── subscriptions ───────────────────────────────────────────────────────────────────────────────────────────


SUBSCRIBING = Needs(
    right=Right.SUBSCRIPTION_MANAGE, where="each of its pointers", is_filtered=True, anywhere=(Right.SUBSCRIPTION_MANAGE,)
)


async def require_subscribing(call: FeedCall) -> None:
    """To create one: its pointers may be seen, and `subscription.manage` holds over each of them."""
    await _require(call, call.read(SubscriptionBody).pointers)


async def require_subscription(call: FeedCall) -> None:
    """⚠ One that exists is used only while its pointers may be seen and `subscription.manage` holds over each of them. Only
    callers who may have subscriptions learn that one is missing or belongs to another principal."""
    if call.caller.development:
        return
    try:
        one = await asyncio.to_thread((await own_subscriptions(call)).read, call.names["name"])
    except SubscriptionNotFound:
        await authorize_anywhere(call, SUBSCRIBING)
        return
    await _require(call, one.record.positions)


async def _require(call: FeedCall, pointers: Iterable[str]) -> None:
    viewer = call.viewer
    await viewer.view(pointers)
    await viewer.require_subscribing(pointers)


async def create_subscription(call: FeedCall) -> Response:
    body = call.read(SubscriptionBody)
    info, made = await asyncio.to_thread((await own_subscriptions(call)).create, call.names["name"], body)
    return json_response(info, 201 if made else 200, _version(info.version))


async def read_subscription(call: FeedCall) -> Response:
    info = await asyncio.to_thread((await own_subscriptions(call)).get, call.names["name"])
    return json_response(info, 200, _version(info.version))


async def delete_subscription(call: FeedCall) -> Response:
    try:
        subscribing = await own_subscriptions(call)
        await asyncio.to_thread(subscribing.delete, call.names["name"], call.version or call.query["version"])
    except SubscriptionNotFound:
        if call.run is None or not call.run.again:  # else an earlier run of this request has deleted it
            raise
    return Response(204, [NO_STORE], b"")


async def acknowledge(call: FeedCall) -> Response:
    body, subscribing = call.read(Acknowledgement), await own_subscriptions(call)
    info = await asyncio.to_thread(subscribing.acknowledge, call.names["name"], body, _request_id(call))
    return json_response(info, 200, _version(info.version))


async def rewind(call: FeedCall) -> Response:
    body, subscribing = call.read(Rewind), await own_subscriptions(call)
    info = await asyncio.to_thread(subscribing.rewind, call.names["name"], body, _request_id(call))
    return json_response(info, 200, _version(info.version))


async def subscription_changes(call: FeedCall) -> Response:
    """The next page, and what to post back when it is done with. Reading it moves nothing."""
    one = await asyncio.to_thread((await own_subscriptions(call)).read, call.names["name"])
    page = await next_page(call.service, call.feed, one, call.query["limit"], call.query["wait"], call.viewer)
    return Response(200, [JSON, NO_STORE], subscription_page_json(page, one.version))


async def next_page(
    service: Service,
    feed: RealmFeed,
    one: Subscription,
    limit: int,
    wait_seconds: float,
    viewer: Viewer,
    bytes_max: int = PAGE_BYTES_MAX,
) -> Page:
    filter = NO_FILTER if one.record.filter == NO_FILTER else one.record.filter
    starts = one.record.positions

    async def read(positions: dict[str, Position]) -> Page:
        view = await viewer.view(positions)
        return await asyncio.to_thread(feed.pages.read, positions, limit, filter, bytes_max, view)

    page = await read(starts)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_seconds
    while not page.entries:
        left = deadline - loop.time()
        found = await wait_for_page(service.hubs, feed, filter, limit, viewer, page.ends, left, read)
        if found is None:
            break
        page = found
    parts = {pointer: PointerPart(starts[pointer], part.end, part.head) for pointer, part in page.parts.items()}
    return Page(page.entries, parts, page.withheld)


# ── what the caller may see ─────────────────────────────────────────────────────────────────────────────────


async def _may_see(call: FeedCall, pointer: str) -> MaySee | None:
    view = await call.viewer.view([pointer])
    return None if view is None else view.may_see[pointer]


async def own_subscriptions(call: FeedCall) -> Subscribing:
    """The caller's own subscriptions, or all of them for who manages the realm's."""
    sees_all = await call.access.allows(call.caller, Right.SUBSCRIPTION_MANAGE)
    return Subscribing(call.feed.pages, owner=call.caller.owner_id, sees_all=sees_all)


def _request_id(call: FeedCall) -> str:
    return "" if call.run is None else call.run.request.id


def _version(version: str) -> tuple[bytes, bytes]:
    return b"etag", f'"{version}"'.encode()
