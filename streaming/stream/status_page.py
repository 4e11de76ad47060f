"""Serves the status of a running stream on this machine: `/` as JSON, `/metrics` for Prometheus, `/livez`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from headwater.schemas.errors import InvalidInput
from headwater.streaming.stream.stream_status import StreamStatus, metrics_text


@contextmanager
def status_page(host: str, port: int, status: Callable[[], StreamStatus]) -> Iterator[int]:
    """The port that it listens on."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages: dict[str, tuple[str, Callable[[], bytes]]] = {
                "/": ("application/json", lambda: msgspec.json.encode(status())),
                "/metrics": ("text/plain; version=0.0.4", lambda: metrics_text(status()).encode()),
                "/livez": ("text/plain", lambda: b"ok\n"),
            }
            found = pages.get(self.path.partition("?")[0])
            body = b"not found\n" if found is None else found[1]()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "text/plain" if found is None else found[0])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    try:
        server = ThreadingHTTPServer((host, port), Page)
    except OSError as error:
        raise InvalidInput(f"{host}:{port}: {error.strerror}.", field="port", remedy="Choose another --port.") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="stream-status", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
