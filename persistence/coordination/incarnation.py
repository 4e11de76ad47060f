"""The incarnation of a store's data: a random id that a restore changes.

The id lies in a mutable row of `::system::`, with what the database said of its copy of the data when the row was written
(`Backend.data_identity`). Data that come from a backup contain the row, but not the identity: a process that sees
the two differ writes a new incarnation. Where the database cannot tell, `headwater store restored` writes it, or the first
process that finds a commit it knows to have landed missing from the log.

An equal id means that no restore was noticed since. A different one means that commits may be gone: compare entry ids.
"""

from __future__ import annotations

import uuid

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import SYSTEM_REALM, MutableRow
from headwater.schemas.errors import OutcomeUnknown, StoreRefused, StoreRestored, StoreUnavailable

INCARNATION_TYPE = "store-incarnation"
_KEY = "store"
_ATTEMPTS_MAX = 20
_ASK_SECONDS = 0.05


class IncarnationRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload."""

    id: str
    data_identity: str
    number: int
    reason: str


OBJECT_TYPES.register(ObjectType(INCARNATION_TYPE, IncarnationRecord, Life.MUTABLE))


class Incarnation(msgspec.Struct, frozen=True, kw_only=True):
    id: str = ""
    """32 hex digits; empty for a store that never had one and may not be written by this process."""
    since: int = 0
    """Microseconds: when it began."""
    data_identity: str = ""
    number: int = 0
    """1 for the first, one more with each restore that was noticed."""
    reason: str = ""
    """Why it was written, for people."""


def read_incarnation(backend: Backend) -> Incarnation | None:
    row = backend.read_mutable(SYSTEM_REALM, INCARNATION_TYPE, _KEY)
    return None if row is None else _incarnation_of(row)


def ensure_incarnation(backend: Backend, clock: Clock) -> Incarnation:
    """The current incarnation: the first of a new store, or a new one if the data are another copy than the row says. A store
    that this process may only read keeps what it has."""
    there = read_incarnation(backend)
    identity = backend.data_identity()
    if there is not None and not is_another_copy(there, identity):
        return there
    reason = "the store was created" if there is None else "the database holds another copy of the data than before"
    try:
        return replace_incarnation(backend, clock, there, reason)
    except (StoreRefused, StoreUnavailable, OutcomeUnknown):
        return there or Incarnation(data_identity=identity)


def is_another_copy(known: Incarnation, identity: str) -> bool:
    """An empty identity says nothing."""
    return bool(known.data_identity and identity) and known.data_identity != identity


def is_in_force(backend: Backend, id: str) -> bool:
    """Whether the data are still those of this incarnation: by its row, and by the database's identity of the copy, because a
    backup contains the row too."""
    there = read_incarnation(backend)
    return there is not None and there.id == id and not is_another_copy(there, backend.data_identity())


def replace_incarnation(backend: Backend, clock: Clock, seen: Incarnation | None, reason: str) -> Incarnation:
    """A new incarnation after the one that was seen, or the one that another process has written after it."""
    identity = _identity_now(backend)
    wanted = IncarnationRecord(uuid.uuid4().hex, identity, 1 if seen is None else seen.number + 1, reason)
    for _ in range(_ATTEMPTS_MAX):
        before = backend.read_mutable(SYSTEM_REALM, INCARNATION_TYPE, _KEY)
        if before is not None:
            there = _incarnation_of(before)
            if there.id == wanted.id or seen is None or there.id != seen.id:
                return there
        try:
            _write(backend, before, wanted, clock)
        except (OutcomeUnknown, StoreRestored):  # the backend refuses the first write into other data, whichever write it is
            clock.sleep(_ASK_SECONDS)
    raise OutcomeUnknown("the store's new incarnation was neither seen written nor refused.", remedy="Try again.")


def _identity_now(backend: Backend) -> str:
    try:
        return backend.data_identity()
    except StoreRestored:  # said once, of what this is called for
        return backend.data_identity()


def _write(backend: Backend, before: MutableRow | None, record: IncarnationRecord, clock: Clock) -> None:
    now_micros = clock.now_micros()
    row = next_row(INCARNATION_TYPE, _KEY, before, msgspec.msgpack.encode(record), now_micros)
    # `created_at` is that of the incarnation, not of the row.
    cas_row(backend, SYSTEM_REALM, before, msgspec.structs.replace(row, created_at=now_micros), clock, has_token=True)


def _incarnation_of(row: MutableRow) -> Incarnation:
    record = msgspec.msgpack.decode(row.payload, type=IncarnationRecord)
    return Incarnation(
        id=record.id,
        since=row.created_at,
        data_identity=record.data_identity,
        number=record.number,
        reason=record.reason,
    )
