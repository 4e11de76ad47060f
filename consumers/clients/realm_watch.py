"""Notices that the realm that a reader follows was purged, or re-created under its name: no more Changes would ever come."""

from __future__ import annotations

import time
from collections.abc import Callable

from headwater.persistence.coordination.realm_fence import read_realm_fence
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import CursorReset, NotFound

LOOK_SECONDS = 5.0
"""Seconds between two checks by a reader that receives nothing."""
GIVEN_UP = frozenset({RealmStatus.PURGING, RealmStatus.PURGED})


class RealmWatch:
    def __init__(self, kernel: RealmKernel, clock: Callable[[], float] = time.monotonic) -> None:
        self._kernel = kernel
        self._clock = clock
        self._next_look = clock() + LOOK_SECONDS

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._next_look

    def look(self) -> None:
        """`CursorReset` if the realm is gone, for every reader that asks. A closed realm may open again: it is waited for."""
        self._require_there()
        self._next_look = self._clock() + LOOK_SECONDS

    def _require_there(self) -> None:
        if not read_realm_fence(self._kernel.store.backend, self._kernel.realm).is_closed:
            return
        try:
            now = Realms(self._kernel.store).get(self._kernel.realm_name)
        except NotFound:
            raise self._reset("was deleted") from None
        if now.instance != self._kernel.realm:
            raise self._reset("was deleted and re-created")
        if now.status in GIVEN_UP:
            raise self._reset("is being purged")

    def _reset(self, what: str) -> CursorReset:
        return CursorReset(
            f"the realm {self._kernel.realm_name!r} {what}.",
            field="realm",
            remedy="Open the realm again if it lives, take a snapshot and follow from its entry.",
        )
