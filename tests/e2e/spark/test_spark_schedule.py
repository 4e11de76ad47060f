"""A cycle of maintenance sweeps by the streamed set where Spark can start, on Spark's workers where that is asked for, and ends
the session with the sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

import headwater
from headwater.persistence.store import open_store
from headwater.schemas.errors import InvalidInput, MissingDependency
from headwater.settings import Settings, load_settings
from headwater.streaming.reachability.retained_identifiers import Identifiers, Marks, WalkedRealm
from headwater.streaming.retained.folder_owner import claim_folder
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.schedule import CycleReport, run_cycle
from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
from headwater.streaming.sweep.executors import SweepWork
from headwater.wiring.maintenance import cycle_tools, schedule_options
from headwater.wiring.sweeps import scheduled_sweep_backend
from tests.support.fixtures.maintained import Maintained
from tests.support.servers.spark_session import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(tmp_path: Path) -> Maintained:
    """The realm of a store with a history of last winter."""
    with headwater.open(url_of(tmp_path), create=True) as engine:
        instance = engine.ensure_realm().kernel.realm
    store = open_store(url_of(tmp_path))
    realm = Maintained(store.backend, seed=5, realm=instance)
    realm.pointers = realm.pointers[:3]  # an initialized realm has principals of its own
    realm.clock.micros = store.clock.now_micros() - 60 * 86_400 * 1_000_000
    for _ in range(40):
        realm.step()
    return realm


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/lake.db"


def cycle_settings(folder: Path, **more: str) -> Settings:
    given = {**SMALL, "store": url_of(folder), "maintenance_dir": str(folder / "sets"), "retention": "*=3n"}
    return load_settings(given | more)


def cycle(settings: Settings) -> CycleReport:
    with open_store(settings.store) as store:
        return run_cycle(store, schedule_options(settings, 3_600), cycle_tools(store, settings))


def test_a_cycle_on_spark_sweeps_on_workers_and_releases_the_session(
    spark: SparkSession, tmp_path: Path, lake: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    sweeps: list[SparkExecutor] = []
    sweep = SparkExecutor.sweep

    def counted(self: SparkExecutor, work: SweepWork) -> None:
        sweeps.append(self)
        sweep(self, work)

    monkeypatch.setattr(type(spark), "stop", lambda _: stopped.append(True))  # all tests share it
    monkeypatch.setattr(SparkExecutor, "sweep", counted)
    settings = cycle_settings(tmp_path, maintain_on_spark="true", maintain_by_stream="never")
    report = cycle(settings)
    assert report.failures == [] and report.rows_purged > 20
    lake.check_states()
    assert len(sweeps) == len(stopped) == 1 and not (tmp_path / "sets").exists()


def test_a_cycle_sweeps_with_the_streamed_set_by_default(
    spark: SparkSession, tmp_path: Path, lake: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    report = cycle(cycle_settings(tmp_path))
    assert report.failures == [] and report.rows_purged > 20
    kept = RetainedStore(tmp_path / "sets", lake.realm).load()
    assert kept is not None and kept.number > 1, "seeded, and compacted by the sweep"
    lake.check_states()


class PlugIn:
    covers: frozenset[str] = frozenset()

    def identify(self, realm: WalkedRealm, marks: Marks) -> None: ...


@pytest.mark.parametrize("why", ["no Java", "a plug-in", "another store's folder"])
def test_a_cycle_walks_where_the_streamed_set_cannot_be_used(
    why: str, tmp_path: Path, lake: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = cycle_settings(tmp_path)
    identifiers = Identifiers([PlugIn()] if why == "a plug-in" else [])
    if why == "no Java":
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if why == "another store's folder":
        claim_folder(settings.maintenance_dir, "another", [])
        (tmp_path / "sets" / "other#1" / "step-000000001").mkdir(parents=True)
    with open_store(settings.store) as store:
        assert isinstance(scheduled_sweep_backend(settings, store, identifiers).source, WalkedSource)
    if why != "a plug-in":
        always = msgspec.structs.replace(settings, maintain_by_stream="always")
        with open_store(settings.store) as store, pytest.raises((MissingDependency, InvalidInput)):
            scheduled_sweep_backend(always, store, identifiers)
