"""Begins, renews and ends plans. Each is a row, so every worker serves every plan, also after a restart."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.coordination.claimed_removals import FLOOR_CLAIM, SNAPSHOT_CLAIM, claimed
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.producer.forgotten_tables import ForgottenTables, history_forgotten
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_rows import PLAN_TYPE, PinnedEntry, Plan, PlanInput, PlanOptions, live_plans, plan_of
from headwater.schemas.errors import InvalidInput, OutcomeUnknown, PlanNotFound, SnapshotExpired

_ID_LENGTH_MAX = 80
_WRITE_TRIES_MAX = 20


class Plans:
    """One per realm instance."""

    def __init__(self, kernel: RealmKernel, options: PlanOptions, counts: PlanCounts) -> None:
        self._kernel, self._options, self._counts = kernel, options, counts
        self._backend, self._clock = kernel.store.backend, kernel.store.clock

    def begin(
        self,
        owner: str,
        inputs: Sequence[PlanInput],
        pins: Sequence[PinnedEntry],
        *,
        seconds: float | None = None,
        request: bytes = b"",
    ) -> Plan:
        """Pins entries and snapshots. `SnapshotExpired` if one of them is gone, or about to go: then nothing is held."""
        if len(inputs) > self._options.inputs_max:
            raise InvalidInput(
                f"{len(inputs)} inputs.", field="inputs", remedy=f"Name at most {self._options.inputs_max} in one plan."
            )
        now = self._clock.now_micros()
        ends_at = now + round(self._options.age_hours * 3_600 * MICROS)
        plan = Plan(
            id=secrets.token_hex(16),
            owner=owner,
            created_at=now,
            expires_at=now,
            pinned_until=now,
            ends_at=ends_at,
            pins=tuple(pins),
            inputs=tuple(inputs),
            request=request,
        ).leased(now, self._seconds(seconds), self._options.grace_seconds)
        self._counts.add(self._kernel.realm, owner, now, self._count, self._options)
        row = self._row(None, plan)
        if not cas_row(self._backend, self._kernel.realm, None, row, self._clock, has_token=True):
            raise OutcomeUnknown("the plan could not be written.", remedy="Try again.")
        try:
            self._require_there(plan)  # ⚠ after the row is written
        except Exception:
            delete_row(self._backend, self._kernel.realm, row, self._clock)
            self._counts.remove(self._kernel.realm, owner)
            raise
        return plan

    def get(self, id: str, owner: str) -> Plan:
        """⚠ The plan of another principal is not there."""
        return plan_of(self._read(id, owner))

    def renew(self, id: str, owner: str, *, seconds: float | None = None) -> Plan:
        """`PlanNotFound` once the grace is over: what it pinned may be gone. ⚠ A lease never gets shorter: a worker whose
        clock is behind would end what its caller believes to be renewed."""
        leased = self._seconds(seconds)

        def renewed(plan: Plan, now: int) -> Plan:
            if not plan.holds(now):
                raise _no_plan(id)
            later = plan.leased(now, leased, self._options.grace_seconds)
            return later if later.expires_at > plan.expires_at else plan

        return self._change(id, owner, renewed)

    def end(self, id: str, owner: str) -> Plan:
        """Its pins are gone at once. Ending it again changes nothing."""
        held = False

        def ended(plan: Plan, now: int) -> Plan:
            nonlocal held
            held = plan.holds(now)
            return msgspec.structs.replace(plan, is_ended=True)

        plan = self._change(id, owner, ended)
        if held:
            self._counts.remove(self._kernel.realm, owner)
        return plan

    def _count(self) -> Counter[str]:
        return Counter(plan.owner for plan in live_plans(self._kernel))

    def _seconds(self, seconds: float | None) -> float:
        wanted = self._options.seconds if seconds is None else seconds
        if not 1 <= wanted <= self._options.seconds_max:
            raise InvalidInput(
                f"a lease of {wanted} seconds.", field="seconds", remedy=f"Use 1 to {self._options.seconds_max:.0f}."
            )
        return wanted

    def _require_there(self, plan: Plan) -> None:
        for pin in plan.pins:
            row = self._backend.read_pointer(self._kernel.realm, pin.pointer)
            floors = claimed(self._backend, self._kernel.realm, self._clock, FLOOR_CLAIM, pin.pointer)
            if row is None or pin.seq < max(row.floor, *floors, 0):
                raise SnapshotExpired(
                    f"entry {pin.seq} of {pin.pointer} has expired, or is about to.",
                    field="inputs",
                    remedy="Plan on a newer state.",
                )
        for one in plan.inputs:
            if one.snapshot_id is not None and one.snapshot_id in self._going(one.content_id):
                raise SnapshotExpired(
                    f"snapshot {one.snapshot_id} of {'.'.join(one.key)} is being removed.",
                    field="inputs",
                    remedy="Plan on a newer snapshot.",
                )
        forgotten = {table.content_id for table in ForgottenTables(self._kernel).all()}
        for one in plan.inputs:
            if one.content_id in forgotten:
                raise history_forgotten(one.key)

    def _going(self, content_id: str) -> frozenset[int]:
        return claimed(self._backend, self._kernel.realm, self._clock, SNAPSHOT_CLAIM, content_id)

    def _read(self, id: str, owner: str) -> MutableRow:
        row = self._backend.read_mutable(self._kernel.realm, PLAN_TYPE, id) if 0 < len(id) <= _ID_LENGTH_MAX else None
        if row is None or plan_of(row).owner != owner:
            raise _no_plan(id)
        return row

    def _change(self, id: str, owner: str, change: Callable[[Plan, int], Plan]) -> Plan:
        for _ in range(_WRITE_TRIES_MAX):
            row = self._read(id, owner)
            plan = change(plan_of(row), self._clock.now_micros())
            if cas_row(self._backend, self._kernel.realm, row, self._row(row, plan), self._clock):
                return plan
        raise OutcomeUnknown("other writers kept changing the plan.", field="plan", remedy="Try again.")

    def _row(self, before: MutableRow | None, plan: Plan) -> MutableRow:
        now = self._clock.now_micros()
        return next_row(PLAN_TYPE, plan.id, before, msgspec.msgpack.encode(plan), now, expires_at=plan.pinned_until)


def clean_plans(kernel: RealmKernel, rows_max: int = 5_000) -> tuple[int, bool]:
    """Delete plans that ended, or whose grace is over: how many, and whether more are due."""
    backend, clock = kernel.store.backend, kernel.store.clock
    now = clock.now_micros()
    over = (row for row in backend.all_mutable(kernel.realm, PLAN_TYPE) if not plan_of(row).holds(now))
    gone = list(islice(over, rows_max))
    return sum(delete_row(backend, kernel.realm, row, clock) for row in gone), len(gone) == rows_max


def _no_plan(id: str) -> PlanNotFound:
    return PlanNotFound(f"there is no plan {id[:_ID_LENGTH_MAX]!r}.", field="plan", remedy="Begin a new one: plans expire.")
