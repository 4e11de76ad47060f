"""A webhook receiver on loopback that gives each call a chosen response and records what it was sent."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(ThreadingHTTPServer):
    """Keeps what it gets and answers as it is told."""

    daemon_threads = True

    def __init__(self, answer: Callable[[int], int], headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.answer = answer
        self.headers = headers
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}/hook?a=1"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"  # connections stay open

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.calls.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.server.answer(len(self.server.calls))
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiving(
    answer: Callable[[int], int] = lambda _: 204, *, headers: Mapping[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    with Receiver(answer, headers or {}, tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
