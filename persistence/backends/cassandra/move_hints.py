"""A pointer about to be written enters; a hint leaves that lets others find it by time, without reading every pointer.

The hint (realm, window of 10 s, name) is acknowledged at QUORUM before the LWT is sent, and lives for an hour. A reader takes
every window from `since` on, with a margin on both sides for clocks that differ and for writes that wait between hint and LWT.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from headwater.persistence.backends.cassandra.calls import Call, Calls
from headwater.persistence.backends.cassandra.names import list_names
from headwater.persistence.backends.cassandra.schema import MOVED_TTL_SECONDS

WINDOW_MICROS = 10_000_000
MARGIN_MICROS = 30_000_000
REACH_MICROS = MOVED_TTL_SECONDS * 1_000_000 - 4 * MARGIN_MICROS
"""Hints that are older may have expired: whoever asks for more is given every name."""
HINTED_MAX = 10_000
LIST_PAGE = 5_000

_HINT = "INSERT INTO {ks}.moved (realm, window, name) VALUES (?, ?, ?)"
_READ = "SELECT name FROM {ks}.moved WHERE realm = ? AND window = ?"


class MoveHints:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._hinted: dict[tuple[str, str], int] = {}
        """The newest window in which a pointer's hint was acknowledged: a hot pointer is hinted once in 10 s."""
        self._lock = threading.Lock()

    def hint_call(self, realm: str, name: str) -> tuple[int, Call] | None:
        """The hint that must be acknowledged before the pointer is written, or None if it already was."""
        window = self._window_now()
        if self._hinted.get((realm, name)) == window:
            return None
        return window, self._calls.write(_HINT, (realm, window, name))

    def acknowledged(self, realm: str, name: str, window: int) -> None:
        with self._lock:
            if len(self._hinted) >= HINTED_MAX:
                self._hinted.clear()
            self._hinted[realm, name] = window

    def hint(self, realm: str, name: str) -> None:
        """Again if the window closed while the hint was on its way; the readers' margin covers what is slower than that."""
        for _ in range(2):
            hint = self.hint_call(realm, name)
            if hint is None:
                return
            window, call = hint
            self._calls.run(call)
            self.acknowledged(realm, name, window)

    def since(self, realm: str, since_micros: int) -> Iterator[str]:
        if since_micros < self._calls.clock.now_micros() - REACH_MICROS:
            yield from self._all_names(realm)
            return
        first = (since_micros - MARGIN_MICROS) // WINDOW_MICROS
        last = (self._calls.clock.now_micros() + MARGIN_MICROS) // WINDOW_MICROS
        reads = [self._calls.read(_READ, (realm, window)) for window in range(first, last + 1)]
        seen: set[str] = set()
        for read, first_page in zip(reads, self._calls.run_all(reads), strict=True):
            for page in self._calls.pages_after(read, first_page):
                for (name,) in page.rows:
                    if name not in seen:
                        seen.add(name)
                        yield name

    def _all_names(self, realm: str) -> Iterator[str]:
        after = ""
        while names := list_names(self._calls, realm, prefix="", after=after, limit=LIST_PAGE):
            yield from names
            after = names[-1]

    def _window_now(self) -> int:
        return self._calls.clock.now_micros() // WINDOW_MICROS
