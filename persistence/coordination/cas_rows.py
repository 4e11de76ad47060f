"""Replaces a mutable row only if nobody has written it since it was read.

⚠ A write whose answer was lost is looked up: the row that is there then says whether it landed.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import MutableRow
from headwater.schemas.errors import OutcomeUnknown

WRITE_TRIES_MAX = 20


def next_row(
    type: str, key: str, before: MutableRow | None, payload: bytes, now_micros: int, *, expires_at: int = 0
) -> MutableRow:
    """What follows the row that was read, or the first one."""
    return MutableRow(
        type=type,
        key=key,
        version=1 if before is None else before.version + 1,
        created_at=now_micros if before is None else before.created_at,
        expires_at=expires_at,
        payload=payload,
    )


def cas_row(backend: Backend, realm: str, before: MutableRow | None, row: MutableRow) -> bool:
    """Whether the row is there now, over the one that was read."""
    try:
        if before is None:
            return backend.insert_mutable(realm, row)
        return backend.update_mutable(realm, before, row)
    except OutcomeUnknown:
        return backend.read_mutable(realm, row.type, row.key) == row


def change_row(
    backend: Backend,
    realm: str,
    type: str,
    key: str,
    change: Callable[[MutableRow | None], bytes | None],
    clock: Clock,
    *,
    may_write: Callable[[], None] = lambda: None,
    expires_at: int = 0,
    tries_max: int = WRITE_TRIES_MAX,
) -> bool:
    """Read, change and write, again while others write in between; False if they never let it through. `change` gets the row
    that is there and may return None to leave it.

    ⚠ `may_write` is asked between the read and the write, and raises if the right to write is lost. A successor that writes the
    row after it has taken that right cannot be overwritten by whoever held it before.
    """
    for _ in range(tries_max):
        before = backend.read_mutable(realm, type, key)
        payload = change(before)
        if payload is None:
            return True
        may_write()
        if cas_row(backend, realm, before, next_row(type, key, before, payload, clock.now_micros(), expires_at=expires_at)):
            return True
    return False
