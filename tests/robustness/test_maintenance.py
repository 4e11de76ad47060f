"""Maintenance among writers that sleep, race and continue, and under kill -9: a commit is refused or whole, never dangling."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.clock import SystemClock
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.store import RealmKernel
from headwater.producer.references.reference_moves import checked_base
from headwater.schemas.change import Kind
from headwater.schemas.errors import CursorExpired, HeadwaterError, ObjectNotFound
from headwater.streaming.reachability.safeguards import ALL_ON, Safeguards
from headwater.streaming.runs.runs import Runs, RunStatus
from tests.support.faults.faulty_backend import FaultyBackend, Pause, first
from tests.support.faults.manual_clock import ManualClock, SharedClock
from tests.support.fixtures.maintained import DEV, HOUR, MAIN, SLEEPY, Maintained, sweep_store
from tests.support.models.commit_harness import Lanes, Write, cut, fresh_id, reachable_at, state_at, store_on
from tests.support.processes.sweep_process import run_and_be_killed

SOAK = os.environ.get("HEADWATER_SOAK") == "1"


@pytest.fixture
def inner() -> Backend:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return backend


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Backend]:
    backend = open_backend(f"sqlite:///{tmp_path}/lake.db")
    backend.create_schema()
    yield backend
    backend.close()


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A branch at an entry, refused where the entry has been cut: what the catalog's create and assign do."""

    kernel: RealmKernel
    target: LogRecord
    kind: Kind = Kind.CREATE
    keys_to_read: tuple[bytes, ...] = ()
    request_id: str = msgspec.field(default_factory=fresh_id)
    request_id_is_callers: bool = False
    fingerprint: bytes = b""

    def plan(self, draft: Draft) -> Plan:
        return Plan(kind=self.kind, author="branch", message="", base=checked_base(self.kernel, self.target))


# ── writers that sleep ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pointer", [MAIN, "cat/1/heads/new"])
@pytest.mark.parametrize("safeguards", [ALL_ON, Safeguards(fence=False)], ids=["fenced", "fence skipped"])
def test_a_writer_paused_before_its_cas_and_woken_after_the_sweep_is_whole(
    inner: Backend, pointer: str, safeguards: Safeguards
) -> None:
    """With the fence its attempt is lost and made anew. Without it, it lands on objects that were swept."""
    realm = Maintained(inner)
    realm.write(MAIN, 5)
    faulty = FaultyBackend(inner, in_two_steps=True)
    writer = store_on(faulty, clock=realm.clock, retries=SLEEPY)
    pause = Pause("cas_pointer")
    faulty.arm(pause.fault)
    landed: list[LogRecord] = []

    def write() -> None:
        landed.append(Lanes(writer.kernel(realm.realm)).landed(pointer, Write(puts={"late": {"v": 1}})))

    thread = threading.Thread(target=write)
    thread.start()
    assert pause.reached.wait(30)
    realm.clock.move(4 * HOUR)
    realm.sweep(safeguards=safeguards)
    pause.wake()
    thread.join(30)
    assert pause.fault.fired == 1 and landed
    kernel = realm.cold().kernel
    if safeguards.fence:
        assert state_at(kernel, landed[0])["late"] == {"v": 1}
        assert reachable_at(kernel, landed[0]) <= realm.ids()
    else:
        assert not reachable_at(writer.kernel(realm.realm), landed[0]) <= realm.ids()


def test_a_branch_planned_before_its_base_was_truncated_and_swept_is_refused(inner: Backend) -> None:
    realm = Maintained(inner)
    for _ in range(10):
        realm.write(MAIN, 4)
    faulty = FaultyBackend(inner, in_two_steps=True)
    writer = store_on(faulty, clock=realm.clock, retries=SLEEPY).kernel(realm.realm)
    pause = Pause("write_objects")
    faulty.arm(pause.fault)
    refused: list[HeadwaterError] = []

    def branch() -> None:
        try:
            Lanes(writer).landed("cat/1/heads/a", Branch(kernel=writer, target=realm.logs[MAIN][2]))
        except HeadwaterError as error:
            refused.append(error)

    thread = threading.Thread(target=branch)
    thread.start()
    assert pause.reached.wait(30)
    realm.expire("*=1n")
    realm.clock.move(4 * HOUR)
    realm.sweep()
    pause.wake()
    thread.join(30)
    assert pause.fault.fired == 1
    assert [type(error) for error in refused] == [CursorExpired]
    realm.check_states()


@pytest.mark.parametrize("safeguards", [ALL_ON, Safeguards(floors_first=False)], ids=["floors first", "names first"])
def test_a_branch_created_after_names_were_listed_is_complete_although_its_base_is_truncated_then(
    inner: Backend, safeguards: Safeguards
) -> None:
    realm = Maintained(inner)
    for _ in range(60):
        realm.write(MAIN, 4)
    realm.clock.move(4 * HOUR)
    other = store_on(inner, clock=realm.clock).kernel(realm.realm)
    made: list[LogRecord] = []

    def branch_then_cut() -> None:
        made.append(Lanes(other).landed("cat/1/heads/a", Branch(kernel=other, target=realm.logs[MAIN][2])))
        cut(other, MAIN, 60)

    sweeper = FaultyBackend(inner)
    # The first call lists the names for their floors, the second for their fences; without the safeguard floors come third.
    fault = sweeper.arm(first("list_names", branch_then_cut, skip=1 if safeguards.floors_first else 2))
    sweep_store(store_on(sweeper, clock=realm.clock), [realm.realm], safeguards=safeguards)
    assert fault.fired == 1 and made
    kernel = realm.cold().kernel
    if safeguards.floors_first:
        assert state_at(kernel, made[0]) == realm.states[MAIN, 3]
    else:
        with pytest.raises(ObjectNotFound):
            state_at(kernel, made[0])


# ── writers that continue ──────────────────────────────────────────────────────────────────────────────────────


class Writer(threading.Thread):
    """Commits to its own pointer and now and then moves it to where main was, until it is told to stop."""

    def __init__(self, backend: Backend, pointer: str, clock: ManualClock, main: Maintained | None) -> None:
        super().__init__()
        self.model = Maintained(backend, seed=len(pointer), clock=clock)
        self.model.step_seconds = 1  # all writers move one clock: in hours they would outrun each other's leases of ids
        self.pointer, self.main, self.clock = pointer, main, clock
        self.stop = threading.Event()
        self.refused = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:
            self.failure = error

    def step(self) -> None:
        if self.main is not None and self.model.chance.random() < 0.2 and self.main.logs.get(MAIN):
            target = self.model.chance.choice(list(self.main.logs[MAIN]))
            request = Branch(kernel=self.model.kernel, target=target, kind=Kind.ASSIGN)
            try:
                logged = self.model.lanes.landed(self.pointer, request)
            except CursorExpired:
                self.refused += 1
                return
            log = self.model.logs.setdefault(self.pointer, [])
            log.append(logged)
            self.model.states[self.pointer, len(log)] = self.main.states[MAIN, target.entry.seq]
        else:
            self.model.write(self.pointer, self.model.chance.randint(1, 6))
        self.clock.move(30)


def test_writers_continue_while_floors_rise_and_garbage_goes(sqlite: Backend) -> None:
    clock = SharedClock()
    main = Writer(sqlite, MAIN, clock, None)
    main.step()
    others = [Writer(sqlite, name, clock, main.model) for name in (DEV, "cat/1/heads/third")]
    for writer in (main, *others):
        writer.start()
    maintainer = Maintained(sqlite, clock=clock)
    purged = 0
    for number in range(8):
        threading.Event().wait(0.3)  # let histories grow between the rounds
        maintainer.expire("*=15n")
        report = maintainer.sweep(filter="bloom" if number % 2 else "exact", grace_seconds=300)
        assert not report.failures
        purged += sum(counts.purged for counts in report.counts[maintainer.realm].values())
    for writer in (main, *others):
        writer.stop.set()
    for writer in (main, *others):
        writer.join(30)
        assert writer.failure is None, writer.failure
        writer.model.check_states()
    assert purged > 100
    for writer in (main, *others):
        maintainer.logs |= writer.model.logs
        maintainer.states |= writer.model.states
    clock.move(4 * HOUR)
    reachable = maintainer.reachable()
    maintainer.sweep()
    assert maintainer.ids() == reachable
    maintainer.check_states()


# ── kill -9 ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("moment", ["floor", "marked", "deleting", *(["on-spark"] if SOAK else [])])
def test_a_sweep_that_is_killed_loses_nothing_and_the_next_one_completes(tmp_path: Path, moment: str) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    backend = open_backend(url)
    backend.create_schema()
    realm = Maintained(backend, seed=3)
    for _ in range(120):
        realm.step()
    before = realm.ids()
    run_and_be_killed(url, realm.realm, moment)
    assert max(realm.floor(pointer) for pointer in realm.logs) > 1
    realm.check_states()
    gone = before - realm.ids()
    assert bool(gone) is (moment in ("deleting", "on-spark"))
    now = store_on(backend, clock=SystemClock())
    runs = Runs(backend, now.clock)
    dead = runs.list()[0]
    assert dead.status is RunStatus.RUNNING
    with runs.run("check", supersede=dead.id):
        pass
    reachable = realm.reachable()
    sweep_store(now, [realm.realm])
    assert realm.ids() == reachable
    realm.check_states()
    backend.close()
