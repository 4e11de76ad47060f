"""Announces that the data of a store came from a backup: a new incarnation, and new versions of all pointers.

What an operator runs after a restore. Running processes notice most restores by themselves; where the database gives no sign
(Cassandra's snapshots, rows that were loaded into existing tables), this informs them.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.incarnation import Incarnation, read_incarnation, replace_incarnation
from headwater.persistence.rows import Table
from headwater.schemas.errors import CommitRetriesExhausted, OutcomeUnknown

VERSION_STEP = 2**32
"""More than any lost history can have advanced a version."""
ROW_ATTEMPTS_MAX = 10_000
_ASK_SECONDS = 0.02


class RestoredStore(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: Incarnation
    pointers: int
    """How many rows were moved to a new version."""


def announce_restored(backend: Backend, clock: Clock, reason: str) -> RestoredStore:
    """May be repeated at any time: it only makes running processes drop what they keep in memory."""
    incarnation = replace_incarnation(backend, clock, read_incarnation(backend), reason)
    moved = 0
    for split in backend.splits(Table.POINTERS, 1):
        for row in backend.scan(split):
            moved += _move_version(backend, clock, row.realm, row.key)
    return RestoredStore(incarnation=incarnation, pointers=moved)


def _move_version(backend: Backend, clock: Clock, realm: str, pointer: str) -> bool:
    """⚠ A version of its own: what was prepared before cannot land, though its head is the same."""
    for _ in range(ROW_ATTEMPTS_MAX):
        row = backend.read_pointer(realm, pointer, decide=True)
        if row is None:
            return False
        try:
            if backend.cas_pointer(realm, pointer, row, msgspec.structs.replace(row, version=row.version + VERSION_STEP)):
                return True
        except OutcomeUnknown:
            clock.sleep(_ASK_SECONDS)
    raise CommitRetriesExhausted(f"{pointer!r} was overtaken {ROW_ATTEMPTS_MAX} times.", field="pointer", remedy="Try again.")
