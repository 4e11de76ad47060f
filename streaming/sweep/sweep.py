"""Deletes from realm instances what no retained state reaches and is older than the grace, and records the run.

⚠ Fence, floors, names, heads; then a retained set that reaches every head; then the filter, probed where it is used; and only
then deletion. A failure before that leaves everything as it was; a realm that fails is left alone while the others continue.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.objects.object_types import all_object_types
from headwater.persistence.rows import Table
from headwater.persistence.store import Store
from headwater.schemas.errors import FilterOverflow, HeadwaterError, InvalidInput, MaintenanceSuperseded, RealmNotActive
from headwater.streaming.reachability.fence import FencedRealm, fence_realm
from headwater.streaming.reachability.id_set import MarkedIds
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.reachability.safeguards import ALL_ON, Safeguards
from headwater.streaming.reachability.same_history import require_every_position, require_same_history, walk_of
from headwater.streaming.retained.retained_filter import FilterChoice, FilterKind, capacity_after
from headwater.streaming.retained.retained_sources import Retained, RetainedSource, require_complete
from headwater.streaming.runs.runs import CountsByRealm, Run, Runs
from headwater.streaming.sweep.executors import SweepExecutor, SweepWork
from headwater.streaming.sweep.sweep_task import Garbage, RealmToSweep, SplitResult, SweepPlan

GRACE_SECONDS = 3 * 3_600
GRACE_SECONDS_MIN = 300
SPLITS = 16
SAVE_SECONDS = 1.0


class SweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    grace_seconds: float = GRACE_SECONDS
    filter: FilterKind = "exact"
    splits: int = SPLITS
    rows_per_second: float = 0.0
    deletes_per_second: float = 0.0
    dry_run: bool = False
    capacity: int = 0
    """Capacity of the bloom filter; 0 derives it from earlier runs and from what was marked."""


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    counts: CountsByRealm
    sample: list[Garbage]
    failures: list[str]
    skipped: dict[str, str]
    swept: list[str]


Progress = Callable[[str, int], None]
"""Progress: what is being done, and how many more of it were done."""


def check_grace(seconds: float) -> None:
    if not GRACE_SECONDS_MIN <= seconds < math.inf:  # also NaN
        raise InvalidInput(
            f"a grace of {seconds:g} seconds.",
            field="grace",
            remedy=f"Use at least {GRACE_SECONDS_MIN} seconds: writers that are under way need them.",
        )


class MarkedRealm(NamedTuple):
    fenced: FencedRealm
    found: Retained


class Sweep:
    def __init__(
        self,
        store: Store,
        source: RetainedSource,
        executor: SweepExecutor,
        identifiers: Identifiers,
        options: SweepOptions,
        *,
        clock: Clock | None = None,
        safeguards: Safeguards = ALL_ON,
        on_progress: Progress = lambda _what, _count: None,
        before_delete: Callable[[], None] = lambda: None,
        on_swept: Callable[[FencedRealm], None] = lambda _: None,
    ) -> None:
        if safeguards.grace:
            check_grace(options.grace_seconds)
        self._store = store
        self._source = source
        self._executor = executor
        self._identifiers = identifiers
        self._options = options
        self._clock = clock or store.clock
        self._safeguards = safeguards
        self._progress = on_progress
        self._before_delete = before_delete
        self._on_swept = on_swept
        """Called with each realm whose set was proved complete, after its garbage is gone: now the set may be compacted."""

    def run(self, runs: Runs, run: Run, realms: Sequence[str], purging: Collection[str] = ()) -> SweepReport:
        """The same scan deletes objects of instances that are PURGING; their other rows are left to the purge."""
        marked = self._mark(run, realms)
        if not marked:
            return SweepReport(counts={}, sample=[], failures=run.record.failures, skipped=run.record.skipped, swept=[])
        run.record.retained_ids = sum(len(one.found.ids) for one in marked)
        runs.save(run.record)
        try:
            self._prepare(runs, run, {one.fenced.realm: one.found.ids for one in marked})
            if self._safeguards.probe:
                self._progress("probed", self._executor.probe())
            self._before_delete()
            done = self._delete(runs, run, marked, purging)
        finally:
            self._executor.release()
            for one in marked:
                one.found.ids.release()
        if not self._options.dry_run:
            for one in marked:
                self._on_swept(one.fenced)
        return SweepReport(
            counts=done.counts,
            sample=done.sample,
            failures=run.record.failures,
            skipped=run.record.skipped,
            swept=[one.fenced.realm for one in marked],
        )

    # ── mark ────────────────────────────────────────────────────────────────────────────────────────────────

    def _mark(self, run: Run, realms: Sequence[str]) -> list[MarkedRealm]:
        marked: list[MarkedRealm] = []
        for realm in realms:
            run.check()
            try:
                one = fence_realm(self._store.backend, realm, self._clock, self._safeguards)
                found = self._found(one)
            except RealmNotActive as closed:
                run.record.skipped = {**run.record.skipped, realm: str(closed)}
                continue
            except MaintenanceSuperseded:
                raise
            except HeadwaterError as error:
                run.record.failures = [*run.record.failures, f"{realm}: {error}"]
                run.record.skipped = {**run.record.skipped, realm: str(error)}
                continue
            marked.append(MarkedRealm(one, found))
            self._progress("marked", len(found.ids))
        return marked

    def _found(self, fenced: FencedRealm) -> Retained:
        found = self._source.retained(fenced)
        walk = walk_of(self._store.backend, fenced.realm)
        try:
            if self._safeguards.completeness:
                require_complete(fenced.spans, found.positions)
                require_same_history(walk, fenced.spans, found.positions)
            if self._safeguards.every_position:
                require_every_position(walk, fenced.spans, found.passed)
        except HeadwaterError:
            found.ids.release()
            raise
        return found

    def _prepare(self, runs: Runs, run: Run, retained: Mapping[str, MarkedIds]) -> None:
        run.record.filter = self._options.filter
        # All ids are counted before the filter is made, so that the first run of a large store does not overflow.
        capacity = self._options.capacity or max(
            capacity_after(retained_by_last_run(runs, run.record.id)), run.record.retained_ids
        )
        choice = FilterChoice(kind=self._options.filter, capacity=capacity)
        try:
            run.record.false_positives = self._executor.prepare(retained, choice, self._safeguards)
        except FilterOverflow as overflow:
            run.record.false_positives = float(str(overflow.facts["false_positives"]))
            raise

    # ── sweep ───────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self, runs: Runs, run: Run, marked: Sequence[MarkedRealm], purging: Collection[str]) -> SplitResult:
        plan = SweepPlan(
            realms={one.fenced.realm: self._to_sweep(one) for one in marked},
            purging=frozenset(purging),
            dry_run=self._options.dry_run,
            rows_per_second=self._options.rows_per_second,
            deletes_per_second=self._options.deletes_per_second,
            claim=run.lease.claim,
        )
        total = SplitResult()
        saved_at = time.monotonic()

        def add(result: SplitResult) -> None:
            nonlocal saved_at
            total.merge(result)
            run.record.counts = total.counts
            run.record.failures = [*run.record.failures, *result.failures][:100]
            if time.monotonic() - saved_at > SAVE_SECONDS:  # progress for observers; at its end each run is saved in any case
                runs.save(run.record)
                saved_at = time.monotonic()

        splits = self._store.backend.splits(Table.OBJECTS, self._options.splits)
        self._executor.sweep(SweepWork(splits, plan, run.check, lambda rows: self._progress("scanned", rows), add))
        return total

    def _to_sweep(self, marked: MarkedRealm) -> RealmToSweep:
        types = self._identifiers.purgeable_types(spare_mutable=self._safeguards.spare_mutable)
        covers = marked.found.covers
        decided = types if covers is None else types & covers
        known = all_object_types()
        attached = {name for name, owner in known.attached().items() if owner in decided}
        return RealmToSweep(created_before=marked.fenced.time - self._grace_micros(), types=decided | attached | known.timed())

    def _grace_micros(self) -> int:
        return int(self._options.grace_seconds * MICROS) if self._safeguards.grace else -(2**62)


def retained_by_last_run(runs: Runs, but: str) -> int:
    """What the newest run before this one found, even if it overflowed."""
    return next((record.retained_ids for record in runs.list() if record.id != but and record.retained_ids), 0)
