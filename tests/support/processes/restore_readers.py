"""Readers that continue through a restore and keep what they saw: runs of entries, a new one after each typed reset."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import httpx

import headwater
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.errors import CursorAhead, CursorGone, HeadwaterError

PAUSE_SECONDS = 0.05
WAIT_SECONDS = 0.2
CURSOR_CODES = {"CURSOR_RESET", "CURSOR_EXPIRED"}


class Seen(NamedTuple):
    seq: int
    entry_id: str


class RestoreReader(threading.Thread):
    """Reads until it is stopped; a typed reset makes it begin again, anything else does not."""

    def __init__(self, pointer: str) -> None:
        super().__init__(daemon=True)
        self.pointer = pointer
        self.runs: list[list[Seen]] = [[]]
        self.told: list[str] = []
        """Codes of what was refused, in order."""
        self._stopped = threading.Event()
        self.fault: BaseException | None = None

    @property
    def last(self) -> Seen:
        return self.runs[-1][-1] if self.runs[-1] else Seen(0, "")

    def __enter__(self) -> RestoreReader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self.join(60)

    def stop(self) -> None:
        self._stopped.set()
        self.join(60)
        assert not self.is_alive() and self.fault is None, self.fault

    def run(self) -> None:
        try:
            self.read()
        except BaseException as fault:
            self.fault = fault

    def read(self) -> None:
        raise NotImplementedError

    def took(self, changes: list[Seen]) -> None:
        self.runs[-1] += changes

    def refused(self, code: str) -> bool:
        """Whether to begin again."""
        self.told.append(code)
        if code in CURSOR_CODES:
            self.runs.append([])
            return True
        time.sleep(PAUSE_SECONDS)
        return False

    @property
    def goes_on(self) -> bool:
        return not self._stopped.is_set()


class EmbeddedReader(RestoreReader):
    """An embedded engine of its own that follows the log."""

    def __init__(self, url: str, pointer: str) -> None:
        super().__init__(pointer)
        self._engine = headwater.open(url)
        self._feed = self._engine.realm().feed

    def read(self) -> None:
        position = beginning = Position(0, b"")
        with self._engine:
            while self.goes_on:
                try:
                    page = self._feed.page(self.pointer, position, limit=20, wait_seconds=WAIT_SECONDS)
                except (CursorGone, CursorAhead) as error:
                    position = beginning if self.refused(error.code) else position
                except HeadwaterError as error:
                    self.refused(error.code)
                else:
                    self.took([_seen(change) for change in page.frame.changes])
                    position = page.last


class HttpReader(RestoreReader):
    """Polls a server, with the cursor that its last page gave."""

    def __init__(self, feed_url: str, pointer: str) -> None:
        super().__init__(pointer)
        self._http = httpx.Client(base_url=feed_url, timeout=60)

    def read(self) -> None:
        with self._http:
            self._poll()

    def _poll(self) -> None:
        after = "earliest"
        while self.goes_on:
            parameters: dict[str, Any] = {"pointer": self.pointer, "after": after, "limit": 20, "wait": WAIT_SECONDS}
            answer = self._http.get("/changes", params=parameters)
            body = answer.json()
            if answer.status_code != 200:
                after = "earliest" if self.refused(body["code"]) else after
                continue
            self.took([Seen(change["seq"], change["entry_id"]) for change in body["changes"]])
            after = body["cursor"]


def _seen(change: Change) -> Seen:
    return Seen(change.seq, change.entry_id)
