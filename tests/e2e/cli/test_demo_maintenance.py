"""How the demo ends: a back-dated history is streamed, expired and swept; and its verdicts where a promise was broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.demo import maintenance_checks
from headwater.demo.backdated_history import BackdatedClock, write_backdated_history
from headwater.demo.maintenance import MaintenanceResult, run_maintenance
from headwater.persistence.store import open_store
from headwater.schemas.entry_ids import micros_of
from tests.support.faults.manual_clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 45


def kept(upkept: MaintenanceResult) -> bool:
    return all(check.kept for check in upkept.checks)


def test_history_is_streamed_through_spark_expired_and_swept(tmp_path: Path, spark: SparkSession) -> None:
    said: list[str] = []
    done = run_maintenance(tmp_path, said.append, days=DAYS)
    assert kept(done) and len(done.checks) == 4, done.checks
    assert done.streamed > 100 and done.without_spark == "" and any('format("headwater")' in text for text in said)
    assert done.expired > 30 and done.purged == sum(done.before.values()) - sum(done.after.values()) > 50
    spark.range(1).count()  # a session that others have made is left alone


@pytest.mark.parametrize("java", ["none", "not wanted"])
def test_without_java_one_sentence_says_so_and_the_rest_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    done = run_maintenance(tmp_path, said.append, days=DAYS, use_spark=java == "none")
    assert kept(done) and len(done.checks) == 3 and done.streamed == 0 and done.purged > 50
    told = [text for text in said if "Spark is left out" in text]
    assert len(told) == 1 and ("Java is not on this machine. Install Java 17" in told[0]) == (java == "none")


def test_the_past_is_written_where_it_belongs(tmp_path: Path) -> None:
    clock = BackdatedClock(10, ManualClock())
    before = clock.now_micros()
    clock.next_day()
    assert clock.now_micros() - before == 86_400_000_000
    past = write_backdated_history(tmp_path, days=DAYS)
    with open_store(past.url) as store:
        kernel = store.kernel(past.instance)
        row = store.backend.read_pointer(past.instance, "cat/1/heads/main")
        assert row is not None
        newest = kernel.walk.load(row.head)
        oldest = kernel.walk.at(newest, 1)
        days = (newest.entry.time - oldest.entry.time) / 86_400_000_000
        assert DAYS - 1 < days < DAYS + 1 and newest.entry.time <= store.clock.now_micros()
        assert len(past.abandoned) > 5 and micros_of("2026-01-01T00:00:00Z") < oldest.entry.time


# ── a broken promise is seen ────────────────────────────────────────────────────────────────────────────────


def test_a_changed_or_missing_state_breaks_the_promise() -> None:
    states = {("main", 1): {"a": 1}, ("main", 2): {"a": 2}}
    assert maintenance_checks.kept_states_are_whole(states, dict(states)).kept
    assert not maintenance_checks.kept_states_are_whole(states, {**states, ("main", 2): {"a": 1}}).kept
    assert not maintenance_checks.kept_states_are_whole(states, {("main", 1): {"a": 1}}).kept
    assert not maintenance_checks.kept_states_are_whole({}, {}).kept, "without a witness nothing is shown"


def test_garbage_that_is_left_and_counters_that_lie_break_the_promise() -> None:
    assert maintenance_checks.garbage_is_gone(0, 0, [1], [2]).kept
    for unreached, missing, abandoned, there in ((1, 0, [1], [2]), (0, 1, [1], [2]), (0, 0, [1], [1]), (0, 0, [], [])):
        assert not maintenance_checks.garbage_is_gone(unreached, missing, abandoned, there).kept
    assert maintenance_checks.counters_are_true(2, {"entry": 5}, {"entry": 3}).kept
    assert not maintenance_checks.counters_are_true(3, {"entry": 5}, {"entry": 3}).kept
    assert not maintenance_checks.counters_are_true(0, {"entry": 5}, {"entry": 5}).kept
    assert not maintenance_checks.stream_is_the_walk(3, 3, is_same=False).kept
