"""Routes outside of the APIs: health, readiness, metrics, OpenAPI, front page, docs."""

from __future__ import annotations

import asyncio

from headwater.schemas.errors import HeadwaterError, NotServing
from headwater.service.gate.problem_shape import PROBLEMS
from headwater.service.gate.request import Request
from headwater.service.gate.route import HEALTH, Api, Needs, Route, public
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
        raise NotServing("the server is stopping.", remedy="Try again.")
    try:
        await asyncio.wait_for(asyncio.to_thread(service.feeds.check_store), READY_TIMEOUT_SECONDS)
    except TimeoutError:
        raise NotServing("the store does not answer.", remedy="Look at the store.") from None
    except HeadwaterError as error:
        raise NotServing(f"the store refuses: {error.code}.", remedy="Look at the store.") from error
    return json_response({"status": "ready"})


async def metrics(request: Request) -> Response:
    return Response(200, [METRICS_TEXT], await asyncio.to_thread(request.service.metrics.text))


async def docs(request: Request) -> Response:
    return Response(200, [HTML], await asyncio.to_thread(request.service.docs_page))


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
            "GET",
            "/",
            "A page with links to everything else.",
            front,
            public("nobody: it is the same for all"),
            answer_media="text/html",
        ),
        Route(
            "GET",
            "/livez",
            "Whether the process lives.",
            livez,
            public("nobody: health is asked for before anything works"),
            HEALTH,
        ),
        Route(
            "GET",
            "/readyz",
            "Whether it can serve.",
            readyz,
            public("nobody: health is asked for before anything works"),
            HEALTH,
            also=(503,),
        ),
        Route(
            "GET",
            "/metrics",
            "Prometheus' text format.",
            metrics,
            Needs(right=None, where="the metrics token, or this machine", is_public=True, check=_reads_metrics),
            HEALTH,
            answer_media="text/plain",
            also=(401,),
        ),
        Route(
            "GET",
            "/docs",
            "Every route, for reading in a browser.",
            docs,
            public("nobody: it is the same for all"),
            answer_media="text/html",
        ),
        Route("GET", "/openapi.json", "This description.", openapi, public("nobody: it is the same for all")),
    ),
)
