"""Routes outside of the APIs: health, readiness, metrics, OpenAPI, front page."""

from __future__ import annotations

import asyncio

from headwater.schemas.errors import HeadwaterError, NotServing
from headwater.service.gate.problem_shape import PROBLEMS
from headwater.service.gate.request import Request
from headwater.service.gate.route import HEALTH, NO_BODY, Api, Needs, Route, public
from headwater.service.http.responses import JSON, Response, json_response
from headwater.service.root.front_page import FRONT_PAGE
from headwater.service.root.metrics_access import check_metrics_reader

READY_TIMEOUT_SECONDS = 5.0
HTML = (b"content-type", b"text/html; charset=utf-8")
METRICS_TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
ALIVE = Response(200, [JSON], b'{"status":"alive"}')


async def front(request: Request) -> Response:
    return Response(200, [HTML], FRONT_PAGE.encode())


async def livez(request: Request) -> Response:
    return ALIVE


async def readyz(request: Request) -> Response:
    service = request.service
    if service.stopping.is_set:
        raise NotServing("the server is stopping.", remedy="Come again.")
    try:
        await asyncio.wait_for(asyncio.to_thread(service.feeds.check_store), READY_TIMEOUT_SECONDS)
    except TimeoutError:
        raise NotServing("the store does not answer.", remedy="Look at the store.") from None
    except HeadwaterError as error:
        raise NotServing(f"the store refuses: {error.code}.", remedy="Look at the store.") from error
    return json_response({"status": "ready"})


async def metrics(request: Request) -> Response:
    return Response(200, [METRICS_TEXT], await asyncio.to_thread(request.service.metrics.text))


async def openapi(request: Request) -> Response:
    return Response(200, [JSON], await asyncio.to_thread(request.service.openapi))


async def _reads_metrics(request: Request) -> None:
    check_metrics_reader(request.service.config, request.scope)


ROOT = Api(
    name="root",
    prefix="",
    summary="Health, metrics and this description.",
    errors=PROBLEMS,
    routes=(
        Route(
            method="GET",
            path="/",
            summary="A page that shows the way.",
            handler=front,
            needs=public("nobody: it is the same for all"),
            budget=NO_BODY,
            answer_media="text/html",
        ),
        Route(
            method="GET",
            path="/livez",
            summary="Whether the process lives.",
            handler=livez,
            needs=public("nobody: health is asked for before anything works"),
            budget=HEALTH,
        ),
        Route(
            method="GET",
            path="/readyz",
            summary="Whether it can serve.",
            handler=readyz,
            needs=public("nobody: health is asked for before anything works"),
            budget=HEALTH,
            also=(503,),
        ),
        Route(
            method="GET",
            path="/metrics",
            summary="Prometheus' text format.",
            handler=metrics,
            needs=Needs(right=None, where="the metrics token, or this machine", is_public=True, check=_reads_metrics),
            budget=HEALTH,
            answer_media="text/plain",
            also=(401,),
        ),
        Route(
            method="GET",
            path="/openapi.json",
            summary="This description.",
            handler=openapi,
            needs=public("nobody: it is the same for all"),
            budget=NO_BODY,
        ),
    ),
)
