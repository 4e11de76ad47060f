"""The states of a realm and the moves that its life cycle allows."""

from __future__ import annotations

from enum import StrEnum

from headwater.schemas.errors import RealmStateConflict


class RealmStatus(StrEnum):
    CREATED = "CREATED"
    """The name is taken; nothing was written yet."""
    INITIALIZING = "INITIALIZING"
    """Being filled as a new realm."""
    LOADING = "LOADING"
    """Being filled from an export."""
    ACTIVE = "ACTIVE"
    """Serves users; the only one that does."""
    INACTIVE = "INACTIVE"
    """Complete, but closed."""
    PURGING = "PURGING"
    """Its data are being deleted: no way back."""
    PURGED = "PURGED"
    """A scan has found nothing left."""


S = RealmStatus

MOVES: dict[RealmStatus, frozenset[RealmStatus]] = {
    S.CREATED: frozenset({S.INITIALIZING, S.LOADING}),
    S.INITIALIZING: frozenset({S.ACTIVE, S.INACTIVE, S.PURGING}),
    S.LOADING: frozenset({S.ACTIVE, S.INACTIVE, S.PURGING}),
    S.ACTIVE: frozenset({S.INACTIVE}),
    S.INACTIVE: frozenset({S.ACTIVE, S.PURGING}),
    S.PURGING: frozenset({S.PURGED}),
    S.PURGED: frozenset(),
}
"""Every move that there is."""

DELETABLE = frozenset({S.CREATED, S.PURGED})
"""Where a realm may be taken from the list."""

NEXT_STEP: dict[RealmStatus, str] = {
    S.CREATED: "Initialize it (`headwater realm init`), or delete it.",
    S.INITIALIZING: "Repeat `headwater realm init`, or purge it.",
    S.LOADING: "Finish loading, or purge it.",
    S.ACTIVE: "Deactivate it first.",
    S.INACTIVE: "Activate it, or purge it.",
    S.PURGING: "Its data are being deleted: `headwater realm purge --finish` completes that.",
    S.PURGED: "Delete it; then the name is free.",
}


def check_is(name: str, found: RealmStatus, expected: RealmStatus) -> None:
    """For steps that belong to one state only, where several states have the same move."""
    if found is not expected:
        raise _no_such_move(name, found, f", not {expected}")


def check_move(name: str, found: RealmStatus, wanted: RealmStatus) -> None:
    if wanted not in MOVES[found]:
        raise _no_such_move(name, found, f" and cannot become {wanted}")


def check_deletable(name: str, found: RealmStatus) -> None:
    if found not in DELETABLE:
        raise _no_such_move(name, found, " and cannot be deleted")


def _no_such_move(name: str, found: RealmStatus, what: str) -> RealmStateConflict:
    return RealmStateConflict(
        f"{name!r} is {found}{what}.", field="realm", remedy=NEXT_STEP[found], realm=name, status=str(found)
    )
