"""Records where the log of a purged pointer ended, for as long as its realm lives.

A pointer without a row was never made, was lost with a restored backup, or was purged. Only for the last is there a row here.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import change_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import Conflict

PURGED_TYPE = "purged-pointer"


class PurgedPointer(msgspec.Struct, frozen=True, array_like=True):
    """Where a pointer's log ended. Append new fields, never move one."""

    seq: int
    """0 if it was reserved and never written."""
    entry_id: bytes
    purged_at: int
    """Microseconds."""


OBJECT_TYPES.register(ObjectType(PURGED_TYPE, PurgedPointer, Life.MUTABLE))


def record_purge(backend: Backend, realm: str, pointer: str, row: PointerRow, clock: Clock) -> None:
    """⚠ Call it before the pointer's row is deleted, so that a reader always finds one of the two."""
    payload = msgspec.msgpack.encode(PurgedPointer(row.seq, row.head, clock.now_micros()))
    if not change_row(backend, realm, PURGED_TYPE, pointer, lambda _: payload, clock):
        raise Conflict(f"another process keeps purging {pointer!r}.", field="pointer", remedy="Run one of them.")


def purged_pointer(backend: Backend, realm: str, pointer: str) -> PurgedPointer | None:
    """Call it only if the pointer has no row: a pointer that was re-created has one."""
    row = backend.read_mutable(realm, PURGED_TYPE, pointer)
    return None if row is None else msgspec.msgpack.decode(row.payload, type=PurgedPointer)
