"""One query over the topics of many realms: each gets its share, large or small, and one that cannot be read stops no other."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import headwater
from headwater.embedded import Headwater
from headwater.producer.publisher.assignment.generations import read_generation
from headwater.schemas.kafka_records import RecordType
from headwater.settings import load_settings
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.sources.kafka_changes import KafkaOptions
from headwater.streaming.spark_jobs import topic_query
from headwater.streaming.spark_jobs.retained_job import HERE_CHANGES_MAX, RetainedJob
from headwater.streaming.spark_jobs.retained_rows import StreamedSource
from headwater.streaming.spark_jobs.topic_query import News, TopicQuery, TopicRealm
from headwater.streaming.stream.realm_updates import RealmUpdates
from headwater.streaming.sweep.verify import verify_realm
from headwater.wiring.kafka_client import kafka_client
from headwater.wiring.published_topics import topic_bounds
from tests.support.fixtures.publisher_runs import new_lake, options, publish_rest, put

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("a", "b", "c")


class Topics:
    """Three realms, and what the query hands to each of them."""

    def __init__(self, spark: SparkSession, folder: Path, bootstrap: str, engine: Headwater) -> None:
        self.spark, self.bootstrap, self.engine = spark, bootstrap, engine
        self.url = f"sqlite:///{folder}/lake.db"
        self.folder = str(folder / "sets")
        self.client = kafka_client(load_settings({"kafka_bootstrap": bootstrap}))
        self.updates = RealmUpdates(
            engine.store, self._job, changes_per_batch=1_000, on_repaired=lambda instance: self.query.settle(instance)
        )
        self.handed: dict[str, list[str]] = {}
        self.query = self.new_query()

    def _job(self, instance: str) -> RetainedJob:
        sets = RetainedStore(self.folder, instance)
        return RetainedJob(self.spark, self.engine.store, self.url, sets, here_max=HERE_CHANGES_MAX)

    def new_query(self) -> TopicQuery:
        return TopicQuery(self.spark, self.folder, lambda topics: topic_bounds(self.client, topics), self, every_seconds=0.1)

    def add(self, instance: str, news: News) -> bool:
        what = "frame" if news.frame is not None else str(len(news.changes or []))
        self.handed.setdefault(instance.partition("#")[0], []).append(what)
        return self.updates.add(instance, news)

    def lose(self, instance: str, why: str) -> None:
        self.handed.setdefault(instance.partition("#")[0], []).append("lost")
        self.updates.lose(instance, why)

    def instance(self, name: str) -> str:
        return self.engine.realms.get(name).instance

    def topics(self, name: str) -> tuple[str, ...]:
        generation = read_generation(self.engine.store.backend, self.instance(name))
        assert generation is not None
        return tuple(topic.name for topic in generation.topics.of_changes)

    def commit(self, *counts: int) -> None:
        """So many to each realm, and published."""
        for name, count in zip(NAMES, counts, strict=False):
            branch = new_lake(self.engine, name).branch()
            for number in range(count):
                branch.commit([put(f"t{number}", number)])
        publish_rest(self.engine.store, options(self.bootstrap))

    def read(self, *, query: TopicQuery | None = None) -> dict[str, list[str]]:
        self.handed = {}
        (query or self.query).read_once(self.realms())
        return self.handed

    def realms(self) -> dict[str, TopicRealm]:
        return {
            self.instance(name): TopicRealm(
                KafkaOptions(bootstrap=self.bootstrap, realm_instance=self.instance(name), store=self.url, finds_gaps=True),
                self.topics(name),
            )
            for name in NAMES
        }

    def turn(self) -> dict[str, tuple[str, int]]:
        found = {name: self.updates.from_topics(self.instance(name)) for name in NAMES}
        return {name: (one.source, one.behind) for name, one in found.items()}

    def check(self) -> None:
        source = StreamedSource(self.spark, self.folder)
        for name in NAMES:
            store = self.engine.store
            report = verify_realm(store.backend, self.instance(name), store.clock, Identifiers(), source)
            assert report.holds and report.streamed == report.walked


def test_one_query_feeds_many_realms_and_one_that_cannot_be_read_stops_no_other(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        topics = Topics(spark, tmp_path, kafka_bootstrap, engine)
        topics.commit(3, 3, 3)
        assert topics.read() == {name: ["lost"] for name in NAMES}, "without a bookmark the log comes first"
        assert topics.turn() == dict.fromkeys(NAMES, ("log", 0))
        topics.commit(2, 0, 4)
        assert topics.read(query=topics.new_query()) == {"a": ["2"], "c": ["4"]}, "a new process continues at the bookmarks"
        assert topics.turn() == dict.fromkeys(NAMES, ("kafka", 0))

        # One whose record cannot be read.
        producer = Producer({"bootstrap.servers": kafka_bootstrap})
        headers = {"ce_type": RecordType.CHANGE, "ce_generation": "1"}
        producer.produce(topics.topics("b")[0], b"no Change", key=b"cat/1/heads/main", headers=headers)
        assert producer.flush(30) == 0
        topics.commit(2, 2, 2)
        handed = topics.read()
        assert handed == {"a": ["2"], "b": ["lost"], "c": ["2"]}
        assert topics.turn() == {"a": ("kafka", 0), "b": ("log", 0), "c": ("kafka", 0)}

        # Many at once are decoded and written by executors.
        monkeypatch.setattr(topic_query, "HERE_RECORDS_MAX", 3)
        topics.commit(5, 0, 1)
        assert topics.read() == {"c": ["1"], "a": ["frame"]}
        assert topics.turn()["a"] == ("kafka", 0)
        topics.check()


def test_realms_continue_from_their_logs_while_spark_loads_what_its_first_batch_needs(
    spark: SparkSession, kafka_bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = threading.Event(), threading.Event()

    def read_for_nothing(*_: object) -> None:
        loading.set()
        loaded.wait(300)

    monkeypatch.setattr(topic_query, "_read_for_nothing", read_for_nothing)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        topics = Topics(spark, tmp_path, kafka_bootstrap, engine)

        def round_with_news() -> None:
            topics.commit(1, 1, 1)
            topics.query.follow(topics.realms())

        try:
            for _ in range(2):
                round_with_news()
                assert topics.turn() == dict.fromkeys(NAMES, ("log", 0))
            assert loading.wait(300), "Spark has loaded nothing"
            round_with_news()
            assert topics.turn() == dict.fromkeys(NAMES, ("log", 0))
            assert topics.handed == {name: ["lost"] * 3 for name in NAMES}
            loaded.set()
            deadline = time.monotonic() + 300
            while not any(what.isdigit() for what in topics.handed["a"]):
                assert time.monotonic() < deadline, topics.handed
                round_with_news()
                topics.turn()
        finally:
            loaded.set()
            topics.query.stop()
        topics.read()
        topics.turn()
        topics.check()
