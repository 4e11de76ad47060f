"""Routes outside of the APIs: health, readiness, metrics, OpenAPI, front page."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.schemas.errors import HeadwaterError, NotServing
from headwater.service.auth.tokens.token_endpoint import FORM_BYTES_MAX, dev_token
from headwater.service.auth.tokens.token_openapi import TOKENS_ROUTE
from headwater.service.feed.service import Service
from headwater.service.http.bodies import read_body
from headwater.service.root.front_page import FRONT_PAGE
from headwater.service.root.metrics_access import check_metrics_reader
from headwater.service.root.openapi import openapi_bytes

READY_TIMEOUT_SECONDS = 5.0
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def root_routes(service: Service) -> list[BaseRoute]:
    async def front(request: Request) -> Response:
        return HTMLResponse(FRONT_PAGE)

    async def livez(request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def readyz(request: Request) -> Response:
        if service.stopping.is_set:
            raise NotServing("the server is stopping.", remedy="Come again.")
        try:
            await asyncio.wait_for(asyncio.to_thread(_ask_store, service), READY_TIMEOUT_SECONDS)
        except TimeoutError:
            raise NotServing("the store does not answer.", remedy="Look at the store.") from None
        except HeadwaterError as error:
            raise NotServing(f"the store refuses: {error.code}.", remedy="Look at the store.") from error
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> Response:
        check_metrics_reader(service.config, request.scope)
        return Response(await asyncio.to_thread(service.metrics.text), media_type=METRICS_TEXT)

    async def openapi(request: Request) -> Response:
        return Response(openapi_bytes(), media_type="application/json")

    async def tokens(request: Request) -> Response:
        body = await read_body(request.scope, request.receive, FORM_BYTES_MAX)
        endpoint = service.access.tokens
        realm = request.path_params["realm"]
        answer = dev_token(body) if endpoint is None else await endpoint.answer(request.scope, body, realm)
        return Response(answer.body, answer.status, {name.decode(): value.decode() for name, value in answer.headers})

    return [
        Route(TOKENS_ROUTE, tokens, methods=["POST"]),
        Route("/", front),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
    ]


def _ask_store(service: Service) -> None:
    """One cheap read of what every request needs: the realms."""
    service.feeds.check_store()
