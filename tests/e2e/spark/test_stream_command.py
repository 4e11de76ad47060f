"""`headwater stream` as its users run it: realms that come and fail, kill -9, what is purged, and how it ends."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

import headwater as library
from headwater.embedded import Headwater
from headwater.persistence.coordination.work_leases import WorkLeases
from headwater.persistence.store import open_store
from headwater.producer.publisher.assignment.generations import read_generation
from headwater.streaming.runs.runs import LEASE_KEY, Runs, RunStatus
from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.fixtures.maintained import Maintained
from tests.support.fixtures.publisher_runs import instance_of, new_lake, options, publish_rest, publishing, put
from tests.support.processes.stream_process import StreamProcess, streaming
from tests.support.servers.spark_session import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SYSTEM = "::system::"
OFTEN = ("--kafka", "--every", "0.5", "--expire-every", "0.001", "--sweep-every", "0.001", "--purge-every", "0.001")


class Lake:
    """A store with a realm that is published, one that is not and has a history of last winter, and a set folder."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.url = f"sqlite:///{folder}/lake.db"
        self.settings = {
            "store": self.url,
            "maintenance_dir": str(folder / "sets"),
            "kafka_bootstrap": bootstrap,
            "retention": "*=3n",
        }
        self.engine: Headwater = library.open(self.url, create=True)
        self.lake = new_lake(self.engine)
        self.commit(3)
        instance = self.engine.ensure_realm("old").kernel.realm
        self.store = open_store(self.url)
        self.old = Maintained(self.store.backend, seed=5, realm=instance)
        self.old.pointers = self.old.pointers[:3]  # an initialized realm has principals of its own
        self.old.clock.micros = self.store.clock.now_micros() - 60 * 86_400 * 1_000_000
        for _ in range(40):
            self.old.step()

    def commit(self, count: int, realm: str = "default") -> None:
        branch = new_lake(self.engine, realm).branch()
        for number in range(count):
            branch.commit([put(f"t{number}", number)])

    def run(self, *arguments: str) -> CliRun:
        flags = [flag for name, value in (SMALL | self.settings).items() for flag in ("--set", f"{name}={value}")]
        return headwater(*flags, *arguments)

    def purged(self) -> int:
        records = Runs(self.store.backend, self.store.clock).list()
        return sum(record.totals().purged for record in records if record.operation == "sweep")

    def supersede_the_killed_run(self) -> None:
        """As its error says; else the next run waits until its lease has ended."""
        runs = Runs(self.store.backend, self.store.clock)
        seen = WorkLeases(self.store.backend, self.store.clock).look(LEASE_KEY)
        if seen.is_held:
            with runs.run("expire", supersede=seen.holder):
                pass

    def has_swept(self, stream: StreamProcess) -> bool:
        """Whether a sweep of this process came to its end; one that found another run at work did not begin."""
        records = Runs(self.store.backend, self.store.clock).list()
        ended = (record for record in records if record.status is RunStatus.DONE and record.pid == stream.process.pid)
        return any(record.operation == "sweep" for record in ended)

    def head(self, realm: str) -> int:
        row = self.store.backend.read_pointer(instance_of(self.engine, realm), "cat/1/heads/main")
        assert row is not None
        return row.seq

    def is_known(self, stream: StreamProcess, realm: str, source: str, step: int = 0) -> bool:
        """Whether the set of a realm has everything that is committed."""
        shown = stream.realms()[realm]
        return bool(shown["behind"] == 0 and shown["source"] == source and shown["step"] > step and not shown["failure"])

    def close(self) -> None:
        self.store.close()
        self.engine.close()


@pytest.fixture
def lake(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Lake]:
    lake = Lake(tmp_path, kafka_bootstrap)
    yield lake
    lake.close()


@pytest.mark.timeout(900)
def test_all_realms_are_kept_current_swept_and_resumed_after_kill_9(lake: Lake, spark: SparkSession) -> None:
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


@pytest.mark.timeout(600)
def test_once_does_everything_and_ends_with_what_failed(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
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


def test_invalid_options_are_one_line_before_spark_starts(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_rest(lake.engine.store, options(lake.settings["kafka_bootstrap"]))
    assert "REALM_NOT_FOUND" in lake.run("stream", "--once", "--realm", "nobody").error
    assert "retention" in lake.run("--set", "retention=sometimes", "stream", "--once").error
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
