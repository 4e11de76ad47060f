"""How far a connector has come: one mutable row, moved by CAS by the process that holds the connector's lease.

⚠ Before a commit of a source's log is committed here, the row names it: its request id, the position that it leads to, and the
branch's seq at that time. After a crash the branch's log from that seq says whether it landed.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.coordination.work_leases import superseded
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath

POSITION_TYPE = "connector-position"


class Pending(msgspec.Struct, frozen=True, array_like=True):
    """A commit that may or may not have landed."""

    request_id: str
    position: str
    branch_seq: int


class PositionRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    position: str = ""
    """The position in the source's log; empty before the first commit. For a polled source, see `listed_to`."""
    pending: Pending | None = None
    polls: int = 0
    """How often everything was listed."""
    next_at: int = 0
    """The time in microseconds of the next run, unless a job is requested before."""
    failed_runs: int = 0
    """In a row."""

    @property
    def listed_to(self) -> KeyPath:
        """The table after which a run that was cut short continues; empty if the last run was not."""
        return tuple(msgspec.json.decode(self.position, type=list[str])) if self.position else ()

    def with_listed_to(self, key: KeyPath) -> PositionRecord:
        return msgspec.structs.replace(self, position=msgspec.json.encode(key).decode() if key else "")


OBJECT_TYPES.register(ObjectType(POSITION_TYPE, PositionRecord, Life.MUTABLE))


class SourcePosition:
    """One per connector. Every write is conditional on the row that was read: a process that lost its lease cannot move it."""

    def __init__(self, kernel: RealmKernel, connector_id: str) -> None:
        self._kernel = kernel
        self._key = connector_id
        self._row: MutableRow | None = None
        self.record = PositionRecord()
        self.read()

    def read(self) -> PositionRecord:
        self._row = self._kernel.store.backend.read_mutable(self._kernel.realm, POSITION_TYPE, self._key)
        self.record = PositionRecord() if self._row is None else msgspec.msgpack.decode(self._row.payload, type=PositionRecord)
        return self.record

    def move(self, record: PositionRecord) -> None:
        store = self._kernel.store
        payload = msgspec.msgpack.encode(record)
        row = next_row(POSITION_TYPE, self._key, self._row, payload, store.clock.now_micros())
        if not cas_row(store.backend, self._kernel.realm, self._row, row, store.clock):
            raise superseded(f"connector {self._key}")
        self._row, self.record = row, record

    def forget(self) -> None:
        if self._row is not None:
            delete_row(self._kernel.store.backend, self._kernel.realm, self._row, self._kernel.store.clock)
