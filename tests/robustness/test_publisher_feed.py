"""End to end on real Kafka: what readers of committed records get equals the log, in all fields, none missing, none twice."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

import headwater
from headwater.producer.publisher.shards.shard_pins import publisher_pins
from headwater.schemas.kafka_records import RecordType
from headwater.schemas.topics import commits_topic
from tests.support.fixtures.catalog_lake import EMBEDDED, Lake, embedded_url
from tests.support.fixtures.publisher_runs import (
    assert_topic_equals_log,
    instance_of,
    is_caught_up,
    new_lake,
    options,
    publish_rest,
    publishing,
    read_topic,
    wait_until,
    write_at_once,
    write_history,
)
from tests.support.models.feed_validators import check_generations
from tests.support.servers.servers import FreshUrl

SOAK = bool(os.environ.get("HEADWATER_SOAK"))
WRITERS, ROUNDS = (8, 130) if SOAK else (3, 4)


@pytest.fixture(params=["sqlite", "postgresql", *(["memory", "cassandra"] if SOAK else [])])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param in EMBEDDED:
        return embedded_url(request.param, tmp_path)
    fresh: FreshUrl = request.getfixturevalue("fresh_postgres" if request.param == "postgresql" else "fresh_cassandra")
    return fresh()


@pytest.mark.timeout(880 if SOAK else 300)  # twelve thousand commits, each on disk
def test_the_topic_equals_the_log_under_concurrent_writers(store_url: str, kafka_bootstrap: str) -> None:
    with headwater.open(store_url, create=True) as engine:
        lake = new_lake(engine)
        realm = instance_of(engine)
        with publishing(engine.store, options(kafka_bootstrap)) as publisher:
            write_at_once(lake, writers=WRITERS, rounds=ROUNDS)
            wait_until(lambda: is_caught_up(publisher, engine.store, realm), "the publisher has caught up")
            assert all(shard.lag_commits == 0 for shard in publisher.status())
            wait_until(lambda: len(publisher_pins(engine.store.backend, realm, 0)) > 0, "pins are written")
        found = assert_topic_equals_log(engine.store, kafka_bootstrap, realm)
        kinds = {record.record.change.kind for record in found if record.record.change is not None}
        assert {str(kind) for kind in kinds} >= {"commit", "merge", "transplant", "create", "assign", "delete"}


def test_realms_and_pointers_that_appear_later_are_published_without_a_restart(tmp_path: Path, kafka_bootstrap: str) -> None:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        with publishing(engine.store, options(kafka_bootstrap, shards=1)) as publisher:
            for name in ("first", "second"):
                write_history(new_lake(engine, name), 0, 1)
                realm = instance_of(engine, name)
                wait_until(lambda realm=realm: is_caught_up(publisher, engine.store, realm), f"{name} is published")  # type: ignore[misc]
        for name in ("first", "second"):
            assert_topic_equals_log(engine.store, kafka_bootstrap, instance_of(engine, name))


def test_a_realm_that_was_recreated_has_topics_of_its_own(tmp_path: Path, kafka_bootstrap: str) -> None:
    given = options(kafka_bootstrap, shards=1)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        write_history(new_lake(engine), 0, 1)
        first = instance_of(engine)
        publish_rest(engine.store, given)
        before = assert_topic_equals_log(engine.store, kafka_bootstrap, first)
        engine.realms.deactivate("default")
        engine.realms.purge("default")
        engine.realms.finish_purge("default")
        engine.realms.delete("default")
        write_history(new_lake(engine), 1, 1)
        second = instance_of(engine)
        publish_rest(engine.store, given)
        assert first != second
        assert_topic_equals_log(engine.store, kafka_bootstrap, second)
        assert read_topic(kafka_bootstrap, commits_topic(first)) == before


def test_truncated_history_is_published_as_truncated_and_never_skipped_silently(tmp_path: Path, kafka_bootstrap: str) -> None:
    given = options(kafka_bootstrap, shards=1)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        lake = new_lake(engine)
        write_history(lake, 0, 2)
        realm, pointer = instance_of(engine), lake.branch().pointer
        cut = _Cutter(engine)
        cut.raise_floor(pointer, 3)  # before first contact
        publish_rest(engine.store, given)
        published = lake.branch().info().seq
        write_history(lake, 1, 2)
        cut.raise_floor(pointer, published + 4)  # behind the publisher's back
        publish_rest(engine.store, given)
        head = lake.branch().info().seq
        records = read_topic(kafka_bootstrap, commits_topic(realm))
        assert check_generations(records) == []
        found = [one.record for one in records if one.record.pointer == pointer]
        cuts = [(record.from_seq, record.seq) for record in found if record.type == RecordType.TRUNCATED]
        seqs = [record.seq for record in found if record.type == RecordType.CHANGE]
        assert cuts == [(0, 2), (published, published + 3)]
        assert seqs == [*range(3, published + 1), *range(published + 4, head + 1)]


def test_a_large_change_travels_as_a_claim_check_whose_digest_fits(tmp_path: Path, kafka_bootstrap: str) -> None:
    from headwater.schemas.kafka_records import digest_of
    from tests.support.fixtures.publisher_runs import log_of

    given = options(kafka_bootstrap, shards=1, record_bytes_max=5_000, dataref_base="https://lake.example.com/")
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        lake = new_lake(engine)
        lake.branch().commit([headwater.Put((f"t{n}",), headwater.IcebergTable("s3://" + "x" * 200)) for n in range(40)])
        publish_rest(engine.store, given)
        realm = instance_of(engine)
        found = assert_topic_equals_log(engine.store, kafka_bootstrap, realm)
        checks = [record.record for record in found if record.record.is_claim_check]
        assert len(checks) == 1
        change = next(c for c in log_of(engine.store, realm)[lake.branch().pointer] if c.entry_id == checks[0].id)
        assert checks[0].digest == digest_of(change)
        assert checks[0].dataref.startswith("https://lake.example.com/feed/v1/default/changes?pointer=cat")


def test_with_a_registry_values_are_in_confluents_wire_format(tmp_path: Path, kafka_bootstrap: str, registry_url: str) -> None:
    from headwater.producer.publisher.kafka.schema_registry import SchemaRegistry
    from tests.support.fixtures.publisher_runs import log_of
    from tests.support.models.feed_validators import check_feed

    given = options(kafka_bootstrap, shards=1, registry_url=registry_url)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        write_history(new_lake(engine), 0, 1)
        publish_rest(engine.store, given)
        realm = instance_of(engine)
        registry = SchemaRegistry(registry_url)
        asked: list[int] = []

        def schema(id: int) -> dict[str, object]:
            asked.append(id)
            return registry.schema(id)

        found = read_topic(kafka_bootstrap, commits_topic(realm), schema)
        assert asked
        assert check_feed(found, log_of(engine.store, realm)) == []


class _Cutter(Lake):
    """Only what cuts history."""

    def __init__(self, engine: headwater.Headwater) -> None:
        self.store = engine.store
        self.kernel = engine.realm().kernel


def test_pins_expire_when_nothing_could_be_published_for_long(tmp_path: Path, kafka_bootstrap: str) -> None:
    given = msgspec.structs.replace(options(kafka_bootstrap, shards=1), pin_max_age_seconds=60.0, pin_write_seconds=0.0)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        lake = new_lake(engine)
        write_history(lake, 0, 1)
        publish_rest(engine.store, given)
        realm, now = instance_of(engine), engine.store.clock.now_micros()
        pins = publisher_pins(engine.store.backend, realm, now)
        assert pins[lake.branch().pointer] == lake.branch().info().seq
        assert publisher_pins(engine.store.backend, realm, now + 61_000_000) == {}
