"""Raises an alarm for a shard that had to stop: a row in `::system::` and a log line, until the shard continues."""

from __future__ import annotations

import logging

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import change_row, delete_row
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import HeadwaterError

ALARM_TYPE = "publisher-alarm"

_log = logging.getLogger(__name__)


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    """The instance."""
    shard: int
    """-1 where it concerns all shards."""
    code: str
    message: str
    raised_at: int
    facts: dict[str, str] = {}


class Alarms:
    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def sound(self, realm: str, shard: int, error: HeadwaterError) -> Alarm:
        """Stored until it is cleared. Raising the same alarm again changes nothing."""
        now = self._clock.now_micros()
        facts = {name: str(value) for name, value in error.facts.items()}
        alarm = Alarm(realm=realm, shard=shard, code=error.code, message=str(error), raised_at=now, facts=facts)
        _log.error("%s shard %d has stopped: %s: %s", realm, shard, error.code, error)

        def change(before: MutableRow | None) -> bytes | None:
            is_known = before is not None and _alarm(before).message == alarm.message
            return None if is_known else msgspec.json.encode(alarm)

        change_row(self._backend, SYSTEM_REALM, ALARM_TYPE, _key(realm, shard), change, self._clock)
        return alarm

    def clear(self, realm: str, shard: int) -> None:
        row = self._backend.read_mutable(SYSTEM_REALM, ALARM_TYPE, _key(realm, shard))
        if row is not None:
            delete_row(self._backend, SYSTEM_REALM, row, self._clock)

    def forget(self, prefix: str) -> None:
        """Those of a realm that is gone."""
        for row in self._backend.all_mutable(SYSTEM_REALM, ALARM_TYPE, after=prefix):
            if not row.key.startswith(prefix):
                return
            delete_row(self._backend, SYSTEM_REALM, row, self._clock)

    def list(self) -> list[Alarm]:
        return [_alarm(row) for row in self._backend.all_mutable(SYSTEM_REALM, ALARM_TYPE)]


def _key(realm: str, shard: int) -> str:
    return f"{realm}/{shard}"


def _alarm(row: MutableRow) -> Alarm:
    return msgspec.json.decode(row.payload, type=Alarm)
