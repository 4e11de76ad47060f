"""Measures publishing to Kafka: Changes per second while catching up, and the delay to a consumer at a steady pace."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer

import headwater
from bench.context import Context
from bench.measures import Measure
from headwater.dev.server import running
from headwater.embedded import CatalogHandle, Headwater
from headwater.producer.publisher.options import PublisherOptions
from headwater.producer.publisher.publisher import Publisher
from headwater.producer.publisher.shards.fault_points import FaultPoint
from headwater.schemas.topics import commits_topic

TITLE = "Publishing to Kafka: one put each, SQLite, one broker on the same machine"
CHANGES = 40_000
BRANCHES = 8
COMMITS_PER_SECOND = 200


def run(context: Context) -> Iterator[Measure]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        url = f"sqlite:///{folder}/lake.db"
        with context.console.status("starting Kafka …"), running("kafka", Path(folder) / "kafka") as broker:
            with headwater.open(url, create=True) as engine, context.console.status("writing a log …"):
                _fill(engine)
            with context.console.status("publishing …"):
                yield Measure("publish", "1 process", "catching up", _catch_up(url, broker.url), "Changes/s")
            with headwater.open(url) as engine, context.console.status("committing and consuming …"):
                waits = _latencies(engine, url, broker.url, max(5.0, context.seconds))
            yield Measure("publish", "1 process", "commit to consumer at 200/s, median", statistics.median(waits) * 1_000, "ms")
            yield Measure(
                "publish", "1 process", "commit to consumer at 200/s, 99 %", sorted(waits)[len(waits) * 99 // 100] * 1_000, "ms"
            )


def _fill(engine: Headwater) -> None:
    lake = engine.ensure_realm("bench").create_catalog("lake")
    branches = [lake.create_branch(f"b{number}") for number in range(BRANCHES)]

    def write(number: int) -> None:
        for version in range(CHANGES // BRANCHES):
            branches[number].commit([_put(version % 500, version)])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(BRANCHES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _put(table: int, version: int) -> headwater.Put:
    location = f"s3://lake/db/table_{table:05d}/metadata/{version:08d}.metadata.json"
    return headwater.Put((f"table_{table:05d}",), headwater.IcebergTable(location, snapshot_id=version, schema_id=0))


def _catch_up(url: str, bootstrap: str) -> float:
    """From the first record to the last commit, over all shards; a cold cache, as a publisher has that comes back."""
    begun: list[float] = []
    committed: list[float] = []

    def at(point: FaultPoint) -> None:
        if point is FaultPoint.BEFORE_SEND:
            begun.append(time.perf_counter())
        elif point is FaultPoint.AFTER_COMMIT:
            committed.append(time.perf_counter())

    with headwater.open(url) as engine:
        shards = Publisher(engine.store, PublisherOptions(bootstrap=bootstrap), at=at).publish_once(300)
    return sum(shard.changes for shard in shards) / (committed[-1] - begun[0])


def _latencies(engine: Headwater, url: str, bootstrap: str, seconds: float) -> list[float]:
    """The publisher is a process of its own and learns of commits by asking the store."""
    lake = engine.realm("bench").catalog("lake")
    command = [sys.executable, "-m", "headwater", "--store", url, "publish", "--kafka", bootstrap]
    publisher = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        sent: dict[str, float] = {}
        waits: list[float] = []
        done = threading.Event()
        reader = threading.Thread(target=_consume, args=(bootstrap, lake.realm.kernel.realm, sent, waits, done))
        reader.start()
        _commit_until_seen(lake, sent, waits)
        waits.clear()
        started = time.perf_counter()
        for number in range(int(seconds * COMMITS_PER_SECOND)):
            time.sleep(max(0.0, started + number / COMMITS_PER_SECOND - time.perf_counter()))
            _commit(lake, number, sent)
        time.sleep(1.0)
        done.set()
        reader.join()
        return waits
    finally:
        publisher.terminate()
        publisher.wait()


def _commit(lake: CatalogHandle, number: int, sent: dict[str, float]) -> None:
    result = lake.branch(f"b{number % BRANCHES}").commit([_put(number % 500, number)])
    sent[result.commit_id] = time.perf_counter()


def _commit_until_seen(lake: CatalogHandle, sent: dict[str, float], waits: list[float]) -> None:
    deadline = time.perf_counter() + 60
    number = 0
    while len(waits) < 20 and time.perf_counter() < deadline:
        _commit(lake, number, sent)
        number += 1
        time.sleep(0.05)


def _consume(bootstrap: str, realm: str, sent: dict[str, float], waits: list[float], done: threading.Event) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.subscribe([commits_topic(realm)])
    while not done.is_set():
        for message in consumer.consume(500, 0.01):
            commit = dict(message.headers() or ()).get("ce_id", b"").decode()
            if commit in sent:
                waits.append(time.perf_counter() - sent.pop(commit))
    consumer.close()
