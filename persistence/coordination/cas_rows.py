"""Conditional writes of mutable rows, with one rule for a write whose outcome is unknown.

⚠ The rule: read the row. If ours is there, the write landed. If neither ours nor the one that we read before is there, it lost:
every write is conditional on the row that was read. If the row that we read is still there, the outcome is open, and the
identical write is sent again. An outcome that stays open is reported as `OutcomeUnknown`, never as a failure.

No other module calls the backend's conditional writes of mutable rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import MutableRow
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable

WRITE_TRIES_MAX = 20
SEND_TRIES_MAX = 3
"""How often an undecided write is looked up and sent again while a caller waits."""
PATIENT_TRIES_MAX = 20
"""For work that cannot continue without the answer."""
PAUSE_SECONDS_MAX = 0.1

_PAUSE_SECONDS_FIRST = 0.005


def next_row(
    type: str, key: str, before: MutableRow | None, payload: bytes, now_micros: int, *, expires_at: int = 0
) -> MutableRow:
    """The row that follows `before`, or the first one."""
    return MutableRow(
        type=type,
        key=key,
        version=1 if before is None else before.version + 1,
        created_at=now_micros if before is None else before.created_at,
        expires_at=expires_at,
        payload=payload,
    )


def cas_row(
    backend: Backend,
    realm: str,
    before: MutableRow | None,
    row: MutableRow,
    clock: Clock,
    *,
    has_token: bool = False,
    tries_max: int = SEND_TRIES_MAX,
) -> bool:
    """Write `row` over `before`, or insert it where there was none; whether it is there now.

    ⚠ Writers of equal rows cannot be distinguished when an outcome is looked up. A row that grants something therefore carries
    a token of its writer and is written with `has_token`: then a refusal is looked up too, because a driver may have sent the
    write twice and reported the second attempt alone.
    """

    try:
        written = _send(backend, realm, before, row)
        if written or not has_token:
            return written
        unclear = None
    except OutcomeUnknown as unknown:
        unclear = unknown

    def look() -> bool | None:
        there = backend.read_mutable(realm, row.type, row.key)
        return True if there == row else None if there == before else False

    return _resolve(unclear, partial(_send, backend, realm, before, row), look, clock, f"{row.type} {row.key}", tries_max)


def delete_row(backend: Backend, realm: str, row: MutableRow, clock: Clock, *, tries_max: int = SEND_TRIES_MAX) -> bool:
    """Delete the row if it was not written since it was read; returns whether this deleted it."""
    try:
        return backend.delete_mutable(realm, row)
    except OutcomeUnknown as unknown:
        unclear = unknown

    def look() -> bool | None:
        there = backend.read_mutable(realm, row.type, row.key)
        return True if there is None else None if there == row else False

    return _resolve(unclear, partial(backend.delete_mutable, realm, row), look, clock, f"{row.type} {row.key}", tries_max)


def _send(backend: Backend, realm: str, before: MutableRow | None, row: MutableRow) -> bool:
    if before is None:
        return backend.insert_mutable(realm, row)
    return backend.update_mutable(realm, before, row)


def _resolve(
    unclear: Exception | None,
    send: Callable[[], bool],
    look: Callable[[], bool | None],
    clock: Clock,
    what: str,
    tries_max: int,
) -> bool:
    """Decide a write after its first attempt. `look` says whether it landed, or None while that is open."""
    for attempt in range(1, tries_max + 1):
        try:
            decided = look()
            if decided is not None:
                return decided
        except (StoreUnavailable, OutcomeUnknown) as error:
            unclear = error  # ⚠ not raised as it is: it would say that nothing was applied
        if attempt == tries_max:
            break
        clock.sleep(min(_PAUSE_SECONDS_FIRST * 2**attempt, PAUSE_SECONDS_MAX))
        try:
            if send():
                return True
        except (StoreUnavailable, OutcomeUnknown) as error:
            unclear = error
    raise OutcomeUnknown(f"{what} was neither seen written nor refused.", remedy="Try again.") from unclear


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

    ⚠ `may_write` is called between the read and the write, and raises if the right to write is lost. A successor that writes
    the row after it has taken that right cannot be overwritten by the holder before it.
    """
    for _ in range(tries_max):
        before = backend.read_mutable(realm, type, key)
        payload = change(before)
        if payload is None:
            return True
        may_write()
        row = next_row(type, key, before, payload, clock.now_micros(), expires_at=expires_at)
        if cas_row(backend, realm, before, row, clock):
            return True
    return False
