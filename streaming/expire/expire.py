"""Raises floors by retention policies, rules and pins, each by one CAS. Entries below a floor are garbage.

Nothing is deleted here: the sweep finds what no state above the floors reaches. ⚠ No floor passes a pin within its maximum age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.claimed_removals import FLOOR_CLAIM, ClaimedRemovals
from headwater.persistence.coordination.pointer_writes import write_pointer
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import LogWalk
from headwater.persistence.records.subscriptions import Pin
from headwater.persistence.rows import Anchor, PointerRow
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.errors import HeadwaterError, MaintenanceStopped, MaintenanceSuperseded, ObjectNotFound
from headwater.streaming.expire.pins import PinSource, all_pins
from headwater.streaming.expire.retention import Retention, retention_text
from headwater.streaming.expire.retention_policies import AppliedRule, RetentionChoice
from headwater.streaming.runs.runs import Run

FAILURES_KEPT = 100


class AllowedFloor(msgspec.Struct, frozen=True):
    """How far one rule lets a floor rise."""

    source: str
    keeps: str
    floor: int


class ExpiredPointer(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, or would happen, to one pointer."""

    pointer: str
    head_seq: int
    floor_before: int
    floor_after: int
    held_by: str = ""
    """Who keeps the floor below the level that the rules allow."""
    allowed: list[AllowedFloor] = []
    """What each applicable rule says, the one that keeps the most first."""
    failure: str = ""
    kept_since: int = 0
    """The time of the entry just below the floor, in microseconds; if nothing was cut, that of the pointer's first entry."""

    @property
    def expired(self) -> int:
        return self.floor_after - self.floor_before


class ExpireReport(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    dry_run: bool
    pointers: list[ExpiredPointer]

    @property
    def expired(self) -> int:
        return sum(pointer.expired for pointer in self.pointers)

    @property
    def kept_since(self) -> int:
        """How far back the realm's feed reaches, in microseconds; 0 for a realm without entries."""
        return min((pointer.kept_since for pointer in self.pointers), default=0)

    @property
    def failures(self) -> list[ExpiredPointer]:
        return [pointer for pointer in self.pointers if pointer.failure]


class Expiry:
    """One per realm instance."""

    def __init__(
        self,
        kernel: RealmKernel,
        rules: Sequence[Retention],
        *,
        clock: Clock | None = None,
        pin_sources: Sequence[PinSource] | None = None,
        before_each: Callable[[], None] = lambda: None,
    ) -> None:
        """`rules` apply where no policy does. `before_each` is called before each floor rises and may refuse: an export that
        took over may have set its pin since."""
        self._kernel = kernel
        self._rules = rules
        self._clock = clock or kernel.store.clock
        self._pin_sources = pin_sources
        self._before_each = before_each

    def run(self, *, dry_run: bool = False, on_pointer: Callable[[ExpiredPointer], None] | None = None) -> ExpireReport:
        now = self._clock.now_micros()
        choice = RetentionChoice(self._kernel, self._rules)
        rows = dict(_rows(self._kernel))
        heads = {pointer: self._kernel.walk.header(row.head) for pointer, row in rows.items()}
        allowed = {pointer: self._allowed(row, heads[pointer], choice.of(pointer), now) for pointer, row in rows.items()}
        floors = {pointer: found[0].floor for pointer, found in allowed.items()}
        rising = {} if dry_run else {pointer: floor for pointer, floor in floors.items() if floor > rows[pointer].floor}
        with self._claimed(rising):  # ⚠ before pins are read
            done = self._run(rows, heads, allowed, now, dry_run, on_pointer)
        return ExpireReport(realm=self._kernel.realm, dry_run=dry_run, pointers=done)

    def _run(
        self,
        rows: dict[str, PointerRow],
        heads: dict[str, LogRecord],
        allowed: dict[str, list[AllowedFloor]],
        now: int,
        dry_run: bool,
        on_pointer: Callable[[ExpiredPointer], None] | None,
    ) -> list[ExpiredPointer]:
        pins: dict[str, Pin] = {}
        for pin in all_pins(self._kernel, now, rows, heads, self._pin_sources):
            if pin.until > now and (pin.pointer not in pins or pin.seq < pins[pin.pointer].seq):
                pins[pin.pointer] = pin
        done = []
        for pointer, row in rows.items():
            one = self._one(pointer, row, heads[pointer], allowed[pointer], pins.get(pointer), dry_run)
            done.append(one)
            if on_pointer is not None:
                on_pointer(one)
        return done

    @contextmanager
    def _claimed(self, floors: dict[str, int]) -> Iterator[None]:
        """Announces which floors may rise, for plans that begin meanwhile. Covers only references: plans pin nothing else."""
        claims = ClaimedRemovals(self._kernel.store.backend, self._kernel.realm, self._clock)
        names = [pointer for pointer in floors if parse_reference_pointer(pointer) is not None]
        for pointer in names:
            claims.claim(FLOOR_CLAIM, pointer, [floors[pointer]])
        try:
            yield
        finally:
            for pointer in names:
                claims.release(FLOOR_CLAIM, pointer)

    def _allowed(self, row: PointerRow, head: LogRecord, rules: Sequence[AppliedRule], now: int) -> list[AllowedFloor]:
        walk = self._kernel.walk
        found = [
            AllowedFloor(one.source, retention_text(one.rule), allowed_floor(walk, head, row.floor, one.rule, now))
            for one in rules
        ]
        return sorted(found, key=lambda one: one.floor)

    def _one(
        self, pointer: str, row: PointerRow, head: LogRecord, allowed: list[AllowedFloor], pin: Pin | None, dry_run: bool
    ) -> ExpiredPointer:
        """⚠ All rules apply: the floor rises only as far as the rule that keeps the most allows."""
        wanted, held_by = allowed[0].floor, ""
        if pin is not None and pin.seq + 1 < wanted:
            wanted, held_by = max(pin.seq + 1, row.floor), pin.holder
        failure = ""
        anchor = row.anchor
        if wanted > row.floor:
            try:
                anchor = anchor_below(self._kernel, head, wanted)
                if not dry_run:
                    self._before_each()
                    raise_floor(self._kernel, pointer, row, head, wanted, anchor, self._clock, self._before_each)
            except (MaintenanceSuperseded, MaintenanceStopped):
                raise
            except HeadwaterError as error:  # the others continue; this one rises next time
                wanted, failure = row.floor, str(error)
        return ExpiredPointer(
            pointer=pointer,
            head_seq=row.seq,
            floor_before=row.floor,
            floor_after=wanted,
            held_by=held_by,
            allowed=allowed,
            failure=failure,
            kept_since=row.created_at if anchor is None else anchor.time_micros,
        )


def expire_realms(
    store: Store,
    run: Run,
    instances: Sequence[str],
    rules: Sequence[Retention],
    *,
    on_pointer: Callable[[ExpiredPointer], None] | None = None,
) -> list[ExpireReport]:
    """A failure is reported in the run's record and leaves that pointer as it is; the others continue."""
    reports, failures = [], list[str]()
    for instance in instances:
        run.check()
        try:
            expiry = Expiry(store.kernel(instance), rules, before_each=run.check)
            report = expiry.run(dry_run=run.record.dry_run, on_pointer=on_pointer)
        except (MaintenanceSuperseded, MaintenanceStopped):
            raise
        except HeadwaterError as error:
            failures.append(f"{instance}: {error}")
            continue
        reports.append(report)
        failures += [f"{instance} {it.pointer}: {it.failure}" for it in report.failures]
    run.record.failures = failures[:FAILURES_KEPT]
    run.record.kept_since = {report.realm: report.kept_since for report in reports if report.kept_since}
    return reports


def allowed_floor(walk: LogWalk, head: LogRecord, floor: int, rule: Retention, now: int) -> int:
    """How far the rule alone lets the floor rise; the head is always kept."""
    floors = []
    if rule.age_seconds is not None:
        floors.append(walk.first_after(head, now - rule.age_seconds * MICROS, floor))
    if rule.entries is not None:
        floors.append(head.entry.seq - rule.entries + 1)
    return max(floor, min([*floors, head.entry.seq])) if floors else floor


def anchor_below(kernel: RealmKernel, head: LogRecord, floor: int) -> Anchor:
    below = kernel.walk.at(head, floor - 1)
    return Anchor(below.entry_id, below.entry.time)


def raise_floor(
    kernel: RealmKernel,
    pointer: str,
    row: PointerRow,
    head: LogRecord,
    floor: int,
    anchor: Anchor,
    clock: Clock,
    prove: Callable[[], None] = lambda: None,
) -> None:
    """Uses CAS, and retries when commits come in between; a floor that is already there is left alone. ⚠ `prove` raises if
    another run has taken over since `row` was read: that run has written its pins into every row, so the CAS fails."""

    def raised(now: PointerRow) -> PointerRow | None:
        if now.floor >= floor:
            return None
        if not _leads_to(kernel, now, head):
            raise ObjectNotFound(f"{pointer} is no longer on the history of entry {head.entry.seq}.", field="pointer")
        return msgspec.structs.replace(now, floor=floor, anchor=anchor)

    write_pointer(kernel.store.backend, kernel.realm, pointer, row, raised, prove, clock)


def _leads_to(kernel: RealmKernel, row: PointerRow, head: LogRecord) -> bool:
    """⚠ A store that was restored from a backup may have another entry at that seq: the anchor would belong to the lost
    history."""
    if row.head == head.entry_id:
        return True
    return row.seq > head.entry.seq and kernel.walk.at(kernel.walk.load(row.head), head.entry.seq).entry_id == head.entry_id


def _rows(kernel: RealmKernel) -> Iterator[tuple[str, PointerRow]]:
    return ((name, row) for name, row in kernel.store.backend.all_pointers(kernel.realm) if row.head)
