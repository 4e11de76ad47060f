"""Reads the log of a pointer from the store, by polling or by following, and keeps its cursor with what it has read."""

from __future__ import annotations

from headwater.consumers.clients.local_transport import LocalTransport
from headwater.consumers.clients.reader import Reader
from headwater.schemas.errors import CursorExpired, CursorGone, CursorReset, HeadwaterError
from tests.simulation.checks.reader_checks import ReadLog
from tests.simulation.world.environment import REALM, Environment


class PollReader:
    """One pass after the other, or one that never ends."""

    def __init__(self, env: Environment, name: str, *, follow: bool, pointer: str, realm: str = REALM) -> None:
        self.name = name
        self._env = env
        self._follow = follow
        self._realm = realm
        self._pointer = pointer
        self._log = ReadLog(env, name, "cursor", realm=realm)
        self._cursor = "earliest"

    def work(self) -> None:
        engine = self._env.open()
        while True:
            try:
                realm = engine.realm(self._realm)
                self._log.open(realm.kernel.realm)
                self._read(LocalTransport(realm.feed, [self._pointer]))
            except CursorGone as error:
                self._start_over(error)
            except HeadwaterError as error:
                self._env.happened[f"reader {type(error).__name__}"] += 1
            self._env.scheduler.sleep(0.3)

    def _read(self, transport: LocalTransport) -> None:
        reader = Reader(transport, self._cursor, log=transport)
        for change in reader.changes(follow=self._follow):
            self._log.give(change)
            self._cursor = reader.cursor

    def _start_over(self, error: CursorGone) -> None:
        self._log.lost_its_place(self._pointer, error)
        self._cursor = "earliest"

    def is_done(self) -> bool:
        return self._log.has_reached_heads([self._pointer])

    def check(self) -> None:
        self._log.check([self._pointer], "notice")


__all__ = ["CursorExpired", "CursorReset", "PollReader"]
