"""A store and a broker enter; histories of every kind are written, topics are read to their end, and both are compared."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

import headwater
from headwater.embedded import CatalogHandle, Headwater
from headwater.persistence.log_entry import change_of
from headwater.persistence.pointer_log import PointerLog
from headwater.persistence.store import Store
from headwater.producer.publisher.options import PublisherOptions
from headwater.producer.publisher.publisher import Publisher
from headwater.schemas.change import Change
from headwater.schemas.kafka_records import decode_record
from headwater.schemas.topics import commits_topic
from tests.feed_validators import TopicRecord, check_feed, check_generations

LEASE_SECONDS = 1.5
WAIT_SECONDS = 60.0


def options(bootstrap: str, **changed: object) -> PublisherOptions:
    """Short waits, so that take-overs are quick."""
    quick: dict[str, object] = {
        "bootstrap": bootstrap,
        "lease_seconds": LEASE_SECONDS,
        "topic_check_seconds": 0.3,
        "realm_check_seconds": 0.3,
        "retry_seconds_max": 0.5,
        "alarm_retry_seconds": 0.5,
        "recovery_seconds": 3.0,
        "kafka_timeout_seconds": 10.0,
        "pin_write_seconds": 0.2,
        "readable_check_seconds": 1.0,
    }
    return PublisherOptions(**{**quick, **changed})  # type: ignore[arg-type]


@contextmanager
def publishing(store: Store, given: PublisherOptions) -> Iterator[Publisher]:
    publisher = Publisher(store, given)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.close()


# ── histories ───────────────────────────────────────────────────────────────────────────────────────────────


def put(table: str, version: int) -> headwater.Put:
    return headwater.Put(
        (table,), headwater.IcebergTable(f"s3://lake/{table}/{version}.json", snapshot_id=version, schema_id=0)
    )


def write_history(lake: CatalogHandle, writer: int, rounds: int) -> None:
    """Every kind of entry: commits, and per round a branch that is created, merged, assigned, deleted and made again."""
    main = lake.branch()
    for number in range(rounds):
        main.commit(
            [put(f"t{writer}", number)], author=f"writer-{writer}", message=f"round {number}", headers={"n": str(number)}
        )
        name = f"w{writer}"
        branch = lake.create_branch(name)
        branch.commit([put(f"b{writer}", number), put(f"c{writer}", number)])
        lake.merge(name)
        branch.commit([put(f"d{writer}", number)])
        branch.assign("main")
        branch.commit([headwater.Delete((f"b{writer}",))])
        lake.create_tag(f"v{writer}.{number}", name)
        picked = main.commit([put(f"e{writer}", number)])
        lake.transplant([picked.commit_id], name)
        branch.delete()


def write_at_once(lake: CatalogHandle, *, writers: int = 3, rounds: int = 4) -> None:
    faults: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            write_history(lake, writer, rounds)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def new_lake(engine: Headwater, realm: str = "default") -> CatalogHandle:
    return engine.ensure_realm(realm).ensure_catalog("lake")


def instance_of(engine: Headwater, realm: str = "default") -> str:
    return engine.realms.get(realm).instance


# ── comparison ──────────────────────────────────────────────────────────────────────────────────────────────


def log_of(store: Store, realm: str) -> dict[str, list[Change]]:
    kernel = store.kernel(realm)
    names = store.backend.list_names(realm, limit=10_000)
    rows = store.backend.read_pointers(realm, names)
    return {
        name: [change_of(logged, kernel.realm_name) for logged in PointerLog(kernel, name).forward()]
        for name in names
        if name in rows and rows[name].head
    }


def read_topic(bootstrap: str, topic: str, schema_by_id: Callable[[int], dict[str, object]] | None = None) -> list[TopicRecord]:
    """All that is committed, partition by partition, up to the end of now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "test-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: list[TopicRecord] = []
    try:
        partitions = list(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        at_end: set[int] = set()
        deadline = time.monotonic() + WAIT_SECONDS
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, f"{topic} could not be read to its end"
            for message in consumer.consume(1_000, 0.2):
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    at_end.add(message.partition())
                    continue
                record = decode_record(message.headers(), message.value(), schema_by_id)
                found.append(TopicRecord(message.partition(), message.offset(), message.key(), record))
    finally:
        consumer.close()
    return sorted(found, key=lambda one: (one.partition, one.offset))


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def is_caught_up(publisher: Publisher, store: Store, realm: str) -> bool:
    """This publisher alone has all shards, and they have all that the log holds."""
    seqs = {name: changes[-1].seq for name, changes in log_of(store, realm).items() if changes}
    return not publisher.failure and publisher.has_published(realm, seqs)


def publish_rest(store: Store, given: PublisherOptions) -> None:
    """A publisher of its own brings the topic to the head of now, and ends."""
    Publisher(store, given).publish_once(WAIT_SECONDS)


def assert_topic_equals_log(store: Store, bootstrap: str, realm: str, partitions: int | None = 4) -> list[TopicRecord]:
    found = read_topic(bootstrap, commits_topic(realm))
    log = log_of(store, realm)
    faults = check_feed(found, log, partitions=partitions)
    assert faults == [], f"{len(faults)} faults, the first: {faults[:10]}"
    assert check_generations(found) == []
    assert sum(len(changes) for changes in log.values()) > 0
    return found


# ── processes to be killed ──────────────────────────────────────────────────────────────────────────────────


def start_process(url: str, bootstrap: str, *arguments: str) -> subprocess.Popen[str]:
    """`tests.publisher_process`, which prints a line for each thing that happened to it."""
    command = [sys.executable, "-m", "tests.publisher_process", url, bootstrap, str(LEASE_SECONDS), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
