"""Writes a draft and moves the pointer to it: the attempt landed, was lost, or its outcome is unknown.

⚠ The order is the protocol: own row (new name: names, reserve, then the realm's fence) → the plan, which reads the source's
floor where one is branched from → objects created at or after the fence → CAS on the version and head that were read.
⚠ "Not applied" alone proves nothing, for a driver may have sent the CAS twice: an attempt is lost only when the row has moved
on and the entry at its first seq is not ours. Until then the identical CAS is sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.commit.draft import Draft
from headwater.persistence.commit.retries import RetryPolicy
from headwater.persistence.coordination.realm_fence import read_realm_fence
from headwater.persistence.log.committed_requests import KEPT_SECONDS, request_row
from headwater.persistence.log.log_walk import LogWalk
from headwater.persistence.objects import codec
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.persistence.rows import FENCE_CLOSED, ObjectRow, PointerRow
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown, RealmNotActive, StoreRestored, StoreUnavailable

_log = logging.getLogger(__name__)


class AttemptStats(msgspec.Struct):
    """Counters for tests and metrics."""

    cas_sent: int = 0
    cas_resent: int = 0
    unknown: int = 0
    lost: int = 0
    rows_removed: int = 0
    """Rows of lost attempts that were removed at once."""


class Attempt:
    """Writes drafts of one realm to the store."""

    def __init__(
        self,
        backend: Backend,
        realm: str,
        objects: RealmObjects,
        clock: Clock,
        policy: RetryPolicy,
        stats: AttemptStats,
        request_ids_kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self._backend = backend
        self._realm = realm
        self._objects = objects
        self._clock = clock
        self._policy = policy
        self._stats = stats
        self._request_ids_kept_micros = round(request_ids_kept_seconds * MICROS)

    def run(self, draft: Draft, of: str = "") -> PointerRow | None:
        """The row that was written, or None for lost. `OutcomeUnknown` when time runs out before it is clear which,
        `StoreRestored` if the data are not the copy `of` that the draft was planned on."""
        row = draft.head.row
        if row is None:
            raise ValueError("a new pointer is reserved before anything is planned for it")
        fence = row.fence if row.head else max(row.fence, read_realm_fence(self._backend, self._realm).fence)
        if fence == FENCE_CLOSED:
            raise closed(self._realm, draft.pointer)
        created_at = max(self._clock.now_micros(), fence)
        rows = self._objects.strong_rows(draft.new_objects, created_at)
        if draft.spilled:
            self._write_spilled(draft, created_at)
        requests = [request_row(request, created_at + self._request_ids_kept_micros) for request in draft.requests]
        moved = _moved(row, draft, fence)
        all_rows = rows + requests
        if not self._lands(draft, row, moved, all_rows, of):
            self._stats.lost += 1
            self._remove_lost(draft, all_rows)
            return None
        self._objects.written_strong(draft.new_objects, rows)
        return moved

    def _write_spilled(self, draft: Draft, created_at: int) -> None:
        try:
            self._objects.write_eventual(draft.spilled, created_at)
        except OutcomeUnknown as unknown:  # nothing names these objects yet, so it is not the commit that is unknown
            raise StoreUnavailable(f"operations could not be written: {unknown.message}") from unknown

    def _remove_lost(self, draft: Draft, rows: Sequence[ObjectRow]) -> None:
        """⚠ Only of an attempt that is proven lost: its rows have ids that no other attempt has, and no head can lead to them.
        What cannot be removed now is left to the sweep."""
        in_transaction = self._backend.abilities.commits_in_one_transaction  # which took the rows back
        keys = [] if in_transaction else [(row.id, row.part) for row in rows]
        keys += [(new.id, part) for new in draft.spilled for part in range(codec.parts_of(new.object_type, new.id, new.value))]
        if not keys:
            return
        try:
            self._backend.remove_objects(self._realm, keys)
        except HeadwaterError as error:
            _log.debug("rows of a lost attempt stay until the next sweep: %s", error)
        else:
            self._stats.rows_removed += len(keys)

    def reserve(self, pointer: str) -> None:
        """Make a row for a new name, unless another one was faster. ⚠ Only a row that exists can be fenced: so what the
        first commit rests on is read after this."""
        if read_realm_fence(self._backend, self._realm).is_closed:  # proves nothing, but keeps new rows out of purged realms
            raise closed(self._realm, pointer)
        self._backend.add_name(self._realm, pointer)
        try:
            self._backend.reserve_pointer(self._realm, pointer, PointerRow(created_at=self._clock.now_micros()))
        except OutcomeUnknown:
            return  # the caller reads next whether the row exists

    def _lands(self, draft: Draft, expected: PointerRow, moved: PointerRow, rows: Sequence[ObjectRow], of: str) -> bool:
        def cas() -> bool:
            self._stats.cas_sent += 1
            return self._backend.commit(self._realm, draft.pointer, expected, moved, rows, of=of)

        try:
            if cas():
                return True
        except OutcomeUnknown:
            self._stats.unknown += 1
        return self._decide(draft, expected, cas)

    def _decide(self, draft: Draft, expected: PointerRow, resend: Callable[[], bool]) -> bool:
        restored = False
        deadline = self._clock.now_micros() + int(self._policy.decide_seconds_max * MICROS)
        pause_seconds, slept_seconds = self._policy.delay_seconds_first, 0.0
        while True:
            try:
                row = self._backend.read_pointer(self._realm, draft.pointer, decide=True)
                if restored or row is None or (row.version, row.head) != (expected.version, expected.head):
                    return row is not None and self._is_ours(row, draft)
                self._stats.cas_resent += 1
                if resend():
                    return True
                why = "the store neither applied nor refused the commit."
            except (OutcomeUnknown, StoreUnavailable) as unclear:
                # What the draft rests on may be gone: it is planned again, and found by its request id if it is there.
                restored = restored or isinstance(unclear, StoreRestored)
                why = f"the store did not say whether the commit landed: {unclear}"
            except Exception as fault:  # access revoked, history swept meanwhile …: no proof that it did not land
                raise OutcomeUnknown(f"it could not be found out whether the commit landed: {fault}") from fault
            # Time slept counts too: a clock that was set back must not make this endless.
            if self._clock.now_micros() >= deadline or slept_seconds >= self._policy.decide_seconds_max:
                raise OutcomeUnknown(why)
            self._clock.sleep(pause_seconds)
            slept_seconds += pause_seconds
            pause_seconds = min(2 * pause_seconds, self._policy.delay_seconds_max)

    def _is_ours(self, row: PointerRow, draft: Draft) -> bool:
        """Whether the entry at our first seq is ours, however many others follow it."""
        first = draft.entries[0]
        if row.seq < first.entry.seq:
            return False
        walk = LogWalk(self._objects)
        return walk.at(walk.header(row.head), first.entry.seq).entry_id == first.entry_id


def closed(realm: str, pointer: str) -> RealmNotActive:
    return RealmNotActive(
        f"{realm!r} takes no commits: {pointer!r} is closed.",
        field="realm",
        remedy="Activate the realm first.",
        realm=realm,
    )


def _moved(row: PointerRow, draft: Draft, fence: int) -> PointerRow:
    """⚠ A new pointer takes over the realm's fence: the next commit, by a clock that is behind, reads the row alone."""
    return msgspec.structs.replace(row, head=draft.head.entry_id, seq=draft.head.seq, fence=fence, version=row.version + 1)
