"""Announces pointers before they are written, so that other processes find moves without reading every pointer.

Cassandra has no order of writes that a reader could ask for, so each process keeps a journal of its own in each realm: rows
(number → pointer), acknowledged at QUORUM before the LWT is sent. An announcement is *open* until every LWT under it has had
its answer, and a while longer, so that a busy pointer is announced once in `KEEP_SECONDS`. `movers` names the processes, the
lowest number that each has open, and whether it has any.

⚠ A reader takes all announcements from the lowest one that was open when it asked before. So an LWT that lands long after its
announcement is still reported: its announcement is open, and read with every question. One whose outcome is unknown stays
open until the pointer's version has passed the one that it asked for, when it can no longer land.
Clocks have no part in it but for the life of the rows: they go after an hour, so a reader that has not asked for half an hour
is told every name. The journal of a process that died is read until it expires.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence

from headwater.persistence.backend import Moves, MoveToken
from headwater.persistence.backends.cassandra.calls import Call, Calls, Row
from headwater.persistence.backends.cassandra.names import list_names
from headwater.persistence.backends.cassandra.pointers import read_pointer
from headwater.persistence.backends.cassandra.schema import MOVED_TTL_SECONDS
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import HeadwaterError

KEEP_SECONDS = 10.0
REFRESH_SECONDS = MOVED_TTL_SECONDS / 6
REACH_SECONDS = MOVED_TTL_SECONDS / 2
LIST_PAGE = 5_000

_ANNOUNCE = "INSERT INTO {ks}.moved (realm, writer, number, name) VALUES (?, ?, ?, ?)"
_READ = "SELECT name FROM {ks}.moved WHERE realm = ? AND writer = ? AND number >= ?"
_PUBLISH = "INSERT INTO {ks}.movers (realm, writer, low, is_open) VALUES (?, ?, ?, ?)"
_MOVERS = "SELECT writer, low, is_open FROM {ks}.movers WHERE realm = ?"


class Announcement:
    __slots__ = ("acknowledged", "doubtful_version", "name", "number", "realm", "users", "written_at")

    def __init__(self, realm: str, name: str, number: int) -> None:
        self.realm = realm
        self.name = name
        self.number = number
        self.written_at = time.monotonic()
        self.acknowledged = False
        self.users = 1
        self.doubtful_version: int | None = None
        """The highest version that an LWT of unknown outcome asked for."""

    @property
    def is_young(self) -> bool:
        return time.monotonic() - self.written_at < KEEP_SECONDS


class _RealmJournal:
    """What this process has announced in one realm. The caller holds the journal's lock."""

    def __init__(self) -> None:
        self.next_number = 1
        self.newest: dict[str, Announcement] = {}
        self.open: dict[int, Announcement] = {}
        """In order of number."""
        self.published: tuple[int, bool] | None = None
        """The lowest open number and whether any is open, as `movers` has it."""
        self.published_at = 0.0

    def take(self, realm: str, name: str) -> Announcement:
        found = self.newest.get(name)
        if found is not None and found.is_young:
            found.users += 1
            return found
        made = Announcement(realm, name, self.next_number)
        self.next_number += 1
        self.newest[name] = self.open[made.number] = made
        return made

    @property
    def state(self) -> tuple[int, bool]:
        return next(iter(self.open), self.next_number), bool(self.open)

    @property
    def must_publish(self) -> bool:
        is_open = self.published is not None and self.published[1]
        return not is_open or time.monotonic() - self.published_at > REFRESH_SECONDS

    def close_unused(self) -> None:
        for number, one in list(self.open.items()):
            if one.users == 0 and one.doubtful_version is None and not one.is_young:
                del self.open[number]
                if self.newest.get(one.name) is one:
                    del self.newest[one.name]


class MoveJournal:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._writer = uuid.uuid4().hex
        self._realms: dict[str, _RealmJournal] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def announce(self, realm: str, name: str, also: Sequence[Call] = ()) -> Announcement:
        """Have the announcement acknowledged, and whatever else must be before the LWT. The caller calls `settled`."""
        with self._lock:
            journal = self._realms.setdefault(realm, _RealmJournal())
            announced = journal.take(realm, name)
            publishing = journal.state if journal.must_publish else None
            self._start_closing_thread()
        calls = list(also)
        if publishing is not None:
            calls.append(self._calls.write(_PUBLISH, (realm, self._writer, *publishing)))
        if not announced.acknowledged:
            calls.append(self._calls.write(_ANNOUNCE, (realm, self._writer, announced.number, name)))
        try:
            self._calls.run_all(calls)
        except BaseException:
            self.settled(announced)
            raise
        announced.acknowledged = True
        if publishing is not None:
            with self._lock:
                journal.published, journal.published_at = publishing, time.monotonic()
        return announced

    def settled(self, announced: Announcement, doubtful_version: int | None = None) -> None:
        """The LWT has had its answer, or asked for that version and may land as long as the pointer has it."""
        with self._lock:
            announced.users -= 1
            if doubtful_version is not None:
                announced.doubtful_version = max(doubtful_version, announced.doubtful_version or 0)

    def close(self) -> None:
        """Open announcements stay open until they expire: nothing waits for their answers any more."""
        self._closing.set()

    # ── closing what is no longer used ──────────────────────────────────────────────────────────────────────

    def _start_closing_thread(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._close_until_idle, name="move-journal", daemon=True)
            self._thread.start()

    def _close_until_idle(self) -> None:
        while not self._closing.wait(KEEP_SECONDS / 2):
            try:
                self.close_unused()
            except HeadwaterError:  # one that stays open costs readers one read; it is closed when the store is back
                continue
            with self._lock:
                if not any(journal.open for journal in self._realms.values()):
                    self._thread = None
                    return

    def close_unused(self) -> None:
        for one in self._doubtful():
            row = read_pointer(self._calls, one.realm, one.name)
            with self._lock:
                if one.doubtful_version is not None and _has_passed(row, one.doubtful_version):
                    one.doubtful_version = None
        for realm, journal in list(self._realms.items()):
            with self._lock:
                journal.close_unused()
                state = journal.state
                if not state[1]:  # ⚠ under the lock: who announces next must not be overtaken by "none is open"
                    self._publish(realm, journal, state)
            if state[1]:
                self._publish(realm, journal, state)

    def _publish(self, realm: str, journal: _RealmJournal, state: tuple[int, bool]) -> None:
        if state != journal.published or (state[1] and journal.must_publish):
            self._calls.run(self._calls.write(_PUBLISH, (realm, self._writer, *state)))
            journal.published, journal.published_at = state, time.monotonic()

    def _doubtful(self) -> list[Announcement]:
        with self._lock:
            every = [one for journal in self._realms.values() for one in journal.open.values()]
        return [one for one in every if one.doubtful_version is not None]

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def since(self, realm: str, token: MoveToken | None) -> Moves:
        asked_at = _now()
        movers = {writer: (low, is_open) for writer, low, is_open in self._rows([self._calls.read(_MOVERS, (realm,))])}
        new_token: MoveToken = (asked_at, movers)
        if token is None:
            return Moves(new_token)
        asked_before, before = token
        if any(now - then > REACH_SECONDS or now < then for now, then in zip(asked_at, asked_before, strict=True)):
            return Moves(new_token, dict.fromkeys(self._all_names(realm)))
        reads = [
            self._calls.read(_READ, (realm, writer, before[writer][0] if writer in before else 0))
            for writer, state in movers.items()
            if state[1] or before.get(writer) != state
        ]
        return Moves(new_token, dict.fromkeys(name for (name,) in self._rows(reads)))

    def _rows(self, reads: Sequence[Call]) -> Iterator[Row]:
        for read, first_page in zip(reads, self._calls.run_all(reads), strict=True):
            for page in self._calls.pages_after(read, first_page):
                yield from page.rows

    def _all_names(self, realm: str) -> Iterator[str]:
        after = ""
        while names := list_names(self._calls, realm, prefix="", after=after, limit=LIST_PAGE):
            yield from names
            after = names[-1]


def _has_passed(row: PointerRow | None, version: int) -> bool:
    """Whether an LWT that asks for that version, 0 for none, can no longer be applied."""
    return version > 0 if row is None else row.version > version


def _now() -> tuple[float, float]:
    """By both clocks: one stands still while the machine sleeps, the other may be set."""
    return time.monotonic(), time.time()
