"""Serves the status of a running command on this machine: `/` as JSON, `/metrics` for Prometheus, `/livez`, `/readyz`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import msgspec

from headwater.schemas.errors import InvalidInput

JSON_TYPE = "application/json"
METRICS_TYPE = "text/plain; version=0.0.4"
TEXT_TYPE = "text/plain"


class StatusSource(NamedTuple):
    """What a page shows, asked for at each request."""

    status: Callable[[], object]
    metrics: Callable[[], str]
    is_ready: Callable[[], bool]


class Page(NamedTuple):
    status: HTTPStatus
    media_type: str
    body: bytes


def page_at(source: StatusSource, path: str) -> Page:
    match path.partition("?")[0]:
        case "/":
            return Page(HTTPStatus.OK, JSON_TYPE, msgspec.json.encode(source.status()))
        case "/metrics":
            return Page(HTTPStatus.OK, METRICS_TYPE, source.metrics().encode())
        case "/livez":
            return Page(HTTPStatus.OK, TEXT_TYPE, b"ok\n")
        case "/readyz" if source.is_ready():
            return Page(HTTPStatus.OK, TEXT_TYPE, b"ready\n")
        case "/readyz":
            return Page(HTTPStatus.SERVICE_UNAVAILABLE, TEXT_TYPE, b"not ready yet\n")
        case _:
            return Page(HTTPStatus.NOT_FOUND, TEXT_TYPE, b"not found\n")


@contextmanager
def status_page(host: str, port: int, source: StatusSource) -> Iterator[int]:
    """The port that it listens on."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = page_at(source, self.path)
            self.send_response(page.status)
            self.send_header("Content-Type", page.media_type)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise InvalidInput(f"{host}:{port}: {error.strerror}.", field="port", remedy="Choose another --port.") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="status-page", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
