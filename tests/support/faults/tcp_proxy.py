"""A TCP proxy in front of a real server: passes bytes on unchanged until an armed fault meets its marker.

The fault decides what the client can know: with LANDED the server gets the whole request and answers it, and the answer is
thrown away; with NOT_LANDED the server never gets the request. Either way the client sees the same: silence, then a cut
connection (or silence forever, with `hold_open`). A test asserts `fault.fired`, so that a fault that never struck fails it.
"""

from __future__ import annotations

import contextlib
import enum
import select
import socket
import threading
import time
from types import TracebackType

CHUNK_BYTES = 65_536
POLL_SECONDS = 0.05


class Outcome(enum.Enum):
    LANDED = "landed"
    """The server got the request and answered it; the answer is lost."""
    NOT_LANDED = "not landed"
    """The request is lost on its way to the server."""


class Fault:
    """One request to be hit: the first one after arming whose bytes contain `marker`, over any connection."""

    def __init__(self, marker: bytes, outcome: Outcome, *, hold_open: bool = False, settle_seconds: float = 0.15) -> None:
        assert marker, "an empty marker would hit whatever comes first"
        self.marker = marker
        self.outcome = outcome
        self.hold_open = hold_open
        self.settle_seconds = settle_seconds
        self.answer_bytes_swallowed = 0
        self._claimed = threading.Lock()
        self._fired = threading.Event()
        self._settled = threading.Event()

    @property
    def fired(self) -> bool:
        return self._fired.is_set()

    def claim(self) -> bool:
        """True for the one connection that this fault strikes."""
        claimed = self._claimed.acquire(blocking=False)
        if claimed:
            self._fired.set()
        return claimed

    def settle(self) -> None:
        self._settled.set()

    def wait_settled(self, timeout_seconds: float = 10.0) -> bool:
        """True when the fault has struck, and where it lands the server has answered."""
        return self._settled.wait(timeout_seconds)


class TcpProxy:
    """Listens on a free loopback port and forwards to one server; a context manager."""

    def __init__(self, server_host: str, server_port: int) -> None:
        self._server = (server_host, server_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()[:2]
        self.connections_total = 0
        self._fault: Fault | None = None
        self._links: list[_Link] = []
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name="tcp-proxy", daemon=True)
        self._thread.start()

    def arm(self, fault: Fault) -> Fault:
        self._fault = fault
        return fault

    def armed_fault(self) -> Fault | None:
        """The fault that still waits for its request."""
        fault = self._fault
        return fault if fault is not None and not fault.fired else None

    def cut_all(self) -> int:
        """Cut every open connection now; their number."""
        with self._lock:
            alive = [link for link in self._links if link.alive]
        for link in alive:
            link.cut()
        return len(alive)

    def close(self) -> None:
        self._closing = True
        # shutdown wakes the accept call where close alone would leave it asleep
        _shut(self._listener)
        self._listener.close()
        self.cut_all()
        self._thread.join(5)

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server, timeout=5)
            except OSError:
                client.close()
                continue
            with self._lock:
                self.connections_total += 1
                self._links = [link for link in self._links if link.alive]
                self._links.append(_Link(self, client, server))


class _Link:
    """One client connection and its server connection, pumped by one thread."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.settimeout(10)
        self._proxy = proxy
        self._client = client
        self._server = server
        self._tail = b""
        self.alive = True
        threading.Thread(target=self._pump, name="tcp-proxy-link", daemon=True).start()

    def cut(self) -> None:
        self.alive = False
        _shut(self._client)
        _shut(self._server)

    def _pump(self) -> None:
        try:
            while self.alive and self._pump_once():
                pass
        except OSError:
            pass
        finally:
            self.cut()
            self._client.close()
            self._server.close()

    def _pump_once(self) -> bool:
        ready, _, _ = select.select([self._client, self._server], [], [], POLL_SECONDS)
        if self._server in ready:
            answer = self._server.recv(CHUNK_BYTES)
            if not answer:
                return False
            self._client.sendall(answer)
        if self._client in ready:
            request = self._client.recv(CHUNK_BYTES)
            if not request:
                return False
            fault = self._struck_by(request)
            if fault is not None:
                self._strike(fault, request)
                return False
            self._server.sendall(request)
        return True

    def _struck_by(self, request: bytes) -> Fault | None:
        """The armed fault, if its marker is in this chunk or lies across the border to the one before."""
        fault = self._proxy.armed_fault()
        if fault is None:
            self._tail = b""
            return None
        seen = self._tail + request
        self._tail = seen[-(len(fault.marker) - 1) :] if len(fault.marker) > 1 else b""
        return fault if fault.marker in seen and fault.claim() else None

    def _strike(self, fault: Fault, request: bytes) -> None:
        if fault.outcome is Outcome.LANDED:
            self._server.sendall(request)
            self._swallow_answer(fault)
        else:
            _shut(self._server)
        fault.settle()
        while fault.hold_open and self.alive:
            ready, _, _ = select.select([self._client], [], [], POLL_SECONDS)
            if ready and not self._client.recv(CHUNK_BYTES):
                return

    def _swallow_answer(self, fault: Fault) -> None:
        """Forward what is left of the request, throw the answer away, and end when the server has gone quiet after it."""
        quiet_since = time.monotonic()
        while self.alive:
            ready, _, _ = select.select([self._client, self._server], [], [], POLL_SECONDS)
            if self._client in ready:
                rest = self._client.recv(CHUNK_BYTES)
                if not rest:
                    return
                self._server.sendall(rest)
            if self._server in ready:
                answer = self._server.recv(CHUNK_BYTES)
                if not answer:
                    return
                fault.answer_bytes_swallowed += len(answer)
                quiet_since = time.monotonic()
            elif fault.answer_bytes_swallowed and time.monotonic() - quiet_since > fault.settle_seconds:
                return


def _shut(either: socket.socket) -> None:
    with contextlib.suppress(OSError):
        either.shutdown(socket.SHUT_RDWR)
