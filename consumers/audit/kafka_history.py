"""Reads each pointer's Changes from a commits topic for an audit, sorted in files so that memory stays bounded.

Where a pointer was published again from its oldest entries, the newest generation counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from headwater.consumers.audit.files import read_changes
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import find_partitions
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken, KafkaUnavailable
from headwater.schemas.kafka_records import FeedRecord, RecordType, decode_record, digest_of

BUFFERED_CHANGES_MAX = 5_000
POLL_MS = 500

FetchChange = Callable[[str, int], Change | None]
"""Pointer and seq to the Change that was too large for Kafka."""


class _Pointer:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.generation = 0
        self.after_seq: int | None = None
        self.anchor: str | None = None
        self.last_seq = 0
        self.waiting: list[Change] = []

    def begin(self, generation: int, after_seq: int, anchor: str | None) -> None:
        self.generation, self.after_seq, self.anchor, self.last_seq = generation, after_seq, anchor, after_seq
        self.waiting.clear()
        self.file.unlink(missing_ok=True)

    def flush(self) -> None:
        with self.file.open("ab") as file:
            for change in self.waiting:
                file.write(msgspec.json.encode(change) + b"\n")
        self.waiting.clear()


class KafkaHistory:
    """Read once by `load`; what it then gives is as it came, unchecked."""

    def __init__(self, source: KafkaSource, folder: Path, fetch: FetchChange | None = None) -> None:
        self._source = source
        self._folder = folder
        self._fetch = fetch
        self._pointers: dict[str, _Pointer] = {}
        self._buffered = 0

    def pointers(self) -> list[str]:
        return sorted(name for name, one in self._pointers.items() if one.after_seq is not None)

    def start(self, pointer: str) -> tuple[int, str | None]:
        """The seq that the records begin behind, and its entry id where the topic tells it."""
        one = self._pointers[pointer]
        return one.after_seq or 0, one.anchor

    def changes(self, pointer: str) -> Iterator[Change]:
        file = self._pointers[pointer].file
        return read_changes(file) if file.exists() else iter(())

    async def load(self) -> int:
        """All that is committed to the topic now; how many Changes there are."""
        count = 0
        try:
            partitions = await find_partitions(self._source)
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._source.bootstrap,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                **self._source.client,
            )
            await consumer.start()
            try:
                consumer.assign(partitions)
                ends = await consumer.end_offsets(partitions)
                while any([await consumer.position(one) < end for one, end in ends.items()]):
                    for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                        count += sum(self._keep(record) for record in records)
            finally:
                await consumer.stop()
        except KafkaError as error:
            raise KafkaUnavailable(f"{self._source.bootstrap}: {error}", remedy="Look at the brokers.") from error
        for one in self._pointers.values():
            one.flush()
        return count

    def _keep(self, kafka_record: Any) -> bool:
        record = decode_record(kafka_record.headers, kafka_record.value)
        if record.type not in (RecordType.CHANGE, RecordType.BASELINE, RecordType.TRUNCATED):
            return False
        name = hashlib.sha256(record.pointer.encode()).hexdigest()
        one = self._pointers.setdefault(record.pointer, _Pointer(self._folder / f"{name}.jsonl"))
        if record.type == RecordType.BASELINE:
            if one.after_seq is None or record.seq < one.last_seq:
                one.begin(record.generation, record.seq, _baseline_entry(record))
            return False
        if record.type == RecordType.TRUNCATED:
            if record.seq > one.last_seq:  # what was published before the cut has no link to what follows
                one.begin(record.generation, record.seq, None)
            return False
        if one.after_seq is None or (record.generation > one.generation and record.seq <= one.last_seq):
            one.begin(record.generation, record.seq - 1, None)
        one.waiting.append(self._change_of(record))
        one.last_seq = record.seq
        self._buffered += 1
        if self._buffered >= BUFFERED_CHANGES_MAX:
            self._buffered = 0
            for waiting in self._pointers.values():
                waiting.flush()
        return True

    def _change_of(self, record: FeedRecord) -> Change:
        if record.change is not None:
            return record.change
        change = None if self._fetch is None else self._fetch(record.pointer, record.seq)
        if change is None or digest_of(change) != record.digest:
            raise ChainBroken(
                f"{record.pointer}: entry {record.seq} was too large for Kafka and cannot be looked up.",
                remedy="Add --server.",
                seq=record.seq,
            )
        return change


def _baseline_entry(record: FeedRecord) -> str | None:
    """Its id ends in the entry id that the records begin behind."""
    entry_id = record.id.rpartition("/")[2]
    return entry_id if record.seq and len(entry_id) == 64 else None
