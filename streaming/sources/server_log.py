"""Reads the log of a server for `format("headwater")`: a job with a token needs no database credentials.

The server leaves out what its principal may not see: pointers are not listed, Changes are withheld, in whole or in part.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import httpx
import msgspec

from headwater.consumers.backoff import Backoff
from headwater.consumers.clients.connection import Connection
from headwater.consumers.clients.feed_http import FeedTarget, Query, error_of, timeout, unreachable
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.http.feed_json import FeedPage, PointerInfo, PointersPage
from headwater.streaming.sources.log_options import LogOptions

T = TypeVar("T")
TRIES_MAX = 6
PAGE_POINTERS = 1_000

_clients: dict[tuple[int, str, str, str, str], httpx.Client] = {}
_lock = threading.Lock()


class ServerLog:
    """The feed of one realm, as the options' principal sees it."""

    def __init__(self, options: LogOptions) -> None:
        connection = Connection(
            options.server,
            token=options.token,
            client_id=options.client_id,
            client_secret=options.client_secret,
            ca=options.ca,
        )
        self._target: FeedTarget = connection.target(options.realm)
        self._client = _kept_client(options, connection)

    def pointers(self) -> Iterator[tuple[str, PointerInfo]]:
        """Each with the realm's instance."""
        token: str | None = None
        while True:
            query: Query = [("limit", PAGE_POINTERS), *([("token", token)] if token else [])]
            page = self._get("pointers", query, PointersPage)
            for one in page.pointers:
                yield page.realm_instance, one
            token = page.next_token
            if token is None:
                return

    def instance(self) -> str:
        return self._get("pointers", [("limit", 1)], PointersPage).realm_instance

    def page(self, pointer: str, after: str, limit: int) -> FeedPage:
        return self._get("changes", [("pointer", pointer), ("after", after), ("limit", limit)], FeedPage)

    def _get(self, path: str, query: Query, kind: type[T]) -> T:
        return _retried(lambda: self._once(path, query, kind))

    def _once(self, path: str, query: Query, kind: type[T]) -> T:
        try:
            response = self._client.get(self._target.url(path), params=query, headers=self._target.headers, timeout=timeout())
        except httpx.TransportError as error:
            raise unreachable(self._target.server, error) from error
        if not response.is_success:
            raise error_of(response.status_code, response.content, response.headers)
        return msgspec.json.decode(response.content, type=kind)


@atexit.register
def close_clients() -> None:
    """The logs of this process; a forked child leaves its parent's alone."""
    with _lock:
        for place in [place for place in _clients if place[0] == os.getpid()]:
            _clients.pop(place).close()


def _retried(ask: Callable[[], T]) -> T:
    backoff = Backoff(tries_max=TRIES_MAX)
    while True:
        try:
            return ask()
        except HeadwaterError as error:
            time.sleep(backoff.after(error))


def _kept_client(options: LogOptions, connection: Connection) -> httpx.Client:
    """One per process: Spark reuses its workers, and a client's secret is exchanged for a token once. After a fork the child
    makes its own."""
    place = (os.getpid(), options.server, options.client_id, options.client_secret, options.ca)
    with _lock:
        if place not in _clients:
            _clients[place] = connection.client()
        return _clients[place]
