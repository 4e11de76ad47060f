"""The routes of the feed; requests are matched against this table and the OpenAPI is generated from it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.http.feed_json import (
    Acknowledgement,
    CommitAnswer,
    CommitBody,
    FeedPage,
    PointersPage,
    Rewind,
    StatePage,
    SubscriptionBody,
    SubscriptionInfo,
    SubscriptionPage,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.feed import feed_handlers
from headwater.service.feed.feed_handlers import Handler
from headwater.service.http import parameters
from headwater.service.http.parameters import Parameter

FEED = "/feed/v1/{realm}"
CHANGES_ROUTE = f"{FEED}/changes"
STREAM_ROUTE = f"{FEED}/stream"
COMMIT_ROUTE = f"{FEED}/commit"


class FeedRoute(NamedTuple):
    method: str
    path: str
    summary: str
    right: Right
    """What it needs over what it touches; what may merely not be seen is left out, or not there."""
    handler: Handler | None = None
    """None for those that have a way of their own, because they are hot or answer without end."""
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    answer_media: str = "application/json"
    status: int = 200
    also: tuple[int, ...] = ()
    """Statuses of refusals beside 400, 401, 403, 404, 429 and 503, which every route may have."""


_SUBSCRIPTION = f"{FEED}/subscriptions/{{name}}"

FEED_ROUTES = (
    FeedRoute(
        "GET",
        f"{FEED}/pointers",
        "The pointers of a realm, in order of name.",
        Right.FEED_READ,
        feed_handlers.pointers,
        parameters.POINTERS,
        answer=PointersPage,
    ),
    FeedRoute(
        "GET",
        CHANGES_ROUTE,
        "A page of Changes after a cursor, oldest first; 304 with If-None-Match when nothing is new.",
        Right.FEED_READ,
        parameters=parameters.CHANGES,
        answer=FeedPage,
        also=(304, 410),
    ),
    FeedRoute(
        "GET",
        STREAM_ROUTE,
        "Changes as server-sent events: `changes` and `bookmark` carry a FeedPage, `end` a StreamEnd.",
        Right.FEED_READ,
        parameters=parameters.STREAM,
        answer=FeedPage,
        answer_media="text/event-stream",
        also=(410,),
    ),
    FeedRoute(
        "GET",
        f"{FEED}/snapshot",
        "The state of a pointer at one entry, in pages of that same state.",
        Right.FEED_READ,
        feed_handlers.snapshot,
        parameters.SNAPSHOT,
        answer=StatePage,
        also=(410,),
    ),
    FeedRoute(
        "GET",
        f"{FEED}/commits/{{id}}",
        "The Change of an entry or commit id.",
        Right.FEED_READ,
        feed_handlers.commit_by_id,
        answer=Change,
        also=(410,),
    ),
    FeedRoute(
        "POST",
        COMMIT_ROUTE,
        "Commit operations to a branch, all or none. The same Idempotency-Key commits once.",
        Right.COMMIT_WRITE,
        body=CommitBody,
        answer=CommitAnswer,
        also=(409, 412, 413),
    ),
    FeedRoute(
        "PUT",
        _SUBSCRIPTION,
        "Create a subscription; 200 if the same one is there already.",
        Right.SUBSCRIPTION_MANAGE,
        feed_handlers.create_subscription,
        body=SubscriptionBody,
        answer=SubscriptionInfo,
        status=201,
        also=(200, 409, 410, 413),
    ),
    FeedRoute(
        "GET",
        _SUBSCRIPTION,
        "Where a subscription stands.",
        Right.SUBSCRIPTION_MANAGE,
        feed_handlers.read_subscription,
        answer=SubscriptionInfo,
    ),
    FeedRoute(
        "DELETE",
        _SUBSCRIPTION,
        "Delete a subscription.",
        Right.SUBSCRIPTION_MANAGE,
        feed_handlers.delete_subscription,
        parameters.DELETE_SUBSCRIPTION,
        status=204,
        also=(409, 412, 413),
    ),
    FeedRoute(
        "GET",
        f"{_SUBSCRIPTION}/changes",
        "What is behind a subscription's positions; reading it moves nothing.",
        Right.SUBSCRIPTION_MANAGE,
        feed_handlers.subscription_changes,
        parameters.SUBSCRIPTION_CHANGES,
        answer=SubscriptionPage,
        also=(410,),
    ),
    FeedRoute(
        "POST",
        f"{_SUBSCRIPTION}/acknowledge",
        "Move forward; 409 if another reader was faster.",
        Right.SUBSCRIPTION_MANAGE,
        feed_handlers.acknowledge,
        body=Acknowledgement,
        answer=SubscriptionInfo,
        also=(409, 410, 413),
    ),
    FeedRoute(
        "POST",
        f"{_SUBSCRIPTION}/rewind",
        "Reset positions, back or forth.",
        Right.SUBSCRIPTION_MANAGE,
        feed_handlers.rewind,
        body=Rewind,
        answer=SubscriptionInfo,
        also=(409, 410, 413),
    ),
)


class RouteMatch(NamedTuple):
    realm: str
    rest: str
    """The id or name in the path, if it has one."""
    by_method: dict[str, FeedRoute]


def find_route(path: str) -> RouteMatch | None:
    """What is at a path that begins with `/feed/v1/`; None if nothing is."""
    parts = path.split("/")[3:]
    if not 2 <= len(parts) <= 4 or not parts[0]:
        return None
    by_method = _BY_SHAPE.get((parts[1], len(parts), parts[3] if len(parts) == 4 else ""))
    return None if by_method is None else RouteMatch(parts[0], parts[2] if len(parts) > 2 else "", by_method)


def _by_shape() -> dict[tuple[str, int, str], dict[str, FeedRoute]]:
    """By the word behind the realm, the number of parts, and the last of four."""
    found: dict[tuple[str, int, str], dict[str, FeedRoute]] = {}
    for route in FEED_ROUTES:
        parts = route.path.split("/")[3:]
        found.setdefault((parts[1], len(parts), parts[3] if len(parts) == 4 else ""), {})[route.method] = route
    return found


_BY_SHAPE = _by_shape()
