"""Purging realms that were published: topics and retained sets go with them, brokers may be away, publishers may still run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import headwater
from headwater.embedded import Headwater
from headwater.persistence.realms.realm_purge import rows_of
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.kafka import topics
from headwater.producer.publisher.publisher import Publisher
from headwater.schemas.topics import commits_topic, progress_topic, tables_topic
from headwater.settings import Settings
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.wiring.external_resources import external_resources
from tests.support.fixtures.cli_runs import CliRun
from tests.support.fixtures.cli_runs import headwater as run_headwater
from tests.support.fixtures.publisher_runs import options, publish_rest, publishing
from tests.support.servers.ports import free_port

Cli = Callable[..., CliRun]


class Published:
    """A realm that is PURGING and whose topics are full."""

    def __init__(self, engine: Headwater, url: str, bootstrap: str, folder: Path, name: str = "default") -> None:
        self.engine, self.url, self.bootstrap, self.folder, self.name = engine, url, bootstrap, folder, name
        realm = engine.ensure_realm(name)
        self.instance = realm.kernel.realm
        realm.ensure_catalog("lake").branch().commit([headwater.Put(("db",), headwater.Namespace())])
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.names = {commits_topic(self.instance), progress_topic(self.instance), tables_topic(self.instance)}

    def publish(self) -> None:
        publish_rest(self.engine.store, options(self.bootstrap))
        self.admin.create_topics([NewTopic(tables_topic(self.instance), 1, 1)])[tables_topic(self.instance)].result(20)
        RetainedStore(self.folder, self.instance).folder.mkdir(parents=True)

    def give_up(self) -> None:
        self.engine.realms.deactivate(self.name)
        self.engine.realms.purge(self.name)

    def topics(self) -> set[str]:
        return self.names & set(self.admin.list_topics(timeout=20).topics)

    def rows(self) -> int:
        return sum(1 for _ in rows_of(self.engine.store.backend, self.instance))

    @property
    def status(self) -> str:
        return str(self.engine.realms.get(self.name).status)

    def cli(self, *arguments: str, bootstrap: str | None = None) -> CliRun:
        given = ("--set", f"kafka_bootstrap={bootstrap}") if bootstrap else ()
        return run_headwater("--store", self.url, "--set", f"maintenance_dir={self.folder}", *given, *arguments)

    def nothing_was_done(self, rows: int) -> None:
        assert (self.status, self.rows(), self.topics()) == ("PURGING", rows, self.names)
        assert RetainedStore(self.folder, self.instance).folder.exists()

    def everything_is_gone(self) -> None:
        assert (self.status, self.rows(), self.topics()) == ("PURGED", 0, set())
        assert not RetainedStore(self.folder, self.instance).folder.exists()
        assert Generations(self.engine.store.backend, self.engine.store.clock).read(self.instance) is None


@pytest.fixture
def published(tmp_path: Path, kafka_bootstrap: str) -> Iterator[Published]:
    url = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(url, create=True) as engine:
        realm = Published(engine, url, kafka_bootstrap, tmp_path / "retained")
        realm.publish()
        yield realm


def test_topics_and_retained_sets_are_purged_with_their_realm_unless_the_broker_is_unavailable(
    published: Published, kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published.give_up()
    rows = published.rows()
    assert rows > 10 and published.topics() == published.names
    assert "kafka_bootstrap" in published.cli("maintain", "purge-realms").error
    published.nothing_was_done(rows)
    with monkeypatch.context() as patch:
        patch.setattr(topics, "ADMIN_TIMEOUT_SECONDS", 1.0)
        patch.setenv("HEADWATER_MAINTAIN_BY_STREAM", "never")
        nobody = f"127.0.0.1:{free_port()}"
        for words in (("maintain", "purge-realms"), ("realm", "purge", "default", "--finish", "--yes")):
            assert "topic" in published.cli(*words, bootstrap=nobody).error
            published.nothing_was_done(rows)
        cycle = published.cli("maintain", "schedule", "--once", "--json", bootstrap=nobody)
        assert cycle.code == 1 and commits_topic(published.instance) in cycle.err
        published.nothing_was_done(rows)
    done = published.cli("maintain", "purge-realms", "--json", bootstrap=kafka_bootstrap).json
    assert [it["failure"] for it in done["realms"]] == [""]
    published.everything_is_gone()


def test_a_purge_interrupted_after_the_topics_is_completed_by_the_next(published: Published) -> None:
    published.give_up()
    settings = Settings(kafka_bootstrap=published.bootstrap, maintenance_dir=str(published.folder))
    first, *_ = external_resources(published.engine.store, settings)
    first.remove(published.instance)  # and the process is killed here
    assert published.topics() == set() and published.status == "PURGING" and published.rows() > 10
    assert published.cli("realm", "purge", "default", "--finish", "--yes", bootstrap=published.bootstrap).code == 0
    published.everything_is_gone()


def test_a_publisher_that_still_runs_does_not_create_the_topics_again(published: Published) -> None:
    asleep = Publisher(published.engine.store, options(published.bootstrap))
    asleep.settlement.look(lambda _: None)
    assert asleep.settlement.instances == [published.instance]
    with publishing(published.engine.store, options(published.bootstrap, topic_check_seconds=0.05)) as publisher:
        deadline = time.monotonic() + 30
        while not publisher.status():
            assert time.monotonic() < deadline, "the publisher has no shard"
            time.sleep(0.05)
        published.give_up()  # it looks for realms that went three times a second only
        published.cli("maintain", "purge-realms", bootstrap=published.bootstrap)
        # This one has not looked since the realm was given up, and finds that its topics are missing.
        asleep.settlement.check(lambda _: None, lambda _generation, _topics: None)
        assert "PURGED" in asleep.settlement.trouble[published.instance]
        time.sleep(0.5)
        published.cli("maintain", "purge-realms", bootstrap=published.bootstrap)
    published.everything_is_gone()


def test_topics_stay_on_request_and_unpublished_realms_need_no_broker(published: Published, tmp_path: Path) -> None:
    other = Published(published.engine, published.url, published.bootstrap, tmp_path / "retained", name="other")
    other.give_up()
    assert other.cli("maintain", "purge-realms").code == 0 and other.status == "PURGED"
    published.give_up()
    assert published.cli("maintain", "purge-realms", "--keep-topics").code == 0
    assert published.status == "PURGED" and published.topics() == published.names
    published.admin.delete_topics(list(published.names))
