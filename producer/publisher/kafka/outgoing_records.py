"""Makes Kafka records of Changes and positions: key, partition, CloudEvents headers and the value in Avro or JSON."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

import msgspec

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.rows import realm_name_of
from headwater.producer.publisher.kafka.fast_avro import encode_entry
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.schemas.avro.avro_codec import to_avro
from headwater.schemas.change import Change
from headwater.schemas.kafka_records import (
    CONFLUENT_MAGIC,
    CONTENT_TYPES,
    GENERATION_KEY,
    SINGLE_OBJECT_PREFIX,
    GenerationEnd,
    Headers,
    Progress,
    RecordType,
    avro_digest,
    sequence_text,
)
from headwater.schemas.topics import partition_of
from headwater.schemas.value_format import ValueFormat

_json = msgspec.json.Encoder(order="deterministic").encode


class KafkaRecord(NamedTuple):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class RecordTarget(NamedTuple):
    topic: str
    partition: int
    key: bytes
    headers: Headers


PLACES_MAX = 10_000


class Records:
    """Makes the records of one realm instance in one generation."""

    def __init__(
        self,
        realm: str,
        generation: int,
        topics: RealmTopics,
        *,
        record_bytes_max: int,
        value_format: ValueFormat = ValueFormat.AVRO,
        schema_id: int | None = None,
        dataref_base: str = "",
    ) -> None:
        self.realm = realm
        self._realm_name = realm_name_of(realm)
        self.generation = generation
        self.topics = topics
        self._bytes_max = record_bytes_max
        self._dataref_base = dataref_base.rstrip("/")
        self._is_json = value_format is ValueFormat.JSON
        self._prefix = SINGLE_OBJECT_PREFIX if schema_id is None else CONFLUENT_MAGIC + schema_id.to_bytes(4, "big")
        self._places: dict[str, RecordTarget] = {}
        self._always: Headers = [
            ("ce_specversion", b"1.0"),
            ("ce_source", f"/realms/{quote(realm, safe='')}".encode()),
            ("ce_generation", b"%d" % generation),
        ]
        self._of_changes: Headers = [
            *self._always,
            ("ce_type", RecordType.CHANGE.encode()),
            ("content-type", CONTENT_TYPES[value_format]),
        ]

    def entry(self, logged: LogRecord) -> KafkaRecord:
        """The Change of an entry; in Avro without building it."""
        if self._is_json:
            return self.change(change_of(logged, self._realm_name), logged.entry.previous.hex())
        entry, encoded = logged.entry, encode_entry(logged, self._realm_name)
        previous = entry.previous.hex()
        value = self._prefix + encoded.datum
        record = self._of(entry.pointer, entry.seq, encoded.entry_id, previous, encoded.time, entry.kind.value, value)
        return record if len(value) <= self._bytes_max else self._claim_check(record, entry.pointer, entry.seq, encoded.datum)

    def change(self, change: Change, previous_id: str = "") -> KafkaRecord:
        value = _json(change) if self._is_json else self._prefix + to_avro(change)
        record = self._of(change.pointer, change.seq, change.entry_id, previous_id, change.time, change.kind.value, value)
        if len(value) > self._bytes_max:
            record = self._claim_check(record, change.pointer, change.seq, to_avro(change))
        return record

    def _of(
        self, pointer: str, seq: int, entry_id: str | bytes, previous_id: str, time: str, kind: str, value: bytes
    ) -> KafkaRecord:
        place = self._places.get(pointer) or self._place(pointer)
        headers: Headers = [
            ("ce_id", entry_id),
            ("ce_previousid", previous_id),
            ("ce_sequence", b"%020d" % seq),
            ("ce_time", time),
            ("ce_kind", kind),
            *place.headers,
        ]
        return KafkaRecord(place.topic, place.partition, place.key, value, headers)

    def _claim_check(self, record: KafkaRecord, pointer: str, seq: int, datum: bytes) -> KafkaRecord:
        claim: Headers = [("ce_dataref", self._dataref(pointer, seq)), ("ce_datadigest", avro_digest(datum))]
        return record._replace(value=None, headers=[*record.headers, *claim])

    def _place(self, pointer: str) -> RecordTarget:
        """What all Changes of a pointer have in common."""
        key = pointer.encode()
        headers: Headers = [("ce_partitionkey", key), ("ce_subject", key), *self._of_changes]
        topic = self.topics.of(pointer)
        place = RecordTarget(topic.name, partition_of(pointer, topic.partitions), key, headers)
        if len(self._places) >= PLACES_MAX:
            self._places.clear()
        self._places[pointer] = place
        return place

    def baseline(self, pointer: str, seq: int, entry_id: str, head_seq: int, head_id: str, continues: int = 0) -> KafkaRecord:
        """`entry_id` is that of `seq`; the head is the pointer's in the log."""
        extra: Headers = [
            ("ce_entryid", entry_id.encode()),
            ("ce_headsequence", sequence_text(head_seq)),
            ("ce_headid", head_id.encode()),
        ]
        if continues:
            extra.append(("ce_continues", b"%d" % continues))
        return self._control(RecordType.BASELINE, pointer, f"{self.generation}/{entry_id or 'empty'}", seq, extra)

    def truncated(self, pointer: str, from_seq: int, to_seq: int, entry_id: str) -> KafkaRecord:
        """Entries (from_seq, to_seq] are gone; `entry_id` is that of `to_seq`."""
        extra: Headers = [("ce_fromsequence", sequence_text(from_seq)), ("ce_entryid", entry_id.encode())]
        return self._control(RecordType.TRUNCATED, pointer, f"{self.generation}/{from_seq}-{to_seq}", to_seq, extra)

    def purged(self, pointer: str, from_seq: int, to_seq: int, entry_id: str) -> KafkaRecord:
        """The log ended with `to_seq`, whose id is `entry_id`; entries after `from_seq` were never published."""
        extra: Headers = [("ce_fromsequence", sequence_text(from_seq)), ("ce_entryid", entry_id.encode())]
        return self._control(RecordType.PURGED, pointer, f"{self.generation}/{entry_id or 'empty'}", to_seq, extra)

    def moved(self, pointer: str, left: Topic) -> KafkaRecord:
        """Tells readers of the old topic in which topic the pointer continues."""
        to = self.topics.of(pointer).name
        extra: Headers = [("ce_topic", to.encode())]
        return self._control(RecordType.MOVED, pointer, f"{self.generation}/{to}", 0, extra, left)

    def end(self, partition: int, topic: Topic | None = None) -> KafkaRecord:
        """In a partition of that topic; of the commits topic, if left out."""
        id = f"{RecordType.END}/{self.generation}/{partition}".encode()
        headers: Headers = [("ce_id", id), ("ce_type", RecordType.END.encode()), *self._always]
        return KafkaRecord((topic or self.topics.commits).name, partition, None, None, headers)

    def progress(self, position: Progress) -> KafkaRecord:
        partition = partition_of(position.pointer, self.topics.progress.partitions)
        headers: Headers = [("ce_type", RecordType.PROGRESS.encode()), ("content-type", b"application/json")]
        return KafkaRecord(self.topics.progress.name, partition, position.pointer.encode(), _json(position), headers)

    def position(self, pointer: str, seq: int, entry_id: str) -> Progress:
        """Where nothing more is known of an entry than its id."""
        return Progress(
            realm=self.realm,
            pointer=pointer,
            generation=self.generation,
            seq=seq,
            entry_id=entry_id,
            topic=self.topics.of(pointer).name,
        )

    def position_of(self, change: Change) -> Progress:
        return Progress(
            realm=self.realm,
            pointer=change.pointer,
            generation=self.generation,
            seq=change.seq,
            entry_id=change.entry_id,
            commit_id=change.commit_id,
            kind=change.kind,
            time=change.time,
            topic=self.topics.of(change.pointer).name,
        )

    def gone(self, pointer: str, partition: int | None = None) -> KafkaRecord:
        """Takes a position out of a progress partition that the pointer has left; without one, out of its own."""
        if partition is None:
            partition = partition_of(pointer, self.topics.progress.partitions)
        return KafkaRecord(self.topics.progress.name, partition, pointer.encode(), None, [])

    def ended(self, generation: int, begins: int) -> KafkaRecord:
        access = self.topics.access
        end = GenerationEnd(
            realm=self.realm,
            ended=generation,
            begins=begins,
            commits=self.topics.commits.id,
            access="" if access is None else access.id,
            commits_partitions=self.topics.commits.partitions,
            progress_partitions=self.topics.progress.partitions,
            access_partitions=0 if access is None else access.partitions,
        )
        return KafkaRecord(self.topics.progress.name, 0, GENERATION_KEY, _json(end), [])

    def _control(
        self, type: RecordType, pointer: str, id: str, seq: int, extra: Headers, topic: Topic | None = None
    ) -> KafkaRecord:
        key, topic = pointer.encode(), topic or self.topics.of(pointer)
        headers: Headers = [
            ("ce_id", f"{type}/{pointer}/{id}".encode()),
            ("ce_type", type.encode()),
            ("ce_sequence", sequence_text(seq)),
            ("ce_partitionkey", key),
            ("ce_subject", key),
            *extra,
            *self._always,
        ]
        return KafkaRecord(topic.name, partition_of(pointer, topic.partitions), key, None, headers)

    def _dataref(self, pointer: str, seq: int) -> str:
        where = f"pointer={quote(pointer, safe='')}&after={seq - 1}&limit=1"
        return f"{self._dataref_base}/feed/v1/{quote(self._realm_name, safe='')}/changes?{where}"
