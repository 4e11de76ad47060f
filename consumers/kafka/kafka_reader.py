"""Reads a realm's Changes from Kafka as an async iterator, checked, once and in order per pointer.

The position is kept with the group's offsets: `acknowledge` writes both in one request, so they cannot part. Only committed
records are read; gaps are repaired from the log where one was given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from headwater.consumers.clients.transport import AsyncLog
from headwater.consumers.kafka.generation_order import Fetched, GenerationOrder
from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_positions import parse_positions, positions_text
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import administering, find_partitions, find_start
from headwater.consumers.kafka.topic_watch import LOOK_SECONDS, TopicWatch
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.errors import ChainBroken, KafkaUnavailable
from headwater.schemas.kafka_records import FeedRecord, RecordType, SchemaById, decode_record, digest_of

POLL_MS = 500
RECORDS_MAX = 500
SESSION_MS = 6_000
"""After so long a reader that died has lost its partitions to others of its group; brokers take no less by default."""
ASSIGNED_SECONDS_MAX = 60.0
ASSIGNED_SECONDS = 0.05
"""Between two looks whether the group has given this reader its partitions."""


class _PartitionProgress:
    """What of a partition was given out: where to go on, and the positions of its pointers, the newest last."""

    def __init__(self, positions: dict[str, Position]) -> None:
        self.offset: int | None = None
        self.positions = positions

    def note(self, offset: int, change: Change | None = None) -> None:
        self.offset = offset + 1
        if change is not None:
            self.positions.pop(change.pointer, None)
            self.positions[change.pointer] = Position(change.seq, bytes.fromhex(change.entry_id))


class KafkaReader(ConsumerRebalanceListener):  # type: ignore[misc]
    """Use it with `async with`. Whatever was not acknowledged when it dies comes again."""

    def __init__(self, source: KafkaSource, *, log: AsyncLog | None = None, schema_by_id: SchemaById | None = None) -> None:
        self._source = source
        self._log = log
        self._schema_by_id = schema_by_id
        self._chains = KafkaChains()
        self._order = GenerationOrder()
        self._watch: TopicWatch | None = None
        self._given: dict[TopicPartition, _PartitionProgress] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._generation = 0
        self._is_behind_start: Callable[[FeedRecord], bool] = lambda record: True
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=source.bootstrap,
            group_id=source.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **{
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": SESSION_MS // 4,
                "metadata_max_age_ms": int(LOOK_SECONDS * 1_000),  # new partitions are seen, and dealt out to a group
                **source.client,
            },
        )

    async def __aenter__(self) -> KafkaReader:
        try:
            await self._consumer.start()
            partitions = await find_partitions(self._source)
            if self._source.from_commit is not None:
                found = await find_start(self._source, partitions, self._source.from_commit, self._schema_by_id)
                self._starts, self._is_behind_start = found.offsets, found.is_behind
            self._begin(partitions)
        except KafkaError as error:
            await self._consumer.stop()
            raise _unavailable(self._source.bootstrap, error) from error
        except BaseException:
            await self._consumer.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    async def changes(self, *, follow: bool = True) -> AsyncIterator[Change]:
        """Without `follow`, up to what was committed to the topic when it was asked for."""
        ends = {} if follow else await self._ends()
        while follow or self._order.waiting or not await self._has_reached(ends):
            await self._fetch(look_around=follow)
            generation = self._generation
            while (fetched := self._order.next()) is not None:
                async for change in self._new(fetched):
                    yield change
                if self._generation != generation:
                    break  # the partitions were dealt out anew while this batch was worked on: it comes again

    async def acknowledge(self) -> None:
        """Keep the position behind all that was given out: offsets and our own numbers in one request."""
        offsets = {
            partition: OffsetAndMetadata(given.offset, positions_text(given.positions))
            for partition, given in self._given.items()
            if given.offset is not None
        }
        if self._source.group is not None and offsets:
            try:
                await self._consumer.commit(offsets)
            except KafkaError as error:
                raise _unavailable(self._source.bootstrap, error) from error

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _fetch(self, *, look_around: bool) -> None:
        if look_around and self._watch is not None:
            with suppress(KafkaError):  # brokers that are away are asked again
                if await self._watch.is_due():
                    await self._add_partitions()
        try:
            batches = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=RECORDS_MAX)
        except KafkaError as error:
            raise _unavailable(self._source.bootstrap, error) from error
        for partition, records in batches.items():
            for one in records:
                record = decode_record(one.headers, one.value, self._schema_by_id)
                self._order.add(Fetched(partition, one.offset, record))
        with suppress(KafkaError):
            await self._hold_back()

    async def _hold_back(self) -> None:
        """Partitions of which records wait are not read further until the others have come as far."""
        waiting = self._order.waiting
        self._consumer.resume(*self._consumer.paused())
        if waiting and self._order.is_blocked:
            if await self._has_reached(await self._consumer.end_offsets(list(self._consumer.assignment() - waiting))):
                self._order.open_next()
            else:
                self._consumer.pause(*(waiting & self._consumer.assignment()))

    async def _new(self, fetched: Fetched) -> AsyncIterator[Change]:
        partition, offset, record = fetched
        given = self._given.get(partition) or await self._take_over(partition)
        if not self._is_wanted(record):
            given.note(offset)
            return
        if record.type == RecordType.CHANGE and not self._is_behind_start(record):
            self._chains.pass_by(record)
            given.note(offset)
            return
        async for change in self._repaired(record):
            # The offset stays: what is given out of a gap comes before this record.
            given.note(offset - 1, change)
            yield change
        for change in self._chains.take(record, await self._change_of(record)):
            given.note(offset, change)
            yield change
        given.note(offset)

    async def _repaired(self, record: FeedRecord) -> AsyncIterator[Change]:
        gap = self._chains.missing(record)
        if gap is None:
            return
        if self._log is None:
            raise ChainBroken(
                f"{gap}, and there is no log to read them from.", remedy="Give the reader a server or a store."
            ) from gap
        async for frame in self._log.frames(gap.pointer, gap.from_seq, gap.to_seq):
            for change in self._chains.take_frame(frame):
                yield change

    async def _change_of(self, record: FeedRecord) -> Change | None:
        """⚠ A Change that was too large for Kafka is fetched, and must be the one that the record names."""
        if not record.is_claim_check:
            return record.change
        if self._log is None:
            raise ChainBroken(
                f"{record.pointer}: entry {record.seq} was too large for Kafka, and there is no log to read it from.",
                remedy="Give the reader a server or a store.",
            )
        async for frame in self._log.frames(record.pointer, record.seq - 1, record.seq):
            for change in frame.changes:
                if change.seq == record.seq and digest_of(change) == record.digest:
                    return change
        raise ChainBroken(f"{record.pointer}: what stands for entry {record.seq} is not what was published.", seq=record.seq)

    def _is_wanted(self, record: FeedRecord) -> bool:
        pointers = self._source.pointers
        return record.type != RecordType.END and (not pointers or record.pointer in pointers)

    # ── partitions ──────────────────────────────────────────────────────────────────────────────────────────

    async def _add_partitions(self) -> None:
        """⚠ Pointers move to partitions that were added. A group is given them by its coordinator; a lone reader takes them."""
        if self._source.group is not None:
            return
        known = self._consumer.assignment()
        topic = next(iter(known)).topic
        now = {TopicPartition(topic, number) for number in self._consumer.partitions_for_topic(topic) or ()}
        if now <= known:
            return
        positions = {partition: await self._consumer.position(partition) for partition in known}
        self._consumer.assign(sorted(known | now))
        for partition, position in positions.items():
            self._consumer.seek(partition, position)
        for partition in now - known:
            self._consumer.seek(partition, 0)

    def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        self._watch = TopicWatch(self._source.realm, partitions[0].topic, self._consumer.topics)
        if self._source.group is not None:
            self._consumer.subscribe([partitions[0].topic], listener=self)
            return
        self._consumer.assign(partitions)
        for partition in partitions:
            if partition in self._starts:
                self._consumer.seek(partition, self._starts[partition])

    async def _take_over(self, partition: TopicPartition) -> _PartitionProgress:
        """With a partition's first record, its positions come from where its offset came from. ⚠ Not when it is assigned: the
        fetcher does not wait for that call, and records that came earlier would be forgotten."""
        kept = (await self._kept()).get(partition)
        positions = {} if kept is None else parse_positions(kept.metadata or "")
        self._chains.begin(positions)
        self._given[partition] = _PartitionProgress(positions)
        return self._given[partition]

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        kept = await self._kept() if self._starts else {}
        for partition in assigned:
            if partition in self._starts and partition not in kept and partition not in self._given:
                self._consumer.seek(partition, self._starts[partition])

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """All go back at once. Whoever has them next goes on from what was acknowledged, and so does this reader."""
        self._generation += 1
        self._given.clear()
        self._order.clear()
        self._chains = KafkaChains()

    async def _kept(self) -> dict[TopicPartition, OffsetAndMetadata]:
        if self._source.group is None:
            return {}
        async with administering(self._source) as admin:
            found = await admin.list_consumer_group_offsets(self._source.group)
        return {partition: kept for partition, kept in found.items() if kept.offset >= 0}

    # ── ends ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _ends(self) -> dict[TopicPartition, int]:
        deadline = time.monotonic() + ASSIGNED_SECONDS_MAX
        while not self._consumer.assignment():
            if time.monotonic() > deadline:
                raise KafkaUnavailable("the group has no partition for this reader.", remedy="Other readers have them all.")
            await asyncio.sleep(ASSIGNED_SECONDS)
        return dict(await self._consumer.end_offsets(list(self._consumer.assignment())))

    async def _has_reached(self, ends: dict[TopicPartition, int]) -> bool:
        for partition, end in ends.items():
            if partition in self._consumer.assignment() and await self._consumer.position(partition) < end:
                return False
        return True


def _unavailable(bootstrap: str, error: Exception) -> KafkaUnavailable:
    return KafkaUnavailable(f"{bootstrap}: {type(error).__name__} {error}", remedy="Look at the brokers.")
