"""Reads each pointer's Changes from a commits topic for an audit, sorted in files so that memory stays bounded.

If a history was published again, only what followed counts; generations that continue one another are put in order.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import msgspec
from aiokafka.errors import KafkaError

from headwater.consumers.audit.files import read_changes
from headwater.consumers.kafka.kafka_progress import committed_records, read_begins
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import find_partitions
from headwater.schemas.change import Change
from headwater.schemas.errors import ChainBroken, KafkaUnavailable
from headwater.schemas.kafka_records import FeedRecord, RecordType, SchemaById, decode_record, digest_of

BUFFERED_CHANGES_MAX = 5_000

FetchChange = Callable[[str, int], Change | None]
"""Pointer and seq to the Change that was too large for Kafka."""


class _Pointer:
    """One file for each generation: if partitions were added, an older one may be read after a newer one."""

    def __init__(self, stem: Path) -> None:
        self._stem = stem
        self._generations: dict[int, list[Change]] = {}
        """Changes that wait to be written."""
        self.after_seq: int | None = None
        self.anchor: str | None = None
        self._begun_in = 0

    @property
    def files(self) -> list[Path]:
        return [self._file(generation) for generation in sorted(self._generations)]

    def begin(self, record: FeedRecord, after_seq: int, anchor: str) -> None:
        """Discards everything that came in earlier generations."""
        for generation in [one for one in self._generations if one <= record.generation]:
            self._file(generation).unlink(missing_ok=True)
            del self._generations[generation]
        self._begun_in, self.after_seq, self.anchor = record.generation, after_seq, anchor or None

    def is_over(self, record: FeedRecord) -> bool:
        return record.generation < self._begun_in

    def add(self, generation: int, change: Change) -> None:
        self._generations.setdefault(generation, []).append(change)

    def first_is_lower(self, record: FeedRecord) -> bool:
        """Whether an earlier generation is read after a later one was taken for the beginning."""
        return self.after_seq is None or record.seq <= self.after_seq

    def flush(self) -> None:
        for generation, waiting in self._generations.items():
            with self._file(generation).open("ab") as file:
                for change in waiting:
                    file.write(msgspec.json.encode(change) + b"\n")
            waiting.clear()

    def _file(self, generation: int) -> Path:
        return self._stem.with_suffix(f".{generation}.jsonl")


class KafkaHistory:
    """Read once by `load`; what it returns is unchecked, in the order of arrival."""

    def __init__(
        self, source: KafkaSource, folder: Path, fetch: FetchChange | None = None, schema_by_id: SchemaById | None = None
    ) -> None:
        self._source = source
        self._schema_by_id = schema_by_id
        self._folder = folder
        self._fetch = fetch
        self._pointers: dict[str, _Pointer] = {}
        self._buffered = 0
        self._begins = 1

    def pointers(self) -> list[str]:
        return sorted(name for name, one in self._pointers.items() if one.after_seq is not None)

    def start(self, pointer: str) -> tuple[int, str | None]:
        """The seq after which the records begin, and its entry id if the topic has it."""
        one = self._pointers[pointer]
        return one.after_seq or 0, one.anchor

    def changes(self, pointer: str) -> Iterator[Change]:
        return itertools.chain.from_iterable(read_changes(file) for file in self._pointers[pointer].files if file.exists())

    async def load(self) -> int:
        """Everything that is committed to the topic now; returns how many Changes there are."""
        count = 0
        try:
            partitions = await find_partitions(self._source)
            self._begins = await read_begins(self._source, partitions[0].topic)
            async with aclosing(committed_records(self._source, partitions)) as records:
                async for one in records:
                    count += self.keep(decode_record(one.headers, one.value, self._schema_by_id))
        except KafkaError as error:
            raise KafkaUnavailable(f"{self._source.bootstrap}: {error}", remedy="Look at the brokers.") from error
        self.flush()
        return count

    def flush(self) -> None:
        for one in self._pointers.values():
            one.flush()

    def keep(self, record: FeedRecord) -> bool:
        """Whether it was a Change that counts, as far as is known."""
        name = hashlib.sha256(record.pointer.encode()).hexdigest()
        one = self._pointers.setdefault(record.pointer, _Pointer(self._folder / name))
        if record.generation < self._begins or one.is_over(record):
            return False
        match record.type:
            case RecordType.BASELINE if not record.continues:
                one.begin(record, record.seq, record.entry_id)
            case RecordType.BASELINE if one.after_seq is None:  # unless an earlier generation follows, from another partition
                one.after_seq, one.anchor = record.seq, record.entry_id or None
            case RecordType.TRUNCATED:  # what was published before the cut has no link to what follows
                one.begin(record, record.seq, record.entry_id)
            case RecordType.CHANGE:
                return self._keep_change(one, record)
        return False

    def _keep_change(self, one: _Pointer, record: FeedRecord) -> bool:
        if one.first_is_lower(record):
            one.after_seq, one.anchor = record.seq - 1, None
        one.add(record.generation, self._change_of(record))
        self._buffered += 1
        if self._buffered >= BUFFERED_CHANGES_MAX:
            self._buffered = 0
            self.flush()
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
