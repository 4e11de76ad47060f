"""One end of a local socket between two workers: messages are gathered, and sent without waiting, from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from headwater.persistence.handover.messages import Message, frame, take_frames

RECEIVE_BYTES = 64 * 1024
"""⚠ Allocated for each receive, however little comes: a megabyte takes four times the time of the whole receive."""


class Connection:
    """Only the thread that watches the socket receives; it is woken when something could not be sent at once."""

    def __init__(self, connected: socket.socket, wake: Callable[[], None]) -> None:
        connected.setblocking(False)
        self.socket = connected
        self.is_lost = False
        self.heard_at = time.monotonic()
        self._wake = wake
        self._outbox: deque[Message] = deque()
        self._unsent = bytearray()
        self._received = bytearray()
        self._will_flush = False
        self._lock = threading.Lock()

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def post(self, message: Message) -> None:
        """Queue a message for the next flush."""
        if not self.is_lost:
            self._outbox.append(message)

    def flush_soon(self) -> None:
        """Flush at once from a thread; on an event loop after the ready callbacks have run, so that requests of one burst are
        sent together."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if not self._will_flush:
            self._will_flush = True
            loop.call_soon(self.flush)

    def flush(self) -> None:
        # ⚠ Reset the flag before the queue is emptied: what is posted from now on is flushed again, so that nothing is left.
        self._will_flush = False
        if not self._outbox and not self._unsent:
            return
        with self._lock:
            messages = [self._outbox.popleft() for _ in range(len(self._outbox))]
            if messages:
                self._unsent += frame(messages)
            self._send()
        if self._unsent:
            self._wake()

    def _send(self) -> None:
        while self._unsent and not self.is_lost:
            try:
                sent = self.socket.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # the reading side notices too
                self.is_lost = True
                return
            del self._unsent[:sent]

    def receive(self) -> list[Message]:
        """The messages received. `ConnectionError` when the other end is gone, `ValueError` when they cannot be decoded."""
        try:
            data = self.socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return []
        if not data:
            raise ConnectionError("the other worker has closed the connection")
        self.heard_at = time.monotonic()
        self._received += data
        return [message for messages in take_frames(self._received) for message in messages]

    def close(self) -> None:
        self.is_lost = True
        with contextlib.suppress(OSError):
            self.socket.close()
