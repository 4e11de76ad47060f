"""A realm's fence that this process has taken enters; the same fence stands in every pointer row of the realm afterwards.

⚠ Each row is written, also one that has that fence already: the new version is what keeps out every CAS that was prepared
before. ⚠ Rows are read first, then it is checked that the realm's fence is still ours, then they are written. So one that was
overtaken either fails that check or loses its CAS to the version that its successor wrote.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.realm_fence import RealmFence, read_realm_fence
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import CommitRetriesExhausted, OutcomeUnknown, RealmStateConflict

NAMES_PER_PAGE = 200
ROW_ATTEMPTS_MAX = 10_000
"""Against a lane that commits without a pause each attempt has a fair chance, so this many never run out."""

_ASK_SECONDS = 0.02

OnFenced = Callable[[str, PointerRow], None]


def fence_pointers(backend: Backend, held: RealmFence, clock: Clock, on_fenced: OnFenced | None = None) -> int:
    """How many rows were fenced; `on_fenced` gets each name with the row that was written, and so with the pointer's head.

    `RealmStateConflict` if another one has taken the realm's fence meanwhile. It may be repeated at any time.
    """
    fenced, last = 0, ""
    while names := backend.list_names(held.realm, after=last, limit=NAMES_PER_PAGE):
        last = names[-1]
        rows = backend.read_pointers(held.realm, names)
        check_still_held(backend, held)
        for name, row in rows.items():
            written = _fence(backend, held, name, row, clock)
            fenced += written is not None
            if written is not None and on_fenced is not None:
                on_fenced(name, written)
    return fenced


def check_still_held(backend: Backend, held: RealmFence) -> None:
    if read_realm_fence(backend, held.realm) != held:
        raise RealmStateConflict(
            f"another process is moving {held.realm!r}.",
            field="realm",
            remedy="Look at its status, then try again.",
            realm=held.realm,
        )


def _fence(backend: Backend, held: RealmFence, name: str, row: PointerRow | None, clock: Clock) -> PointerRow | None:
    """The row that was written; None if there is no such row any more."""
    for _ in range(ROW_ATTEMPTS_MAX):
        if row is None:
            return None
        wanted = msgspec.structs.replace(row, fence=held.fence, version=row.version + 1)
        try:
            if backend.cas_pointer(held.realm, name, row, wanted):
                return wanted
        except OutcomeUnknown:
            clock.sleep(_ASK_SECONDS)
        row = backend.read_pointer(held.realm, name, decide=True)
        if row == wanted:
            return wanted
        check_still_held(backend, held)
    raise CommitRetriesExhausted(
        f"{name!r} was overtaken {ROW_ATTEMPTS_MAX} times while it was fenced.", field="realm", remedy="Try again."
    )
