"""Records of the commits topic as Spark's workers decode them: both frames, claim checks, and what must stop the read."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headwater
from headwater.embedded import Headwater
from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.producer.publisher.assignment.generations import Generation, Generations
from headwater.producer.publisher.kafka.outgoing_records import KafkaRecord, Records
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA
from headwater.schemas.errors import ChainBroken, CursorExpired, InvalidInput, KafkaUnavailable
from headwater.schemas.value_format import ValueFormat
from headwater.streaming.sources.change_rows import arrow_batch, row_of_entry
from headwater.streaming.sources.kafka_changes import KafkaOptions, _decoder, require_broker
from tests.support.fixtures.spark_lakes import fill

MAIN = "cat/1/heads/main"
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        fill(engine, tables=3)
        yield engine


def records(engine: Headwater, **options: Any) -> Records:
    topic = Topic(name="t", id="1", partitions=1)
    given = {"record_bytes_max": 900_000, **options}
    return Records(engine.realm().kernel.realm, 1, RealmTopics(commits=topic, progress=topic), **given)


def decoded(engine: Headwater, given: Sequence[KafkaRecord], tmp_path: Path, **options: Any) -> list[dict[str, Any]]:
    """As Spark's Kafka source hands them over."""
    headers = [[{"key": key, "value": value} for key, value in record.headers] for record in given]
    columns = [pa.array([record.value for record in given], pa.binary()), pa.array(headers, pa.list_(HEADER))]
    batch = pa.RecordBatch.from_arrays(columns, names=["value", "headers"])
    store = f"sqlite:///{tmp_path}/lake.db"
    made = KafkaOptions(bootstrap="x:1", realm_instance=engine.realm().kernel.realm, **{"store": store, **options})
    return [row for rows in _decoder(made)([batch]) for row in rows.to_pylist()]


def logged(engine: Headwater) -> list[Any]:
    return list(PointerLog(engine.realm().kernel, MAIN).forward())


@pytest.mark.parametrize(
    "options",
    [{}, {"schema_id": 7}, {"value_format": ValueFormat.JSON}, {"record_bytes_max": 1}],
    ids=["single", "confluent", "json", "claim"],
)
def test_rows_from_kafka_are_the_rows_from_the_log(tmp_path: Path, engine: Headwater, options: dict[str, Any]) -> None:
    kernel = engine.realm().kernel
    make = records(engine, **options)
    published = [make.entry(entry) for entry in logged(engine)]
    assert any(record.value is None for record in published) == ("record_bytes_max" in options)
    control = [make.baseline(MAIN, 0, "", 0, ""), *published, make.end(0)]
    expected = arrow_batch(row_of_entry(entry, kernel.realm) for entry in logged(engine)).to_pylist()
    assert decoded(engine, control, tmp_path) == expected


def test_records_of_a_history_that_was_replaced_are_left_out(tmp_path: Path, engine: Headwater) -> None:
    kernel = engine.realm().kernel
    topic = Topic(name="t", id="1", partitions=1)
    topics = RealmTopics(commits=topic, progress=topic)
    generations = Generations(kernel.store.backend, kernel.store.clock)
    first = generations.first(kernel.realm, topics)
    changes = [change_of(entry, kernel.realm_name) for entry in logged(engine)]
    made = {number: Records(kernel.realm, number, topics, record_bytes_max=900_000) for number in (1, 2, 3)}
    published = [make.change(change) for make in made.values() for change in changes]
    assert len(decoded(engine, published, tmp_path)) == 3 * len(changes)
    assert generations.open(first, Generation(realm=kernel.realm, number=3, topics=topics, begins=2))
    assert len(decoded(engine, published, tmp_path)) == 2 * len(changes)


def test_a_writer_with_a_newer_schema_is_read_by_its_own(tmp_path: Path, engine: Headwater) -> None:
    import io

    import fastavro

    from headwater.schemas.avro.avro_codec import _lower_change

    kernel = engine.realm().kernel
    newer = {**CHANGE_SCHEMA, "fields": [{"name": "added_later", "type": "string"}, *CHANGE_SCHEMA["fields"]]}
    entry = logged(engine)[-1]
    buffer = io.BytesIO()
    fastavro.schemaless_writer(
        buffer, fastavro.parse_schema(newer), {**_lower_change(change_of(entry, kernel.realm_name)), "added_later": "x"}
    )
    ours = records(engine, schema_id=9).change(change_of(entry, kernel.realm_name))
    theirs = ours._replace(value=b"\x00" + (9).to_bytes(4, "big") + buffer.getvalue())
    assert decoded(engine, [theirs], tmp_path, schemas={9: newer}) == decoded(engine, [ours], tmp_path)


def test_history_that_was_cut_before_it_was_published_stops_the_read(tmp_path: Path, engine: Headwater) -> None:
    with pytest.raises(CursorExpired, match=MAIN):
        decoded(engine, [records(engine).truncated(MAIN, 3, 5, "0" * 64)], tmp_path)


def test_a_claim_that_the_store_does_not_confirm_stops_the_read(tmp_path: Path, engine: Headwater) -> None:
    kernel = engine.realm().kernel
    claim = records(engine, record_bytes_max=1).change(change_of(logged(engine)[-1], kernel.realm_name))
    forged = claim._replace(headers=[*claim.headers, ("ce_datadigest", b"sha256:0")])
    with pytest.raises(ChainBroken):
        decoded(engine, [forged], tmp_path)
    with pytest.raises(InvalidInput, match="no store is named"):
        decoded(engine, [claim], tmp_path, store="")


def test_bytes_in_no_known_frame_stop_the_read(tmp_path: Path, engine: Headwater) -> None:
    kernel = engine.realm().kernel
    record = records(engine).change(change_of(logged(engine)[-1], kernel.realm_name))
    with pytest.raises(ChainBroken):
        decoded(engine, [record._replace(value=b"\xff" * 30)], tmp_path)


def test_a_broker_that_is_not_there_is_named_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(KafkaUnavailable, match=f"no broker answers at '{address}'"):
        require_broker(address)
    with pytest.raises(KafkaUnavailable):
        require_broker("no-port-here")
