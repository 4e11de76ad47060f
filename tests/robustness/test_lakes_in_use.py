"""Realms in use are maintained while writers continue, on every database and by every way to know what must stay: afterwards
each row that a kept state needs is there byte by byte, everything else that is old enough is gone, and the counters agree."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from headwater.persistence.commit import draft
from headwater.persistence.store import open_store
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.retained.catch_up_source import CatchUpSource
from headwater.streaming.retained.retained_sources import RetainedSource
from headwater.streaming.runs.run_counts import CountsByRealm
from headwater.streaming.sweep.executors import SweepExecutor
from tests.support.fixtures.lakes_in_use import LakesInUse, Writers, changed
from tests.support.fixtures.maintained import HOUR, sweep_store
from tests.support.fixtures.publisher_runs import options, publishing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
KEEP = "*=6n"


class Combination(NamedTuple):
    database: str
    source: str
    executor: str
    filter: str

    @property
    def needs_spark(self) -> bool:
        return self.source != "walk" or self.executor == "spark"


SHORT = [
    Combination("sqlite", "walk", "local", "exact"),
    Combination("postgresql", "kafka", "local", "bloom"),
    Combination("cassandra", "walk", "local", "exact"),
]
ALL = [
    Combination(*chosen)
    for chosen in itertools.product(
        ("sqlite", "postgresql", "cassandra"), ("walk", "log", "kafka"), ("local", "spark"), ("exact", "bloom")
    )
]


class Means(NamedTuple):
    source: RetainedSource | None
    executor: SweepExecutor | None


def database_url(request: pytest.FixtureRequest, database: str, folder: Path) -> str:
    if database == "sqlite":
        return f"sqlite:///{folder}/lake.db"
    fresh = request.getfixturevalue({"postgresql": "fresh_postgres", "cassandra": "fresh_cassandra"}[database])
    return str(fresh())


def means(lakes: LakesInUse, combination: Combination, spark: SparkSession | None, folder: Path, bootstrap: str) -> Means:
    if spark is None:
        return Means(None, None)
    from headwater.streaming.retained.retained_store import RetainedStore
    from headwater.streaming.sources.kafka_changes import KafkaOptions
    from headwater.streaming.spark_jobs.retained_job import RetainedJob
    from headwater.streaming.spark_jobs.retained_rows import StreamedSource
    from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
    from headwater.streaming.spark_jobs.spark_walk import SparkWalkedSource

    def caught_up(instance: str) -> None:
        job = RetainedJob(spark, lakes.store, lakes.url, RetainedStore(folder, instance))
        if combination.source == "kafka":
            job.run_kafka(KafkaOptions(bootstrap=bootstrap, realm_instance=instance, store=lakes.url))
        else:
            job.run()

    on_spark = SparkExecutor(spark, lakes.url, lakes.store.backend) if combination.executor == "spark" else None
    if combination.source == "walk":
        return Means(SparkWalkedSource(spark, lakes.url), on_spark)
    return Means(CatchUpSource(StreamedSource(spark, str(folder)), caught_up), on_spark)


@pytest.fixture
def small_objects(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that short histories have index levels, and large commits operations apart and in parts."""
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    monkeypatch.setattr(draft, "OPERATIONS_BYTES_MAX", 700)
    monkeypatch.setattr("headwater.persistence.objects.codec.ROW_BYTES_MAX", 2_000)
    yield


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("small_objects")
@pytest.mark.spark
@pytest.mark.parametrize("combination", ALL if SOAK else SHORT, ids="-".join)
def test_realms_in_use_keep_exactly_what_policy_keeps(
    combination: Combination, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = database_url(request, combination.database, tmp_path)
    bootstrap = request.getfixturevalue("kafka_bootstrap") if combination.source == "kafka" else ""
    spark = request.getfixturevalue("spark") if combination.needs_spark else None
    lakes = LakesInUse(url, seed=len(combination.database), realms=1 if bootstrap and not SOAK else 2)
    with ExitStack() as ending:
        ending.callback(lakes.close)
        lakes.grow(40)
        if bootstrap:
            ending.enter_context(publishing(ending.enter_context(open_store(url)), options(bootstrap)))
        chosen = means(lakes, combination, spark, tmp_path / "retained", bootstrap)
        maintain_among_writers(lakes, combination, chosen)
        maintain_at_rest(lakes, combination, chosen)


def sweep(lakes: LakesInUse, combination: Combination, chosen: Means, **given: Any) -> CountsByRealm:
    report, _ = sweep_store(
        lakes.store,
        lakes.instances,
        source=chosen.source,
        executor=chosen.executor,
        filter=combination.filter,
        splits=3,
        **given,
    )
    assert report.failures == [] and report.swept == lakes.instances
    return report.counts


def maintain_among_writers(lakes: LakesInUse, combination: Combination, chosen: Means) -> None:
    with Writers(lakes) as writers:
        lakes.clock.move(4 * HOUR)  # what was grown is older than the grace, what is written now is not
        raise_floors(lakes)
        counts = sweep(lakes, combination, chosen)
        wrote = [sum(history.done.values()) for history in writers.histories]
    assert writers.failures == []
    assert all(count > 0 for count in wrote), "the writers had stopped before the sweep ended"
    for instance in lakes.instances:
        assert sum(of_type.purged for of_type in counts[instance].values()) > 20
        assert lakes.kept(instance).keys() <= lakes.ids(instance), "a state that is kept misses an object"


def raise_floors(lakes: LakesInUse) -> None:
    """What Kafka has not got yet is held, so it may take some time."""
    expired, deadline = 0, time.monotonic() + 120
    while expired <= 20:
        assert time.monotonic() < deadline, "the publisher does not come along"
        expired += lakes.expire(KEEP)


def maintain_at_rest(lakes: LakesInUse, combination: Combination, chosen: Means) -> None:
    lakes.expire(KEEP)
    lakes.clock.move(4 * HOUR)
    kept = {instance: lakes.kept(instance) for instance in lakes.instances}
    before = {instance: lakes.types(instance) for instance in lakes.instances}
    counts = sweep(lakes, combination, chosen)
    for instance in lakes.instances:
        assert lakes.kept(instance) == kept[instance], "not byte by byte what it was"
        assert lakes.ids(instance) == kept[instance].keys()
        for name, count, left in changed(before[instance], lakes.types(instance)):
            told = counts[instance][name]
            assert (told.scanned, told.retained, told.purged) == (count, left, count - left), f"{instance} {name}: {told}"
            assert told.newer == told.failed == 0


class Behind:
    """A set that never reaches the heads."""

    def __init__(self, inner: RetainedSource) -> None:
        self._inner = inner
        self.asked = 0

    def retained(self, fenced: FencedRealm) -> Any:
        import msgspec

        self.asked += 1
        found = self._inner.retained(fenced)
        behind = {pointer: at._replace(seq=at.seq - 1) for pointer, at in found.positions.items()}
        return msgspec.structs.replace(found, positions=behind)


def test_a_set_that_does_not_catch_up_in_time_deletes_nothing(tmp_path: Path) -> None:
    from headwater.streaming.reachability.retained_identifiers import Identifiers
    from headwater.streaming.retained.retained_sources import WalkedSource

    lakes = LakesInUse(f"sqlite:///{tmp_path}/lake.db", seed=1, realms=1)
    lakes.grow(40)
    lakes.expire(KEEP)
    lakes.clock.move(4 * HOUR)
    before = lakes.ids(lakes.instances[0])
    behind = Behind(WalkedSource(lakes.store.backend, Identifiers()))
    caught: list[str] = []
    source = CatchUpSource(behind, caught.append, tries_max=3, sleep=lambda _: None)
    report, _ = sweep_store(lakes.store, lakes.instances, source=source)
    assert behind.asked == len(caught) == 3 and "must stay" in report.failures[0]
    assert lakes.ids(lakes.instances[0]) == before
    lakes.close()
