"""What stands beside the feed: whether it lives and is ready, its metrics, its description, and a page that shows the way."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headwater.schemas.errors import HeadwaterError, NotServing
from headwater.service.http.front_page import FRONT_PAGE
from headwater.service.http.service import Service
from headwater.service.openapi import openapi_bytes

READY_TIMEOUT_SECONDS = 5.0
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def plain_routes(service: Service) -> list[BaseRoute]:
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
        return Response(await asyncio.to_thread(service.metrics.text), media_type=METRICS_TEXT)

    async def openapi(request: Request) -> Response:
        return Response(openapi_bytes(), media_type="application/json")

    return [
        Route("/", front),
        Route("/livez", livez),
        Route("/readyz", readyz),
        Route("/metrics", metrics),
        Route("/openapi.json", openapi),
    ]


def _ask_store(service: Service) -> None:
    """One cheap read of what every request needs: the realms."""
    service.feeds.check_store()
