"""`headwater stream` as its users run it: realms that come and fail, kill -9, what is purged, and how it ends."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

import headwater as library
from headwater.persistence.store import open_store
from headwater.producer.publisher.assignment.generations import read_generation
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.publisher_runs import instance_of, options, publish_rest, publishing, put
from tests.support.fixtures.restorable_stores import MovedSqliteStore
from tests.support.fixtures.streamed_lakes import StreamedLake
from tests.support.processes.stream_process import streaming

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYSTEM = "::system::"
OFTEN = ("--kafka", "--every", "0.5", "--expire-every", "0.001", "--sweep-every", "0.001", "--purge-every", "0.001")


@pytest.fixture
def lake(tmp_path: Path, kafka_bootstrap: str) -> Iterator[StreamedLake]:
    lake = StreamedLake(tmp_path, kafka_bootstrap)
    yield lake
    lake.close()


@pytest.mark.timeout(900)
def test_all_realms_are_kept_current_swept_and_resumed_after_kill_9(lake: StreamedLake, spark: SparkSession) -> None:
    del spark  # what is checked at the end needs a session in this process
    given = options(lake.settings["kafka_bootstrap"])
    with publishing(lake.engine.store, given), streaming(*OFTEN, settings=lake.settings) as stream:
        stream.wait_for(lambda: stream.get("/readyz").status_code == 200, "it is ready")
        stream.wait_for(lambda: lake.is_known(stream, "default", "kafka"), "Kafka is read")
        stream.wait_for(lambda: lake.is_known(stream, SYSTEM, "log"), "the system's realm is maintained")
        lake.commit(2, "new")  # a realm that is made while it runs
        stream.wait_for(lambda: lake.is_known(stream, "new", "kafka"), "a new realm is picked up")
        step = stream.realms()["default"]["step"]
        lake.commit(5)
        stream.wait_for(lambda: lake.is_known(stream, "default", "kafka", step), "new commits arrive")
        stream.wait_for(lambda: lake.purged() > 20, "what last winter left is purged")
        lake.commit(5)
        stream.process.kill()
        stream.process.wait()
    lake.supersede_the_killed_run()
    broken = Path(lake.settings["maintenance_dir"]) / lake.engine.ensure_realm("broken").kernel.realm
    broken.write_text("a file is in its way")
    with publishing(lake.engine.store, given), streaming(*OFTEN, settings=lake.settings) as stream:
        stream.wait_for(lambda: lake.is_known(stream, "default", "kafka", step), "it continues after kill -9")
        lake.commit(5)
        stream.wait_for(lambda: lake.is_known(stream, "default", "kafka", step + 1), "it continues beside a realm that fails")
        stream.wait_for(lambda: stream.realms()["broken"]["failure"], "the failure is shown")
        metrics = stream.get("/metrics").text
        assert 'headwater_stream_realm_failing{realm="broken"} 1' in metrics
        assert 'headwater_stream_lag_commits{realm="default"} 0' in metrics
        stream.wait_for(lambda: lake.has_swept(stream), "sweeps run again once the lease of the killed run has ended")
        stream.process.send_signal(signal.SIGTERM)
        assert stream.process.wait(120) == 0, stream.log()
    lake.old.check_states()
    broken.unlink()
    verified = lake.run("maintain", "check", "--stream", "--realm", "default", "--realm", "new", "--realm", "old")
    assert verified.code == 0, verified.err


@pytest.mark.timeout(1_200)
def test_sets_survive_more_partitions_lost_topics_a_restore_and_a_realm_made_again(
    lake: StreamedLake, spark: SparkSession, tmp_path: Path
) -> None:
    """Under one running stream with its sweeps. In the end the sets are what a walk finds, and nothing was wrongly purged."""
    del spark
    backups = MovedSqliteStore(tmp_path)
    admin = AdminClient({"bootstrap.servers": lake.settings["kafka_bootstrap"]})
    given = options(lake.settings["kafka_bootstrap"])
    with publishing(lake.engine.store, given), streaming(*OFTEN, settings=lake.settings) as stream:
        stream.wait_for(lambda: lake.set_has_head(), "the first commits")
        stream.wait_for(lambda: lake.is_known(stream, "default", "kafka"), "Kafka is read")

        was = lake.generation()
        more = NewPartitions(was.topics.commits.name, was.topics.commits.partitions + 3)
        (grown,) = admin.create_partitions([more]).values()
        grown.result(60)
        stream.wait_for(lambda: lake.generation().number > was.number, "a generation with more partitions")
        for number in range(5):
            lake.lake.create_branch(f"b{number}").commit([put(f"of{number}", 1)])
        lake.commit(3)
        stream.wait_for(lambda: lake.set_has_head() and lake.is_known(stream, "default", "kafka"), "more partitions")

        was = lake.generation()
        for future in admin.delete_topics([was.topics.commits.name], operation_timeout=30).values():
            future.result(60)
        lake.commit(3)
        stream.wait_for(lambda: lake.generation().begins > was.begins, "everything is published again")
        stream.wait_for(lambda: lake.set_has_head() and lake.is_known(stream, "default", "kafka"), "a topic that was lost")

        backups.back_up()
        lake.commit(7)
        stream.wait_for(lambda: lake.set_has_head(), "what will be lost")
        lost = lake.head()
        backups.restore()
        lake.notice_the_restore()
        lake.commit(2)
        stream.wait_for(lambda: lake.head() < lost and lake.set_has_head(), "the set of the restored history")
        lake.restart_publishing()
        lake.commit(2)
        stream.wait_for(lambda: lake.set_has_head(), "commits after the restore")

        lake.commit(2, "again")
        stream.wait_for(lambda: lake.set_has_head("again"), "a realm that will go")
        first = lake.engine.ensure_realm("again").kernel.realm
        lake.patiently(lambda: lake.engine.realms.deactivate("again"))
        lake.patiently(lambda: lake.engine.realms.purge("again"))
        stream.wait_for(lambda: str(lake.engine.realms.get("again").status) == "PURGED", "it is purged")
        assert not (Path(lake.settings["maintenance_dir"]) / first).exists()
        lake.patiently(lambda: lake.engine.realms.delete("again"))
        lake.commit(2, "again")
        assert lake.engine.ensure_realm("again").kernel.realm != first
        stream.wait_for(lambda: lake.set_has_head("again"), "the realm that was made again")

        swept = lake.sweeps(stream)
        stream.wait_for(lambda: lake.sweeps(stream) > swept + 1, "two more sweeps")
        assert lake.purged() > 20, "nothing could have been wrongly purged"
        stream.wait_for(lambda: not any(one["failure"] for one in stream.realms().values()), "no realm fails")
    lake.patiently(lake.old.check_states)
    verified = lake.run("maintain", "check", "--stream")
    assert verified.code == 0, verified.err
    audited = lake.run("audit", "verify")
    assert audited.code == 0, audited.err


@pytest.mark.timeout(600)
def test_once_does_everything_and_ends_with_what_failed(
    lake: StreamedLake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda _: None)  # all tests share it
    done = lake.run("stream", "--once", "--json").json
    assert {one["realm"]: one["behind"] for one in done["realms"].values()} == {SYSTEM: 0, "default": 0, "old": 0}
    assert {name: task["runs"] for name, task in done["tasks"].items()} == {"expire": 1, "purge": 1, "sweep": 1, "files": 1}
    assert lake.purged() > 20
    lake.old.check_states()
    # Its topic is gone from the brokers: that realm fails, and is named.
    publish_rest(lake.engine.store, options(lake.settings["kafka_bootstrap"]))
    lake.commit(2, "other")
    publish_rest(lake.engine.store, options(lake.settings["kafka_bootstrap"]))
    generation = read_generation(lake.store.backend, instance_of(lake.engine, "other"))
    assert generation is not None
    admin = AdminClient({"bootstrap.servers": lake.settings["kafka_bootstrap"]})
    for future in admin.delete_topics([generation.topics.commits.name], operation_timeout=30).values():
        future.result(60)
    failed = lake.run("stream", "--once", "--kafka")
    assert failed.code == 1 and "other: kafka_bootstrap" in failed.err and "default:" not in failed.err, failed.err
    lake.settings["kafka_bootstrap"] = "127.0.0.1:1"
    assert "KAFKA_UNAVAILABLE" in lake.run("stream", "--kafka").error


def test_invalid_options_are_one_line_before_spark_starts(
    lake: StreamedLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_rest(lake.engine.store, options(lake.settings["kafka_bootstrap"]))
    assert "REALM_NOT_FOUND" in lake.run("stream", "--once", "--realm", "nobody").error
    assert "retention" in lake.run("--set", "retention=sometimes", "stream", "--once").error
    assert "is not a Spark master" in lake.run("stream", "--once", "--master", "nonsense").error
    assert (
        "kafka_ssl_ca_location"
        in lake.run(
            "--set", "kafka_security_protocol=ssl", "--set", "kafka_ssl_ca_location=/no/such/file", "stream", "--kafka"
        ).error
    )
    assert "kafka_bootstrap" in lake.run("--set", "kafka_bootstrap=", "stream", "--kafka").error
    admin = AdminClient({"bootstrap.servers": lake.settings["kafka_bootstrap"]})
    generations = [read_generation(lake.store.backend, instance_of(lake.engine, name)) for name in ("default", "old")]
    topics = [one.topics.commits.name for one in generations if one is not None]
    for future in admin.delete_topics(topics, operation_timeout=30).values():
        future.result(60)
    assert "no topic" in lake.run("stream", "--kafka").error
    sets = Path(lake.settings["maintenance_dir"])
    (sets / instance_of(lake.engine, "default") / "step-000000001").mkdir(parents=True)
    before = {path.relative_to(sets): path.read_bytes() for path in sets.rglob("*") if path.is_file()}
    with library.open(f"sqlite:///{tmp_path}/another.db", create=True) as another:
        another.ensure_realm()
    assert "maintenance_dir" in lake.run("--set", f"store=sqlite:///{tmp_path}/another.db", "stream", "--once").error
    assert {path.relative_to(sets): path.read_bytes() for path in sets.rglob("*") if path.is_file()} == before
    for url in (lake.url, f"sqlite:///{tmp_path}/another.db"):
        with open_store(url) as store:
            assert Runs(store.backend, store.clock).list() == [], "a run has begun"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = lake.run("stream", "--port", str(taken.getsockname()[1]))
        assert "--port" in refused.error, "a port that is taken is told before Spark is looked for"
    assert "Java is not" in lake.run("stream", "--once").error
