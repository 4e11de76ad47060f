"""`headwater publish` as its users meet it: on real Kafka, good input and bad."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AdminClient

import headwater as library
from headwater.persistence.store import open_store
from headwater.producer.publisher.publisher import Publisher
from headwater.schemas.errors import InvalidInput, KafkaUnavailable
from headwater.schemas.topics import access_topic, commits_topic, tables_topic
from headwater.settings import load_settings
from headwater.wiring.publishing import publisher_options
from tests.support.fixtures.cli_runs import headwater
from tests.support.fixtures.publisher_runs import (
    assert_topic_equals_log,
    instance_of,
    new_lake,
    options,
    put,
    read_topic,
    wait_until,
    write_history,
)
from tests.support.servers.served import served


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/lake.db"
    with library.open(url, create=True) as engine:
        write_history(new_lake(engine), 0, 1)
    return url


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "headwater", "--store", url, "--set", "kafka_lease_seconds=2", "publish", *arguments]


def test_publishing_once_ends_when_all_is_in_kafka(url: str, kafka_bootstrap: str) -> None:
    done = subprocess.run(
        command(url, "--kafka", kafka_bootstrap, "--once", "--tables", "--json"),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shards = json.loads(done.stdout)
    with library.open(url) as engine:
        found = assert_topic_equals_log(engine.store, kafka_bootstrap, instance_of(engine))
        assert tables_topic(instance_of(engine)) in AdminClient({"bootstrap.servers": kafka_bootstrap}).list_topics().topics
        assert sum(shard["changes"] for shard in shards) == sum(one.record.change is not None for one in found)
    status = headwater("--store", url, "publish", "--status", "--json").json
    assert [generation["number"] for generation in status["generations"]] == [1]
    assert status["alarms"] == [] and status["publishers"] == []
    assert headwater("--store", url, "publish", "--status").code == 0
    again = headwater("--store", url, "publish", "--restart", "default")
    assert again.code == 0 and "generation 1 ends" in again.out


def test_the_lag_is_shown_when_no_publisher_lives(url: str, kafka_bootstrap: str) -> None:
    assert headwater("--store", url, "publish", "--status", "--json").json["lag"] == []
    assert "nothing of this store was ever published" in headwater("--store", url, "publish", "--status").succeeded().out
    in_json = ("--store", url, "--set", "kafka_value_format=json", "--set", "kafka_access_topic=true")
    assert headwater(*in_json, "publish", "--kafka", kafka_bootstrap, "--once").code == 0
    behind = ("--store", url, "publish", "--status", "--json")
    assert all(shard["commits"] == 0 for shard in headwater(*behind).json["lag"])
    with library.open(url) as engine:
        instance = instance_of(engine)
        shown = headwater("subscribe", "--kafka", kafka_bootstrap, "--realm", "default", "--access", "--json")
        assert shown.code == 0, shown.error
        of_branch = ("--store", url, "subscribe", "--kafka", kafka_bootstrap, "--branch", "main")
        lines = [json.loads(line) for line in headwater(*of_branch, "--json").succeeded().out.splitlines()]
        assert {line["pointer"] for line in lines} == {new_lake(engine).branch().pointer}, "no other pointer is printed"
        everything = headwater("subscribe", "--kafka", kafka_bootstrap).succeeded().out
        assert any(line.startswith("catalogs ") for line in everything.splitlines()), "each line names its pointer"
        for topic in (commits_topic(instance), access_topic(instance)):
            assert any(one.record.change is not None for one in read_topic(kafka_bootstrap, topic))
        for number in range(3):
            head = new_lake(engine).branch().commit([put("late", number)]).seq
        pointer = new_lake(engine).branch().pointer
    for brokers in ((), ("--kafka", kafka_bootstrap)):
        shards = headwater(*behind, *brokers).json["lag"]
        (late,) = [one for shard in shards for one in shard["behind"]]
        assert (late["pointer"], late["commits"], late["head"], late["published"]) == (pointer, 3, head, head - 3)
        assert late["seconds"] > 0 and sum(shard["commits"] for shard in shards) == 3
    shown = headwater("--store", url, "publish", "--status")
    assert pointer in shown.out and access_topic(instance) in shown.out
    with served(url) as server:
        metrics = httpx.get(f"{server.url}/metrics", timeout=30).text
    assert 'headwater_kafka_lag_commits{realm="default"} 3.0' in metrics and "headwater_kafka_publishers 0.0" in metrics


def test_several_processes_publish_until_they_are_stopped(url: str, kafka_bootstrap: str) -> None:
    with library.open(url) as engine:
        running = subprocess.Popen(
            command(url, "--kafka", kafka_bootstrap, "--processes", "2", "--tables"), stderr=subprocess.DEVNULL
        )
        try:
            members = Publisher(engine.store, options(kafka_bootstrap)).leases.members
            wait_until(lambda: len(members()) == 2, "two publishers share the work")
            new_lake(engine).branch().commit([put("late", 1)])
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        assert members() == []
        Publisher(engine.store, options(kafka_bootstrap)).publish_once(60)
        assert_topic_equals_log(engine.store, kafka_bootstrap, instance_of(engine))


def test_bad_input_is_one_line(url: str) -> None:
    assert "no brokers are named" in headwater("--store", url, "publish", "--once").error
    assert "REALM_NOT_FOUND" in headwater("--store", url, "publish", "--kafka", "127.0.0.1:1", "--realm", "nobody").error
    assert "never published" in headwater("--store", url, "publish", "--restart", "default").error
    for bad in ("acks=0", "novalue", "transactional.id=mine"):
        refused = headwater("--store", url, "--set", f"kafka_client={bad}", "publish", "--kafka", "127.0.0.1:1", "--once")
        assert "kafka_client" in refused.error
    both = ("--set", "kafka_value_format=json", "--set", "kafka_registry_url=http://127.0.0.1:1")
    assert "kafka_value_format" in headwater("--store", url, *both, "publish", "--kafka", "127.0.0.1:1", "--once").error
    assert "--restart" in headwater("--store", url, "publish", "--access-topic").error
    assert "kafka_shards" in headwater("--store", url, "--set", "kafka_shards=0", "publish", "--once").error


def test_brokers_that_do_not_answer_end_publishing_once_with_an_error(url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # never listens
        bootstrap = f"127.0.0.1:{taken.getsockname()[1]}"
        with open_store(url) as store, pytest.raises(KafkaUnavailable):
            Publisher(store, options(bootstrap, kafka_timeout_seconds=0.5)).publish_once(60)
        # One line, and none of a round that did not get through: the brokers are asked before anything waits for them.
        refused = headwater("--store", url, "publish", "--kafka", bootstrap, "--once")
        assert f"no broker answers at {bootstrap!r}" in refused.error


def test_publishing_needs_brokers() -> None:
    with pytest.raises(InvalidInput):
        publisher_options(load_settings({}))
