"""Decides which of the processes that maintain a store begins the next cycle.

The row in `::system::` says when the next cycle is due. The process that moves it by CAS has the turn; if it dies during its
turn, that turn is lost, and the next one is due as if it had finished.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow

TURN_TYPE = "maintenance-turn"
TURN_KEY = "cycle"


class TurnRecord(msgspec.Struct, frozen=True, array_like=True):
    due_at: int
    """Microseconds."""


OBJECT_TYPES.register(ObjectType(TURN_TYPE, TurnRecord, Life.MUTABLE))


class ScheduleTurns:
    def __init__(self, backend: Backend, clock: Clock, every_seconds: float, *, key: str = TURN_KEY) -> None:
        """`key`: what the turns are for."""
        self._backend = backend
        self._key = key
        self._clock = clock
        self._every_seconds = every_seconds

    def take(self) -> float:
        """0 if it is our turn, which is thereby taken; else the number of seconds to wait."""
        before, due_at = self._read()
        now = self._clock.now_micros()
        next_at = now + int(self._every_seconds * MICROS)
        if due_at > next_at:
            # ⚠ Set by a slower cadence, or by a clock that ran ahead. It is moved, not left: at each later check it would be as
            # far away again.
            self._write(before, next_at)
            due_at = next_at
        if due_at > now:
            return (due_at - now) / MICROS
        return 0.0 if self._write(before, next_at) else self._every_seconds

    def come_back(self, seconds: float) -> None:
        """The turn was not used: another process may have it sooner than the cadence says."""
        before, due_at = self._read()
        sooner = self._clock.now_micros() + int(seconds * MICROS)
        if sooner < due_at:
            self._write(before, sooner)

    def _read(self) -> tuple[MutableRow | None, int]:
        row = self._backend.read_mutable(SYSTEM_REALM, TURN_TYPE, self._key)
        return row, 0 if row is None else msgspec.msgpack.decode(row.payload, type=TurnRecord).due_at

    def _write(self, before: MutableRow | None, due_at: int) -> bool:
        row = next_row(TURN_TYPE, self._key, before, msgspec.msgpack.encode(TurnRecord(due_at)), self._clock.now_micros())
        return cas_row(self._backend, SYSTEM_REALM, before, row, self._clock)
