"""Publishers are killed, stopped and raced at named points; afterwards the topic equals the log, and each fault did fire."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater
from headwater.embedded import Headwater
from headwater.producer.publisher.shards.fault_points import FaultPoint
from tests.support.fixtures.publisher_runs import (
    LEASE_SECONDS,
    assert_topic_equals_log,
    instance_of,
    is_caught_up,
    new_lake,
    options,
    publish_rest,
    publishing,
    start_process,
    wait_until,
    write_history,
)

KILL_POINTS = [FaultPoint.BEFORE_SEND, FaultPoint.AFTER_SEND, FaultPoint.BEFORE_COMMIT, FaultPoint.AFTER_COMMIT]


class Watched:
    """A publisher process, and the lines that it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    @property
    def owns(self) -> int:
        told = [line for line in self.lines if line.startswith("owns ")]
        return int(told[-1].split()[1]) if told else 0

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.lines, f"the process says {line!r}, not just {self.lines}")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def process(url: str, bootstrap: str, *arguments: str) -> Iterator[Watched]:
    watched = Watched(start_process(url, bootstrap, *arguments))
    try:
        yield watched
    finally:
        watched.end()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def engine(url: str) -> Iterator[Headwater]:
    with headwater.open(url, create=True) as opened:
        yield opened


def test_a_kill_at_each_named_point_neither_loses_nor_duplicates_a_record(
    engine: Headwater, url: str, kafka_bootstrap: str
) -> None:
    lake = new_lake(engine)
    realm = instance_of(engine)
    for writer, point in enumerate(KILL_POINTS):
        write_history(lake, writer, 1)
        with process(url, kafka_bootstrap, "kill", point, "2") as victim:
            victim.wait_for(point)
            assert victim.process.wait(10) == -signal.SIGKILL, "the fault did not fire"
    publish_rest(engine.store, options(kafka_bootstrap))
    assert_topic_equals_log(engine.store, kafka_bootstrap, realm)


def test_a_publisher_that_slept_past_its_lease_cannot_commit_what_it_had_sent(
    engine: Headwater, url: str, kafka_bootstrap: str
) -> None:
    """⚠ It stops behind its last look at the lease, with a transaction open: only the fence can keep it out."""
    lake = new_lake(engine)
    realm = instance_of(engine)
    write_history(lake, 0, 1)
    with process(url, kafka_bootstrap, "stop", FaultPoint.BEFORE_COMMIT, "2") as zombie:
        zombie.wait_for(FaultPoint.BEFORE_COMMIT)
        with publishing(engine.store, options(kafka_bootstrap)) as successor:
            wait_until(lambda: is_caught_up(successor, engine.store, realm), "the successor has taken over")
            zombie.process.send_signal(signal.SIGCONT)
            write_history(lake, 1, 2)
            wait_until(lambda: zombie.owns < 4 and len(zombie.lines) > 2, "the zombie has lost shards")
        zombie.process.send_signal(signal.SIGTERM)
        zombie.process.wait(20)
    publish_rest(engine.store, options(kafka_bootstrap))
    assert_topic_equals_log(engine.store, kafka_bootstrap, realm)


def test_two_publishers_share_the_shards_and_each_takes_over_from_the_other(
    engine: Headwater, url: str, kafka_bootstrap: str
) -> None:
    lake = new_lake(engine)
    realm = instance_of(engine)
    with process(url, kafka_bootstrap) as first:
        wait_until(lambda: first.owns == 4, "the first has all shards")
        with process(url, kafka_bootstrap) as second:
            write_history(lake, 0, 2)
            wait_until(lambda: first.owns == 2 and second.owns == 2, "both have two shards")
            write_history(lake, 1, 2)
            first.process.kill()
            write_history(lake, 2, 2)
            wait_until(lambda: second.owns == 4, "the second has all shards")
            with process(url, kafka_bootstrap) as third:
                wait_until(lambda: second.owns == 2 and third.owns == 2, "the third has its share")
                write_history(lake, 3, 2)
                second.process.send_signal(signal.SIGTERM)
                assert second.process.wait(20) == 0
                wait_until(lambda: third.owns == 4, "the third has all shards")
                third.process.send_signal(signal.SIGTERM)
                assert third.process.wait(20) == 0
    publish_rest(engine.store, options(kafka_bootstrap))
    assert_topic_equals_log(engine.store, kafka_bootstrap, realm)


def test_publishers_start_and_die_while_the_store_is_written(engine: Headwater, url: str, kafka_bootstrap: str) -> None:
    """Kills at random moments, as often as time allows."""
    rounds = 40 if os.environ.get("HEADWATER_SOAK") else 3
    lake = new_lake(engine)
    realm = instance_of(engine)
    ended = threading.Event()

    def write() -> None:
        writer = 0
        while not ended.is_set():
            write_history(lake, writer, 1)
            writer += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(rounds):
            with process(url, kafka_bootstrap) as victim:
                wait_until(lambda victim=victim: victim.owns > 0, "it owns a shard")  # type: ignore[misc]
                ended.wait(LEASE_SECONDS * (0.3 + 0.2 * (number % 5)))
                victim.process.kill()
                assert victim.process.wait() == -signal.SIGKILL
    finally:
        ended.set()
        writing.join()
    publish_rest(engine.store, options(kafka_bootstrap))
    assert_topic_equals_log(engine.store, kafka_bootstrap, realm)
