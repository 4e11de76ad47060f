"""A cycle of maintenance does all of it; the background thread comes back after failures and stops when it is told to."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.store import Store, open_store
from headwater.schemas.errors import InvalidInput, StoreUnavailable
from headwater.streaming import schedule
from headwater.streaming.runs import Runs
from headwater.streaming.schedule import CycleReport, Schedule, ScheduleOptions, run_cycle
from tests.maintained import HOUR, Maintained
from tests.manual_clock import ManualClock
from tests.realm_cases import realms_of


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


def test_the_background_thread_comes_back_after_a_failure_and_stops(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def cycle(_store: Store, _options: ScheduleOptions) -> CycleReport:
        calls.append(1)
        if len(calls) == 1:
            raise StoreUnavailable("away for now.")
        return CycleReport(expired=0, realms_purged=0, catalogs_purged=0, rows_purged=0, failures=["one row"])

    monkeypatch.setattr(schedule, "run_cycle", cycle)
    running = Schedule(store, ScheduleOptions(every_seconds=0.01)).start()
    for _ in range(1_000):
        if running.last is not None:
            break
        running._stopping.wait(0.01)
    running.stop()
    assert len(calls) >= 2 and running.last is not None and not running._thread.is_alive()


def test_a_rule_that_is_none_is_refused_at_once(store: Store) -> None:
    with pytest.raises(InvalidInput):
        Schedule(store, ScheduleOptions(retention="sometimes"))
