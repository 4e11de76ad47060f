"""Reads a realm's commits topic with Spark's Kafka source, as the same rows as `format("headwater")`.

Every format is read: JSON, and both frames around Avro (single-object without a schema registry, Confluent's with one). A
Change that was too large for Kafka is fetched from the store by its entry id and checked against its digest. Records of a
history that was replaced are left out, where a store is named. ⚠ A `truncated` record fails the read: entries were lost before
they were published, and only the log's own floor can say how to continue.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import fastavro
import msgspec
import pyarrow as pa

from headwater.persistence.log.log_entry import change_of
from headwater.producer.publisher.assignment.generations import Generations, read_generation
from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA, avro_record
from headwater.schemas.errors import ChainBroken, CursorExpired, InvalidInput, KafkaUnavailable
from headwater.schemas.kafka_records import (
    CONFLUENT_MAGIC,
    JSON_MAGIC,
    SINGLE_OBJECT_PREFIX,
    RecordType,
    change_of_json,
    digest_of,
)
from headwater.schemas.topics import commits_topic
from headwater.streaming.sources.change_rows import CHANGE_DDL, Row, arrow_batch, row_of_avro, row_of_entry
from headwater.streaming.sources.open_stores import opened_kernel, opened_store
from headwater.streaming.tcp_probe import is_reachable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_BATCH = 500


class KafkaOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    realm_instance: str
    store: str = ""
    """Where to find Changes that were too large for Kafka, and the newest generation that started over; if empty, neither is
    expected."""
    schemas: dict[int, dict[str, Any]] = {}
    """Writer schemas by registry id; records with other ids were written with this version's schema."""
    starting: str = "earliest"
    records_per_batch: int = 20_000
    client: dict[str, str] = {}
    """More settings of Kafka's client, e.g. security.protocol."""
    finds_gaps: bool = False
    """Whether the reader compares the records with positions of its own. Otherwise missing entries must be reported to it."""


def require_broker(bootstrap: str) -> None:
    """⚠ Called before a stream is started: Kafka's client would try for minutes, and then not say why."""
    if not is_reachable(bootstrap.split(",")):
        raise KafkaUnavailable(
            f"no broker answers at {bootstrap!r}.",
            field="kafka_bootstrap",
            remedy="Start Kafka, or name a broker as host:port.",
        )


def stream_kafka_changes(spark: SparkSession, options: KafkaOptions) -> DataFrame:
    """Follows the topic; with `trigger(availableNow=True)` it catches up and ends."""
    reader = spark.readStream.format("kafka").options(**_kafka(options))
    return decoded(reader.option("maxOffsetsPerTrigger", options.records_per_batch).load(), options)


def stream_topics(spark: SparkSession, options: KafkaOptions, topics: Sequence[str]) -> DataFrame:
    """Records of the topics of many realms, with their topic. ⚠ Records that a topic has lost are left out: the reader must
    compare what it receives with positions of its own, so that one realm's loss does not end the stream of all."""
    wanted = _connection(options) | {"subscribe": ",".join(topics), "failOnDataLoss": "false"}
    reader = spark.readStream.format("kafka").options(**wanted)
    return reader.option("maxOffsetsPerTrigger", options.records_per_batch).load().select("topic", "value", "headers")


def decoded(records: DataFrame, options: KafkaOptions) -> DataFrame:
    """On the executors, batch by batch."""
    return records.select("value", "headers").mapInArrow(_decoder(options), CHANGE_DDL)


def decoded_topics(records: DataFrame, realms: Mapping[str, KafkaOptions]) -> DataFrame:
    """The same of many realms, by topic."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = TopicReaders(realms)
        for batch in batches:
            rows = readers.rows(batch.to_pylist())
            for start in range(0, len(rows), ROWS_PER_BATCH):
                yield arrow_batch(rows[start : start + ROWS_PER_BATCH])

    return records.select("topic", "value", "headers").mapInArrow(decode, CHANGE_DDL)


class TopicReaders:
    """Turns records of many realms into rows of Changes, in the order in which they arrived."""

    def __init__(self, realms: Mapping[str, KafkaOptions]) -> None:
        self._realms = realms
        self._readers: dict[str, tuple[_ChangeReader, int]] = {}

    def rows(self, records: Iterable[Row]) -> list[Row]:
        return [row for record in records if (row := self._row(record)) is not None]

    def _row(self, record: Row) -> Row | None:
        options = self._realms[record["topic"]]
        if record["topic"] not in self._readers:
            self._readers[record["topic"]] = _ChangeReader(options.schemas), _begins(options)
        read, begins = self._readers[record["topic"]]
        return _row(record, read, options, begins)


def _kafka(options: KafkaOptions) -> dict[str, str]:
    topics = ",".join(_topics(options))
    return _connection(options) | {"subscribe": topics, "failOnDataLoss": "true"}


def _connection(options: KafkaOptions) -> dict[str, str]:
    """⚠ read_committed: Spark's default also returns records of aborted transactions."""
    if not options.bootstrap:
        raise InvalidInput("no Kafka is named.", field="kafka_bootstrap", remedy="Give host:port.")
    return {
        "kafka.bootstrap.servers": options.bootstrap,
        "startingOffsets": options.starting,
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
        **{f"kafka.{name}": value for name, value in options.client.items()},
    }


def _topics(options: KafkaOptions) -> list[str]:
    """⚠ All topics that hold Changes of the realm, according to the store: if a retained set missed the access records, the
    access history would be purged. Without a store only the commits topic is read."""
    generation = read_generation(opened_store(options.store).backend, options.realm_instance) if options.store else None
    if generation is None:
        return [commits_topic(options.realm_instance)]
    return [topic.name for topic in generation.topics.of_changes]


def _decoder(options: KafkaOptions) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read, begins = _ChangeReader(options.schemas), _begins(options)
        for batch in batches:
            rows = [row for record in batch.to_pylist() if (row := _row(record, read, options, begins)) is not None]
            for start in range(0, len(rows), ROWS_PER_BATCH):
                yield arrow_batch(rows[start : start + ROWS_PER_BATCH])

    return decode


def _begins(options: KafkaOptions) -> int:
    """⚠ Looked up for every batch: a generation may start over while the stream runs."""
    if not options.store:
        return 1
    store = opened_store(options.store)
    return Generations(store.backend, store.clock).begins(options.realm_instance)


def _row(record: Row, read: _ChangeReader, options: KafkaOptions, begins: int) -> Row | None:
    """None for records that are not Changes and do not mean loss: baselines, ends, and types that a later version adds."""
    headers = {header["key"]: header["value"] for header in record["headers"] or ()}
    if int(headers.get("ce_generation", b"0")) < begins:
        return None
    type = headers.get("ce_type", b"").decode()
    if type == RecordType.TRUNCATED and not options.finds_gaps:
        pointer, start = headers.get("ce_subject", b"").decode(), int(headers.get("ce_fromsequence", b"0"))
        raise CursorExpired(f"{pointer}: entries after {start} were truncated before they were published.", field="kafka")
    if type != RecordType.CHANGE:
        return None
    if record["value"] is None:
        return _claimed(headers, options)
    return row_of_avro(read(record["value"]), options.realm_instance, headers.get("ce_previousid", b"").decode())


def _claimed(headers: dict[str, bytes], options: KafkaOptions) -> Row:
    entry_id = headers["ce_id"].decode()
    if not options.store:
        raise InvalidInput(
            f"the Change {entry_id} is too large for Kafka and no store is named.", field="store", remedy="Name the store."
        )
    kernel = opened_kernel(options.store, options.realm_instance)
    logged = kernel.walk.load(bytes.fromhex(entry_id))
    if digest_of(change_of(logged, kernel.realm_name)) != headers["ce_datadigest"].decode():
        raise ChainBroken(f"the Change {entry_id} in the store is not the one that was published.")
    return row_of_entry(logged, options.realm_instance)


class _ChangeReader:
    """Turns a Change's bytes into the record that Avro reads, by the writer's schema."""

    def __init__(self, schemas: dict[int, dict[str, Any]]) -> None:
        self._ours = fastavro.parse_schema(CHANGE_SCHEMA)
        self._theirs = {id: fastavro.parse_schema(schema) for id, schema in schemas.items()}

    def __call__(self, value: bytes) -> Row:
        if value.startswith(SINGLE_OBJECT_PREFIX):
            return self._read(value[len(SINGLE_OBJECT_PREFIX) :], self._ours)
        if value.startswith(CONFLUENT_MAGIC):
            return self._read(value[5:], self._theirs.get(int.from_bytes(value[1:5], "big"), self._ours))
        if value.startswith(JSON_MAGIC):
            return avro_record(change_of_json(value))
        raise ChainBroken(f"a Change is in no frame that is known: it begins with {value[:10].hex()}.")

    def _read(self, datum: bytes, writer: Any) -> Row:
        found: Row = fastavro.schemaless_reader(io.BytesIO(datum), writer, self._ours)  # type: ignore[assignment]
        return found
