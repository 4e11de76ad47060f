"""A seed enters; a store with a back-dated history, garbage and its model leaves, and short words for maintaining it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.log_entry import CONTENT, Content, Logged
from headwater.persistence.realm_objects import NewObject
from headwater.persistence.retries import RetryPolicy
from headwater.persistence.rows import PointerRow, ScannedRow, Table
from headwater.persistence.state import base_state
from headwater.persistence.store import Store
from headwater.schemas.change import Kind, Value
from headwater.streaming.executors import LocalExecutor, SweepExecutor
from headwater.streaming.expire import ExpireReport, Expiry
from headwater.streaming.identifiers import Identifiers
from headwater.streaming.policies import parse_retention
from headwater.streaming.retained_sources import RetainedSource, WalkedSource
from headwater.streaming.runs import RunRecord, Runs
from headwater.streaming.safeguards import ALL_ON, Safeguards
from headwater.streaming.sweep import Sweep, SweepOptions, SweepReport
from tests.commit_harness import REALM, Lanes, MoveTo, Write, reachable_at, state_at, store_on
from tests.manual_clock import ManualClock

POINTERS = ("cat/1/heads/main", "cat/1/heads/dev", "cat/1/tags/t", "principals")
MAIN, DEV, TAG, PRINCIPALS = POINTERS
HOUR = 3_600
SLEEPY = RetryPolicy(attempts_max=1_000, seconds_max=1e7, delay_seconds_first=0.0005, delay_seconds_max=0.002)
"""For writers whose clock jumps by hours while they wait."""


class Maintained:
    """A realm whose clock the test moves. Each step takes an hour, unless it is told otherwise."""

    def __init__(self, backend: Backend, *, seed: int = 0, realm: str = REALM, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.backend = backend
        self.realm = realm
        self.store: Store = store_on(backend, clock=self.clock, retries=SLEEPY)
        self.kernel = self.store.kernel(realm)
        self.lanes = Lanes(self.kernel)
        self.chance = random.Random(seed)
        self.pointers: tuple[str, ...] = POINTERS
        self.step_seconds = HOUR
        self.logs: dict[str, list[Logged]] = {}
        self.states: dict[tuple[str, int], dict[str, Value]] = {}
        self._number = 0

    # ── history ─────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, pointer: str = MAIN, count: int = 2, keys: int = 40) -> Logged:
        names = [f"key-{number:04d}" for number in self.chance.sample(range(keys), count)]
        self._number += 1
        puts: dict[str, Value] = {name: {"v": self._number, "of": name} for name in names[: max(1, count * 2 // 3)]}
        return self._land(pointer, Write(puts=puts, deletes=tuple(names[len(puts) :])))

    def move_to(self, pointer: str, kind: Kind, base: Logged | None = None) -> Logged:
        return self._land(pointer, MoveTo(kind=kind, base=None if base is None else base_state(base)))

    def step(self) -> None:
        pointer = self.chance.choice(self.pointers)
        match self.chance.choices(("write", "big", "move", "orphan"), (10, 2, 4, 1))[0]:
            case "write":
                self.write(pointer, self.chance.randint(1, 4))
            case "big":
                self.write(pointer, 30)
            case "move":
                known = [logged for name, log in self.logs.items() for logged in log[self.floor(name) - 1 :]]
                kind = self.chance.choice((Kind.CREATE, Kind.ASSIGN, Kind.DELETE))
                base = self.chance.choice(known) if known and kind is not Kind.DELETE else None
                self.move_to(pointer, kind, base)
            case _:
                self.orphan()

    def orphan(self) -> int:
        """What an attempt that was lost has left behind."""
        (object_id,) = self.store.take(1)
        content = Content(b"0" * 16, "THING", {"lost": True})
        self.kernel.objects.write_strong([NewObject(CONTENT, object_id, content)], self.clock.now_micros())
        return object_id

    def _land(self, pointer: str, request: Write | MoveTo) -> Logged:
        self.clock.move(self.step_seconds)
        logged = self.lanes.landed(pointer, request)
        log = self.logs.setdefault(pointer, [])
        before = self.states.get((pointer, len(log)), {})
        log.append(logged)
        self.states[pointer, len(log)] = self._after(request, before)
        return logged

    def _after(self, request: Write | MoveTo, before: dict[str, Value]) -> dict[str, Value]:
        if isinstance(request, MoveTo):
            return {} if request.base is None else self.states[request.base.base.pointer, request.base.base.seq]
        after = {**before, **request.puts}
        return {key: value for key, value in after.items() if key not in request.deletes}

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def row(self, pointer: str) -> PointerRow:
        row = self.backend.read_pointer(self.realm, pointer)
        assert row is not None
        return row

    def floor(self, pointer: str) -> int:
        return self.row(pointer).floor

    def expire(self, rules: str, *, dry_run: bool = False) -> ExpireReport:
        return Expiry(self.kernel, parse_retention(rules), pin_sources=None).run(dry_run=dry_run)

    def sweep(
        self,
        *,
        realms: Iterable[str] | None = None,
        safeguards: Safeguards = ALL_ON,
        source: RetainedSource | None = None,
        executor: SweepExecutor | None = None,
        identifiers: Identifiers | None = None,
        before_delete: Callable[[], None] = lambda: None,
        **options: object,
    ) -> SweepReport:
        report, self.record = sweep_store(
            self.store,
            list(realms or [self.realm]),
            safeguards=safeguards,
            source=source,
            executor=executor,
            identifiers=identifiers,
            before_delete=before_delete,
            **options,
        )
        return report

    # ── truth ───────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self) -> list[ScannedRow]:
        return [row for split in self.backend.splits(Table.OBJECTS, 3) for row in self.backend.scan(split, realm=self.realm)]

    def ids(self) -> set[int]:
        return {row.id for row in self.rows()}

    def kept(self) -> list[tuple[str, int]]:
        return [(name, seq) for name, log in self.logs.items() for seq in range(self.floor(name), len(log) + 1)]

    def cold(self) -> Maintained:
        """As another process sees it, with nothing cached."""
        other = Maintained(self.backend, realm=self.realm)
        other.logs, other.states = self.logs, self.states
        return other

    def reachable(self) -> set[int]:
        """Every kept state walked on its own: slow, and sure."""
        kernel = self.cold().kernel
        return {id for name, seq in self.kept() for id in reachable_at(kernel, self.logs[name][seq - 1])}

    def check_states(self) -> None:
        """Each state that policy keeps is what it was."""
        kernel = self.cold().kernel
        for name, seq in self.kept():
            assert state_at(kernel, self.logs[name][seq - 1]) == self.states[name, seq], f"{name} at {seq}"


def sweep_store(
    store: Store,
    realms: list[str],
    *,
    safeguards: Safeguards = ALL_ON,
    source: RetainedSource | None = None,
    executor: SweepExecutor | None = None,
    identifiers: Identifiers | None = None,
    before_delete: Callable[[], None] = lambda: None,
    **options: object,
) -> tuple[SweepReport, RunRecord]:
    known = identifiers or Identifiers()
    sweep = Sweep(
        store,
        source or WalkedSource(store.backend, known),
        executor or LocalExecutor(store.backend),
        known,
        msgspec.convert(options, SweepOptions),
        safeguards=safeguards,
        before_delete=before_delete,
    )
    runs = Runs(store.backend, store.clock)
    with runs.run("sweep", dry_run=bool(options.get("dry_run"))) as run:
        report = sweep.run(runs, run, realms)
    record = runs.find(run.record.id)
    assert record is not None
    return report, record
