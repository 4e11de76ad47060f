"""Notifies the listeners of all processes of moved pointers, coalesced, and receives theirs.

A hint says "something moved": who hears it looks earlier than it would have. It is sent after a commit was answered, on a
connection of its own, and may be lost at any time: nothing rests on it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import psycopg

CHANNEL = b"headwater_moved"
COALESCE_SECONDS = 0.01
"""At most one hint is sent in this time, however many commits land."""
RECONNECT_SECONDS = 1.0

Wake = Callable[[], None]


class HintSender:
    """Sends hints shortly after they are given, from a thread that starts with the first one."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._due = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def moved(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closing:
                    self._thread = threading.Thread(target=self._run, name="pg-notify", daemon=True)
                    self._thread.start()
        self._due.set()

    def close(self) -> None:
        with self._lock:
            self._closing = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing:
            with contextlib.suppress(psycopg.Error, OSError), self._connect() as connection:
                self._send_until_closed(connection)

    def _send_until_closed(self, connection: psycopg.Connection[Any]) -> None:
        pause = threading.Event()
        while self._due.wait() and not self._closing:
            self._due.clear()
            connection.execute(b"NOTIFY " + CHANNEL)
            pause.wait(COALESCE_SECONDS)


class HintListener:
    """Calls `wake` for every hint, of any process, until it is stopped."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], wake: Wake) -> None:
        self._connect = connect
        self._wake = wake
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pg-listen", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(psycopg.Error, OSError), self._connect() as connection:
                self._listen(connection)
            self._stopping.wait(RECONNECT_SECONDS)

    def _listen(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(b"LISTEN " + CHANNEL)
        self._wake()  # what moved before we listened
        while not self._stopping.is_set():
            for _ in connection.notifies(timeout=0.2, stop_after=1):
                self._wake()
