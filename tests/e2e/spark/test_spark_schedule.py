"""A cycle of maintenance sweeps on Spark's workers where that is asked for, and ends the session with the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headwater
from headwater.persistence.store import open_store
from headwater.settings import load_settings
from headwater.streaming.schedule import run_cycle
from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
from headwater.streaming.sweep.executors import SweepWork
from headwater.wiring.maintenance import cycle_tools, schedule_options
from tests.support.fixtures.maintained import Maintained
from tests.support.servers.spark_session import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_cycle_on_spark_sweeps_on_workers_and_releases_the_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/lake.db"
    settings = load_settings({**SMALL, "store": url, "maintain_on_spark": "true", "retention": "*=3n"})
    stopped: list[bool] = []
    sweeps: list[SparkExecutor] = []
    sweep = SparkExecutor.sweep

    def counted(self: SparkExecutor, work: SweepWork) -> None:
        sweeps.append(self)
        sweep(self, work)

    monkeypatch.setattr(type(spark), "stop", lambda _: stopped.append(True))  # all tests share it
    monkeypatch.setattr(SparkExecutor, "sweep", counted)
    with headwater.open(url, create=True) as engine:
        instance = engine.ensure_realm().kernel.realm
    with open_store(url) as store:
        realm = Maintained(store.backend, seed=5, realm=instance)
        realm.pointers = realm.pointers[:3]  # an initialized realm has principals of its own
        realm.clock.micros = store.clock.now_micros() - 60 * 86_400 * 1_000_000
        for _ in range(40):
            realm.step()
        report = run_cycle(store, schedule_options(settings, 3_600), cycle_tools(store, settings))
        assert report.failures == [] and report.rows_purged > 20
        realm.check_states()
    assert len(sweeps) == len(stopped) == 1
