"""The routes of the feed."""

from __future__ import annotations

import msgspec

from headwater.schemas.change import Change
from headwater.schemas.errors import NotServing
from headwater.schemas.http.feed_json import (
    Acknowledgement,
    CommitAnswer,
    CommitBody,
    FeedPage,
    PointersPage,
    ReferenceLogAnswer,
    Rewind,
    StatePage,
    SubscriptionBody,
    SubscriptionInfo,
    SubscriptionPage,
)
from headwater.service.auth.rights.rights import Right
from headwater.service.feed import feed_handlers
from headwater.service.feed.call import FeedCall, require_commit
from headwater.service.feed.commit_route import commit_response
from headwater.service.feed.feed_handlers import SUBSCRIBING
from headwater.service.feed.reference_log_route import reference_log
from headwater.service.feed.stream import serve_stream
from headwater.service.gate.problem_shape import PROBLEMS
from headwater.service.gate.route import BODY, STREAM, Api, Needs, Route
from headwater.service.http import parameters
from headwater.service.http.responses import Response, header

FEED = "/feed/v1/{realm}"
CHANGES_ROUTE = f"{FEED}/changes"
STREAM_ROUTE = f"{FEED}/stream"
COMMIT_ROUTE = f"{FEED}/commit"

SEEN = Needs(right=Right.FEED_READ, where="each pointer and key", is_filtered=True)
"""What may not be seen is left out, or not there; asked again with every page and frame."""
SUBSCRIBED = msgspec.structs.replace(SUBSCRIBING, check=feed_handlers.require_subscription)
CREATING = msgspec.structs.replace(SUBSCRIBING, check=feed_handlers.require_subscribing)
COMMITTING = Needs(right=Right.COMMIT_WRITE, where="each key", check=require_commit, anywhere=(Right.COMMIT_WRITE,))


async def changes(call: FeedCall) -> Response:
    scope = call.scope
    return await call.service.changes.answer(call.feed, scope["query_string"], header(scope, b"if-none-match"), call.viewer)


async def stream(call: FeedCall) -> None:
    service = call.service
    if service.stopping.is_set:
        raise NotServing("the server is stopping.", remedy="Try again, with the same cursor.")
    await serve_stream(
        call.feed,
        call.scope,
        call.receive,
        call.send,
        call.id,
        send_frame=call.send_frame,
        limits=service.limits,
        hubs=service.hubs,
        streams=service.streams,
        viewer=call.viewer,
    )


_SUBSCRIPTION = f"{FEED}/subscriptions/{{name}}"

ROUTES = (
    Route(
        "GET",
        f"{FEED}/pointers",
        "The pointers of a realm, in order of name.",
        feed_handlers.pointers,
        SEEN,
        parameters=parameters.POINTERS,
        answer=PointersPage,
    ),
    Route(
        "GET",
        CHANGES_ROUTE,
        "A page of Changes after a cursor, oldest first; 304 with If-None-Match when nothing is new.",
        changes,
        SEEN,
        parameters=parameters.CHANGES,
        answer=FeedPage,
        also=(304, 410),
        is_long=True,
    ),
    Route(
        "GET",
        STREAM_ROUTE,
        "Changes as server-sent events: `changes` and `bookmark` carry a FeedPage, `end` a StreamEnd.",
        stream,
        SEEN,
        STREAM,
        parameters=parameters.STREAM,
        is_long=True,
        answer=FeedPage,
        answer_media="text/event-stream",
        also=(410,),
    ),
    Route(
        "GET",
        f"{FEED}/snapshot",
        "The state of a pointer at one entry, in pages of that same state.",
        feed_handlers.snapshot,
        SEEN,
        parameters=parameters.SNAPSHOT,
        answer=StatePage,
        also=(410,),
    ),
    Route(
        "GET",
        f"{FEED}/commits/{{id}}",
        "The Change of an entry or commit id.",
        feed_handlers.commit_by_id,
        SEEN,
        answer=Change,
        also=(410,),
    ),
    Route(
        "GET",
        f"{FEED}/reference-log",
        "Every move of every branch and tag of a catalog, deleted ones too, newest first.",
        reference_log,
        SEEN,
        parameters=parameters.REFERENCE_LOG,
        answer=ReferenceLogAnswer,
    ),
    Route(
        "POST",
        COMMIT_ROUTE,
        "Commit operations to a branch, all or none. The same Idempotency-Key commits once.",
        commit_response,
        COMMITTING,
        BODY,
        body=CommitBody,
        answer=CommitAnswer,
        also=(409, 412, 413),
        is_keyed=False,  # its key is looked for in the log
    ),
    Route(
        "PUT",
        _SUBSCRIPTION,
        "Create a subscription; 200 if the same one is there already.",
        feed_handlers.create_subscription,
        CREATING,
        BODY,
        body=SubscriptionBody,
        answer=SubscriptionInfo,
        status=201,
        also=(200, 409, 410, 413),
    ),
    Route(
        "GET",
        _SUBSCRIPTION,
        "The positions and the lag of a subscription.",
        feed_handlers.read_subscription,
        SUBSCRIBED,
        answer=SubscriptionInfo,
    ),
    Route(
        "DELETE",
        _SUBSCRIPTION,
        "Delete a subscription.",
        feed_handlers.delete_subscription,
        SUBSCRIBED,
        parameters=parameters.DELETE_SUBSCRIPTION,
        status=204,
        also=(409, 412, 413),
    ),
    Route(
        "GET",
        f"{_SUBSCRIPTION}/changes",
        "Changes after a subscription's positions; reading them moves nothing.",
        feed_handlers.subscription_changes,
        SUBSCRIBED,
        parameters=parameters.SUBSCRIPTION_CHANGES,
        answer=SubscriptionPage,
        also=(410,),
        is_long=True,
    ),
    Route(
        "POST",
        f"{_SUBSCRIPTION}/acknowledge",
        "Move forward; 409 if another reader was faster.",
        feed_handlers.acknowledge,
        SUBSCRIBED,
        BODY,
        body=Acknowledgement,
        answer=SubscriptionInfo,
        also=(409, 410, 413),
    ),
    Route(
        "POST",
        f"{_SUBSCRIPTION}/rewind",
        "Reset positions, back or forth.",
        feed_handlers.rewind,
        SUBSCRIBED,
        BODY,
        body=Rewind,
        answer=SubscriptionInfo,
        also=(409, 410, 413),
    ),
)

FEED_API = Api(
    name="feed",
    prefix="/feed",
    summary="The change feed: complete, in order, once, resumable from any commit.",
    errors=PROBLEMS,
    routes=ROUTES,
)
