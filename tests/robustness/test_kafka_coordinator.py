"""A broker that names itself while its group coordinator has not loaded: no group works, so it is not ready, and is started
again if that lasts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from headwater.dev.server import Server
from headwater.dev.state import locked
from headwater.schemas.errors import ServerFailed
from headwater.settings import load_settings
from headwater.up.managed import ManagedServer
from headwater.up.supervisor import Supervisor
from headwater.up.up_lock import held_folder
from tests.support.servers.servers import local_server

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
TOPIC = "t"
COMMITS = 3
FROZEN_SECONDS = 4.0
FREEZES = 3
WAIT_SECONDS = 120.0


def test_a_broker_whose_offsets_do_not_load_is_not_ready() -> None:
    with local_server("kafka") as broker:
        commit_offsets(broker.url)
        assert broker.state == "running"
        broker.kill9()
        spoil(Path(broker.record.data_dir) / "__consumer_offsets-0" / f"{0:020}.log")
        with ThreadPoolExecutor(1) as pool, locked(broker.dev_dir) as lock:
            started = pool.submit(broker.start, lock)
            try:
                wait_until_it_has_failed_to_load(broker)
                assert AdminClient({"bootstrap.servers": broker.url}).list_topics(timeout=20).brokers, "it names itself"
                assert broker.state == "not answering" and not started.done()
            finally:
                broker.given_up.set()
            with pytest.raises(ServerFailed, match="nobody waits"):
                started.result(WAIT_SECONDS)


def test_a_broker_that_runs_but_answers_nobody_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.up.supervisor.FAILING_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("headwater.up.supervisor.KILLED_AFTER_SECONDS", 1_000.0)
    with held_folder(tmp_path) as lock:
        broker = ManagedServer("kafka", tmp_path, Path(load_settings().jar_cache_dir))
        supervisor = Supervisor([broker], lock)
        supervisor.start()
        try:
            wait_until(lambda: supervisor.is_ready, supervisor)
            commit_offsets(broker.address)
            assert broker.pid is not None
            os.kill(broker.pid, signal.SIGSTOP)
            wait_until(lambda: supervisor.statuses[0].state == "failing", supervisor)
            assert supervisor.statuses[0].restarts == 0
            monkeypatch.setattr("headwater.up.supervisor.KILLED_AFTER_SECONDS", 0.0)
            wait_until(lambda: supervisor.statuses[0].restarts == 1, supervisor)
            monkeypatch.setattr("headwater.up.supervisor.KILLED_AFTER_SECONDS", 1_000.0)
            wait_until(lambda: supervisor.is_ready, supervisor)
            assert "it was killed after" in supervisor.statuses[0].reason
            assert committed_offset(broker.address) == COMMITS
        finally:
            supervisor.stop()


@pytest.mark.skipif(not SOAK, reason="a busier machine than a soak's may stop a broker for longer")
def test_a_broker_that_is_frozen_for_seconds_keeps_its_partitions() -> None:
    """Else its group coordinator loads anew each time, and a load that meets another spoils it."""
    with local_server("kafka") as broker:
        commit_offsets(broker.url)
        before = leader_epoch(broker.url)
        for _ in range(FREEZES):
            os.kill(broker.pid, signal.SIGSTOP)
            time.sleep(FROZEN_SECONDS)
            os.kill(broker.pid, signal.SIGCONT)
            time.sleep(1)
            assert leader_epoch(broker.url) == before


def leader_epoch(bootstrap: str) -> int | None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (asked,) = admin.list_offsets({TopicPartition(TOPIC, 0): OffsetSpec.latest()}, request_timeout=20).values()
    return asked.result(30).leader_epoch


def commit_offsets(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (made,) = admin.create_topics([NewTopic(TOPIC, 1, 1)]).values()
    made.result(20)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    for offset in range(1, COMMITS + 1):
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    consumer.close()


def committed_offset(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)
    consumer.close()
    return found.offset


def wait_until(what: Callable[[], object], supervisor: Supervisor) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < deadline, supervisor.statuses
        time.sleep(0.1)


def spoil(log: Path) -> None:
    """Its records a second time: offsets go back, and a coordinator that loads them stops there."""
    records = log.read_bytes()
    assert records
    log.write_bytes(records + records)


def wait_until_it_has_failed_to_load(broker: Server) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while "must be greater than" not in broker.log_tail():
        assert time.monotonic() < deadline, broker.log_tail()
        time.sleep(0.1)
