"""Deletes expired keys and other leftovers of a realm in short slices, each of which continues where the last one ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.idempotency_rows import IdempotencyRows
from headwater.persistence.store import RealmKernel, Store
from headwater.schemas.errors import RealmNotFound


class CleaningOptions(msgspec.Struct, frozen=True, kw_only=True):
    every_seconds: float = 60.0
    page_rows: int = 500
    batch_rows_max: int = 5_000
    """The most that one slice deletes."""
    slice_seconds: float = 2.0


RealmCleaner = Callable[[RealmKernel, int], tuple[int, bool]]
"""Deletes at most so many rows of a realm: how many went, and whether more are due."""


class Cleaning:
    """Realm after realm, page after page; one worker's place in that order."""

    def __init__(
        self,
        store: Store,
        options: CleaningOptions,
        now_seconds: Callable[[], float] = time.monotonic,
        *,
        also: Sequence[RealmCleaner] = (),
    ) -> None:
        """`also` is called for each realm once its keys are done."""
        self._store = store
        self._also = also
        self._options = options
        self._now_seconds = now_seconds
        self._realms = Realms(store)
        self._realm: str | None = None
        """Whose turn it is; None for the system's, which comes first."""
        self._after = ""
        self.deleted = 0

    def slice(self) -> tuple[int, bool]:
        """How many went, and whether the round is complete: then the next slice starts over."""
        deadline = self._now_seconds() + self._options.slice_seconds
        deleted = 0
        while True:
            kernel = self._kernel()
            if kernel is not None:
                gone, self._after = IdempotencyRows(kernel).delete_expired(
                    after=self._after, page=self._options.page_rows, batch_max=self._options.batch_rows_max - deleted
                )
                deleted += gone
                self.deleted += gone
            if not self._after and kernel is not None:
                gone, is_more = self._clean_also(kernel, self._options.batch_rows_max - deleted)
                deleted += gone
                if is_more:
                    return deleted, False
            if not self._after or kernel is None:
                self._after = ""
                if not self._next_realm():
                    return deleted, True
            if deleted >= self._options.batch_rows_max or self._now_seconds() >= deadline:
                return deleted, False

    def _clean_also(self, kernel: RealmKernel, rows_max: int) -> tuple[int, bool]:
        deleted, is_more = 0, False
        for clean in self._also:
            gone, more = clean(kernel, max(1, rows_max - deleted))
            deleted, is_more = deleted + gone, is_more or more
        self.deleted += deleted
        return deleted, is_more

    def _kernel(self) -> RealmKernel | None:
        if self._realm is None:
            return self._store.system
        try:
            realm = self._realms.get(self._realm)
        except RealmNotFound:
            return None
        return self._store.kernel(realm.instance) if realm.status is RealmStatus.ACTIVE else None

    def _next_realm(self) -> bool:
        found = self._realms.list(after=self._realm or "", limit=1)
        self._realm = found[0].name if found else None
        return bool(found)
