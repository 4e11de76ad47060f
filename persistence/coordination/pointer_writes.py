"""Changes a pointer row by CAS, under a right that another process may take over.

⚠ The order is the protocol: read the row, prove the right in the store, write on the version that was read. A successor that
must not be overwritten takes the right first and then writes every row (`touch_pointers`): whatever the previous one had
prepared has lost its version.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import CommitRetriesExhausted, OutcomeUnknown

ROWS_AT_ONCE = 200
"""A small number, so that most rows are still the newest when they are written."""
ROW_ATTEMPTS_MAX = 10_000
"""Against a lane that commits without a pause each attempt has a fair chance, so this many never run out."""

_ASK_SECONDS = 0.02


def write_pointer(
    backend: Backend,
    realm: str,
    name: str,
    row: PointerRow | None,
    change: Callable[[PointerRow], PointerRow | None],
    prove: Callable[[], None],
    clock: Clock,
) -> PointerRow | None:
    """The row that was written; None if there is no such row any more, or `change` leaves it as it is.

    The caller has proved its right after it read `row`; `prove` does it again for every row that is read here.
    """
    for _ in range(ROW_ATTEMPTS_MAX):
        wanted = None if row is None else change(row)
        if row is None or wanted is None:
            return None
        wanted = msgspec.structs.replace(wanted, version=row.version + 1)
        try:
            if backend.cas_pointer(realm, name, row, wanted):
                return wanted
        except OutcomeUnknown:
            clock.sleep(_ASK_SECONDS)
        row = backend.read_pointer(realm, name, decide=True)
        if row == wanted:
            return wanted
        prove()
    raise CommitRetriesExhausted(
        f"{name!r} was overtaken {ROW_ATTEMPTS_MAX} times while it was written.", field="pointer", remedy="Try again."
    )


def touch_pointers(backend: Backend, realm: str, clock: Clock) -> int:
    """Write every row of the realm as it is, under a new version: no CAS that was prepared before can land. How many there
    were leaves."""
    touched = 0
    for rows in backend.pointer_pages(realm, page=ROWS_AT_ONCE):
        for name, row in rows.items():
            touched += write_pointer(backend, realm, name, row, lambda row: row, lambda: None, clock) is not None
    return touched
