"""A webhook receiver on loopback that gives each call a chosen response and records what it was sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(ThreadingHTTPServer):
    """Keeps what it gets and answers as it is told."""

    daemon_threads = True

    def __init__(self, answer: Callable[[int], int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.calls: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://localhost:{self.server_address[1]}/hook?a=1"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.calls.append(({name.lower(): value for name, value in self.headers.items()}, body))
        status = self.server.answer(len(self.server.calls))
        self.send_response(status)
        if status == 302:
            self.send_header("location", self.server.url)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiving(answer: Callable[[int], int] = lambda _: 204) -> Iterator[Receiver]:
    with Receiver(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
