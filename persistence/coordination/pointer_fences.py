"""Writes a realm's fence into every pointer row of the realm.

⚠ Each row is written, also one that has that fence already: the new version is what keeps out every CAS that was prepared
before. ⚠ Rows are read first, then it is checked that the realm's fence is still ours, then they are written. So one that was
overtaken either fails that check or loses its CAS to the version that its successor wrote.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.coordination.pointer_writes import ROWS_AT_ONCE, write_pointer
from headwater.persistence.coordination.realm_fence import RealmFence, read_realm_fence
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import RealmStateConflict

OnFenced = Callable[[str, PointerRow], None]


def fence_pointers(backend: Backend, held: RealmFence, clock: Clock, on_fenced: OnFenced | None = None) -> int:
    """How many rows were fenced; `on_fenced` gets each name with the row that was written, and so with the pointer's head.

    `RealmStateConflict` if another one has taken the realm's fence meanwhile. It may be repeated at any time.
    """
    fenced = 0
    for rows in backend.pointer_pages(held.realm, page=ROWS_AT_ONCE):
        check_still_held(backend, held)
        for name, row in rows.items():
            written = write_pointer(
                backend,
                held.realm,
                name,
                row,
                lambda row: msgspec.structs.replace(row, fence=held.fence),
                lambda: check_still_held(backend, held),
                clock,
            )
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
