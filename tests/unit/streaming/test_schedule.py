"""A cycle of maintenance does all of it; the background thread comes back after failures and stops when it is told to."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.persistence.rows import MutableRow
from headwater.persistence.store import Store, open_store
from headwater.schemas.errors import InvalidInput, MaintenanceStopped, StoreUnavailable
from headwater.streaming import schedule
from headwater.streaming.runs.run_counts import Counts
from headwater.streaming.runs.run_totals import RunTotals
from headwater.streaming.runs.runs import Runs, RunStatus
from headwater.streaming.runs.schedule_turns import TURN_TYPE, ScheduleTurns
from headwater.streaming.schedule import CycleReport, CycleTools, Schedule, ScheduleOptions, StepTurns, run_cycle
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import HOUR, Maintained
from tests.support.models.realm_cases import realms_of


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory://{secrets.token_hex(6)}", create=True, clock=ManualClock()) as opened:
        yield opened


def test_a_cycle_expires_purges_and_sweeps_every_realm(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    realms = realms_of(store)
    for name in ("lives", "goes"):
        realms.create(name)
        realms.init(name)
    realm = Maintained(store.backend, seed=2, realm=realms.get("lives").instance, clock=clock)
    realm.pointers = realm.pointers[:3]
    for _ in range(60):
        realm.step()
    realms.deactivate("goes")
    realms.purge("goes")
    clock.move(4 * HOUR)
    report = run_cycle(store, ScheduleOptions(retention="*=3n"))
    assert report.expired > 20 and report.realms_purged == 1 and report.rows_purged > 20 and not report.failures
    assert realms.get("goes").status == "PURGED"
    realm.check_states()
    assert {record.operation for record in Runs(store.backend, clock).list()} == {"sweep", "purge-realms", "expire"}


def test_while_another_process_is_at_it_nothing_is_done(store: Store) -> None:
    with Runs(store.backend, store.clock).run("sweep"):
        assert run_cycle(store, ScheduleOptions()).busy


def test_the_background_thread_continues_after_a_failure_and_stops(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    clock = store.clock
    assert isinstance(clock, ManualClock)

    def cycle(_store: Store, _options: ScheduleOptions, _tools: CycleTools, *, steps: Sequence[str]) -> CycleReport:
        assert list(steps) == ["expire", "purge", "sweep", "files"]
        clock.move(1)
        calls.append(1)
        if len(calls) == 1:
            raise StoreUnavailable("away for now.")
        return CycleReport(failures=["one row"])

    monkeypatch.setattr(schedule, "run_cycle", cycle)
    running = Schedule(store, ScheduleOptions(every_seconds=0.01, files_seconds=0.01)).start()
    for _ in range(1_000):
        clock.move(0.01)
        if running.last is not None:
            break
        running._stopping.wait(0.01)
    assert running.stop()
    assert len(calls) >= 2 and running.last is not None


# ── whose turn it is ────────────────────────────────────────────────────────────────────────────────────────


def test_of_many_processes_on_one_cadence_one_begins_each_cycle(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    processes = [ScheduleTurns(store.backend, clock, 6 * HOUR) for _ in range(5)]
    for _ in range(3):
        waits = [turns.take() for turns in processes]
        assert waits[0] == 0 and all(0 < wait <= 6 * HOUR for wait in waits[1:])
        clock.move(6 * HOUR)


def test_a_schedule_leaves_steps_to_a_stream_that_has_their_turn(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    assert ScheduleTurns(store.backend, clock, HOUR, key="sweep").take() == 0  # as `headwater stream` takes it
    turns = StepTurns(store, ScheduleOptions(every_seconds=6 * HOUR))
    assert turns.take() == (["expire", "purge", "files"], 0.0)
    assert turns.take() == ([], pytest.approx(HOUR))
    turns.come_back(["purge"], 60)
    clock.move(60)
    assert turns.take() == (["purge"], 0.0)


def test_two_processes_that_find_a_cycle_due_at_the_same_moment_do_not_both_begin_it(store: Store) -> None:
    seen = threading.Barrier(4)
    read = store.backend.read_mutable

    def together(realm: str, type: str, key: str) -> MutableRow | None:
        row = read(realm, type, key)
        if type == TURN_TYPE:
            seen.wait(10)
        return row

    store.backend.read_mutable = together  # type: ignore[method-assign]
    with ThreadPoolExecutor(4) as pool:
        waits = list(pool.map(lambda _: ScheduleTurns(store.backend, store.clock, HOUR).take(), range(4)))
    assert sorted(wait > 0 for wait in waits) == [False, True, True, True]


def test_an_unused_turn_returns_soon_and_a_shorter_cadence_is_not_delayed(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    daily, hourly = (ScheduleTurns(store.backend, clock, seconds) for seconds in (24 * HOUR, HOUR))
    assert daily.take() == 0
    assert hourly.take() == HOUR
    daily.come_back(300)
    assert daily.take() == pytest.approx(300)
    clock.move(300)
    assert hourly.take() == 0


def test_a_shorter_cadence_gets_its_turn_after_a_longer_one_and_after_a_clock_that_ran_ahead(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    daily, hourly = (ScheduleTurns(store.backend, clock, seconds) for seconds in (24 * HOUR, HOUR))
    assert daily.take() == 0
    assert hourly.take() == HOUR
    clock.move(HOUR)
    assert hourly.take() == 0
    clock.move(365 * 24 * HOUR)
    assert hourly.take() == 0
    clock.move(-364 * 24 * HOUR)  # it was a year ahead
    assert hourly.take() == HOUR
    clock.move(HOUR)
    assert hourly.take() == 0


def test_a_cycle_that_is_stopped_reports_it_and_the_next_one_completes_it(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    realm = new_realm(store)
    clock.move(4 * HOUR)
    asked: list[int] = []

    def is_stopping() -> bool:
        asked.append(1)
        return len(asked) > 4

    with pytest.raises(MaintenanceStopped):
        run_cycle(store, ScheduleOptions(retention="*=3n"), CycleTools(is_stopping=is_stopping))
    assert RunStatus.STOPPED in {record.status for record in Runs(store.backend, clock).list()}
    assert run_cycle(store, ScheduleOptions(retention="*=3n")).rows_purged > 20
    realm.check_states()


def test_one_operation_that_fails_leaves_the_others_to_continue(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    new_realm(store)
    clock = store.clock
    assert isinstance(clock, ManualClock)
    clock.move(4 * HOUR)

    def fails(*_: object, **__: object) -> None:
        raise StoreUnavailable("the list cannot be read.")

    monkeypatch.setattr(schedule, "purge_all", fails)
    report = run_cycle(store, ScheduleOptions(retention="*=3n"))
    assert report.failures == ["the list cannot be read."] and report.expired > 20 and report.rows_purged > 20


# ── what is counted ─────────────────────────────────────────────────────────────────────────────────────────


def test_totals_continue_when_the_records_of_old_runs_are_dropped(store: Store) -> None:
    clock = store.clock
    assert isinstance(clock, ManualClock)
    realm = new_realm(store)
    clock.move(4 * HOUR)
    runs = Runs(store.backend, clock, kept=2)
    purged = run_cycle(store, ScheduleOptions(retention="*=3n")).rows_purged
    for _ in range(5):
        clock.move(1)
        with runs.run("verify"):
            clock.move(2)
    with pytest.raises(StoreUnavailable), runs.run("verify"):
        raise StoreUnavailable("away.")
    with runs.run("sweep", dry_run=True):
        pass
    totals = RunTotals(store.backend, clock).read()
    assert len(runs.list()) == 2
    assert totals.operations["verify"].runs == {"DONE": 5, "FAILED": 1}
    assert totals.operations["verify"].seconds == pytest.approx(10)
    assert totals.operations["sweep"].runs == {"DONE": 1}
    assert sum(it.purged for it in totals.operations["sweep"].counts[realm.realm].values()) <= purged
    assert totals.operations["sweep"].last_success_at > 0
    assert clock.now_micros() > totals.kept_since[realm.realm] > clock.now_micros() - 10 * 86_400 * 1_000_000


def test_totals_of_very_many_realms_fit_a_row_and_stay_correct(store: Store) -> None:
    counts = {f"realm-{number}#{number:016x}": {f"type-{n}": Counts(purged=1) for n in range(15)} for number in range(1_000)}
    runs = Runs(store.backend, store.clock)
    with runs.run("sweep") as run:
        run.record.counts = counts
    found = runs.find(run.record.id)
    assert found is not None and found.totals().purged == 15_000
    summed = RunTotals(store.backend, store.clock).read().operations["sweep"].counts
    assert sum(it.purged for by_type in summed.values() for it in by_type.values()) == 15_000


def new_realm(store: Store) -> Maintained:
    """With sixty steps of history."""
    clock = store.clock
    assert isinstance(clock, ManualClock)
    realms = realms_of(store)
    realms.create("lives")
    realms.init("lives")
    realm = Maintained(store.backend, seed=2, realm=realms.get("lives").instance, clock=clock)
    realm.pointers = realm.pointers[:3]
    for _ in range(60):
        realm.step()
    return realm


def test_a_rule_that_is_none_is_refused_at_once(store: Store) -> None:
    with pytest.raises(InvalidInput):
        Schedule(store, ScheduleOptions(retention="sometimes"))
