"""Reads a realm's Changes from Kafka as an async iterator, checked, once and in order per pointer.

The position is kept with the group's offsets: `acknowledge` writes both in one request, so they cannot diverge. Only committed
records are read; gaps are repaired from the log if one was given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from aiokafka.structs import OffsetAndMetadata

from headwater.consumers.clients.chain import Gap
from headwater.consumers.clients.transport import AsyncLog
from headwater.consumers.kafka.generation_order import Fetched, GenerationOrder
from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_partition import KafkaPartition
from headwater.consumers.kafka.kafka_positions import KeptPositions, parse_positions, positions_text
from headwater.consumers.kafka.kafka_progress import read_begins
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import BEGINNING, administering, assigned_ends, find_partitions, find_start
from headwater.consumers.kafka.log_repair import LogRepair
from headwater.consumers.kafka.retention_check import RetentionCheck
from headwater.consumers.kafka.topic_watch import LOOK_SECONDS, TopicWatch
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorGone, KafkaUnavailable
from headwater.schemas.kafka_records import FeedRecord, RecordType, SchemaById, decode_record

POLL_MS = 500
RECORDS_MAX = 500
SESSION_MS = 6_000
"""After this long, a reader that died has lost its partitions to others of its group; brokers accept no less by default."""


class KafkaReader(ConsumerRebalanceListener):  # type: ignore[misc]
    """Use it with `async with`. Whatever was not acknowledged when it dies comes again."""

    def __init__(self, source: KafkaSource, *, log: AsyncLog | None = None, schema_by_id: SchemaById | None = None) -> None:
        self._source = source
        self._repair = LogRepair(log)
        self._schema_by_id = schema_by_id
        self._begins = 1
        self._start = BEGINNING
        self._chains = KafkaChains()
        self._order = GenerationOrder()
        self._watch: TopicWatch | None = None
        self._given: dict[TopicPartition, KafkaPartition] = {}
        self._checks: list[RetentionCheck] = []
        self._refused: Fetched | None = None
        """The record that caused the last `CursorGone`."""
        self._acknowledged: dict[TopicPartition, KeptPositions] = {}
        """What this reader has acknowledged: brokers delete the offsets of a topic that is deleted."""
        self._others: dict[TopicPartition, KeptPositions] | None = None
        """What the group had acknowledged when it was asked, in this batch."""
        self._deal = 0
        """How often the group has reassigned its partitions."""
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=source.bootstrap,
            group_id=source.group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="none",  # a lost offset must be noticed
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
            self._begins = await read_begins(self._source, partitions[0].topic)
            if self._source.from_commit is not None:
                commit, schemas = self._source.from_commit, self._schema_by_id
                self._start = await find_start(self._source, partitions, commit, self._begins, schemas)
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
        """Without `follow`, up to what was committed to the topic at the time of the call."""
        try:
            ends = {} if follow else await assigned_ends(self._consumer)
            while await self._settle() and (follow or self._has_more or not await self._has_reached(ends)):
                if not await self._fetch(look_around=follow) and not follow:
                    ends = await self._ends_of_now(ends)
                deal = self._deal
                while (fetched := self._order.next()) is not None:
                    try:
                        async for change in self._taken(fetched, deal):
                            yield change
                    except CursorGone:
                        self._order.put_back(fetched)  # for a caller that accepts it
                        self._refused = fetched
                        raise
                    except KafkaError:
                        if self._deal == deal:
                            self._order.put_back(fetched)  # for a caller that reads on
                        raise
                    if self._deal != deal:
                        break  # the partitions were reassigned while this batch was worked on: it comes again
                async for change in self._checked():
                    yield change
        except KafkaError as error:
            raise _unavailable(self._source.bootstrap, error) from error

    async def acknowledge(self) -> None:
        """Save the position after everything that was returned: offsets and our own numbers in one request."""
        if self._source.group is None:
            return
        kept = {partition: given.kept() for partition, given in self._given.items() if given.offset is not None}
        offsets = {
            partition: OffsetAndMetadata(self._given[partition].offset, positions_text(positions))
            for partition, positions in kept.items()
        }
        if offsets:
            try:
                await self._consumer.commit(offsets)
            except KafkaError as error:
                raise _unavailable(self._source.bootstrap, error) from error
            self._acknowledged |= kept

    async def accept(self, gone: CursorGone) -> None:
        """Continue after `changes` raised `gone`: call this, then `changes` again. The caller has discarded what it built from
        the pointer that `gone` names: that pointer starts over, from the oldest entry that the log has, or the topic if there
        is no log. It is durable with the next `acknowledge`; until then a new reader of the group gets it again."""
        pointer = gone.facts.get("pointer")
        if not isinstance(pointer, str):
            raise gone  # it is about the topic, not about one pointer: only a new reader can continue
        refused, self._refused = self._refused, None
        for given in self._given.values():
            given.accept(pointer, 0 if refused is None else refused.record.generation)
        if refused is not None and refused.record.type != RecordType.BASELINE and not self._repair.is_possible:
            await self._seek_beginning(refused.partition, refused.offset)  # what came before it was taken for known

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _has_more(self) -> bool:
        """Whether something waits to be returned, whatever was read."""
        return bool(self._order.waiting or self._checks)

    async def _fetch(self, *, look_around: bool) -> bool:
        """Whether records arrived."""
        self._others = None
        if look_around and self._watch is not None:
            with suppress(KafkaError):  # brokers that are unavailable are asked again
                if await self._watch.is_due():
                    await self._add_partitions()
        try:
            batches = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=RECORDS_MAX)
        except NoOffsetForPartitionError as error:
            for partition in error.args:  # one that was not taken over yet is sought then
                if partition in self._given:  # the brokers have lost its offset since: its topic was deleted
                    await self._find_place_again(partition, 0)
            return False
        except OffsetOutOfRangeError as error:
            for partition, offset in error.args[0].items():
                await self._find_place_again(partition, offset)
            return False
        for partition, records in batches.items():
            for one in records:
                record = decode_record(one.headers, one.value, self._schema_by_id)
                self._order.add(Fetched(partition, one.offset, record))
        with suppress(KafkaError):
            await self._hold_back()
        return bool(batches)

    async def _hold_back(self) -> None:
        """Partitions with waiting records are not read further until the others have caught up."""
        waiting = self._order.waiting
        self._consumer.resume(*self._consumer.paused())
        if waiting and self._order.is_blocked:
            if await self._has_reached(await self._consumer.end_offsets(list(self._consumer.assignment() - waiting))):
                self._order.open_next()
            else:
                self._consumer.pause(*(waiting & self._consumer.assignment()))

    async def _taken(self, fetched: Fetched, deal: int) -> AsyncIterator[Change]:
        partition, offset, record = fetched
        given = self._given.get(partition) or await self._take_over(partition)
        if given is None or self._deal != deal:
            return
        if given.is_jump(record) and await self._seek_beginning(partition, offset, wanted=record.generation):
            return
        async for change in self._new(given, record):
            given.note_change(change)
            yield change
        given.note(offset, record)

    async def _new(self, given: KafkaPartition, record: FeedRecord) -> AsyncIterator[Change]:
        """⚠ The partition's offset moves past the record when all of it was returned, including what filled a gap before it."""
        if record.type == RecordType.END or not self._wants(record.pointer) or given.chains.is_over(record):
            return
        if record.type == RecordType.CHANGE and not self._start.is_behind(record.pointer, record.seq, record.change):
            given.chains.pass_by(record)
            given.note_position(record.pointer, record.seq, record.id)
            return
        if self._source.group is not None and given.begins_unseen(record):
            await self._recall(given, record)
        may_begin = given.may_begin(record) or (given.is_accepted(record.pointer) and not self._repair.is_possible)
        gap = given.chains.missing(record, may_begin=may_begin)
        if gap is not None:
            async for change in self._filled(given.chains, gap):
                yield change
        for change in given.chains.take(record, await self._repair.change(record)):
            yield change

    async def _recall(self, given: KafkaPartition, record: FeedRecord) -> None:
        """What this reader or the group's offsets know of the pointer from other partitions. ⚠ If the record continues what
        lies there, another reader may still return the rest: only what was seen up to it or beyond is compared."""
        if self._others is None:
            others = {partition: parse_positions(kept.metadata or "") for partition, kept in (await self._kept()).items()}
            self._others = self._acknowledged | others
        seen = [kept.positions.get(record.pointer) for partition, kept in self._others.items() if partition not in self._given]
        seen += [own.position(record.pointer) for own in self._given.values()]
        newest = max(filter(None, seen), key=lambda position: (position.generation, position.seq), default=None)
        if newest is not None and (not record.continues or newest.seq >= record.seq):
            given.continue_from(record.pointer, newest)

    async def _filled(self, chains: KafkaChains, gap: Gap) -> AsyncIterator[Change]:
        async for frame in self._repair.frames(gap, is_new=chains.reached(gap.pointer) is None):
            for change in chains.take_frame(frame):
                if self._start.is_behind(change.pointer, change.seq, change):
                    yield change

    async def _checked(self) -> AsyncIterator[Change]:
        """Checks what no record shows: pointers whose newest entries the topic has lost."""
        for check in () if self._order.waiting else list(self._checks):
            if not await check.is_due(self._consumer):
                continue
            for given, head in check.lost(self._given, self._wants):
                if given.is_accepted(head.pointer) and not self._repair.is_possible:
                    continue
                gap = Gap(head.pointer, given.chains.reached(head.pointer) or 0, head.seq)
                async for change in self._filled(given.chains, gap):
                    given.note_change(change)
                    yield change
                given.chains.require(head.pointer, head.seq, head.entry_id)
            if check in self._checks:
                self._checks.remove(check)

    def _wants(self, pointer: str) -> bool:
        return not self._source.pointers or pointer in self._source.pointers

    # ── partitions ──────────────────────────────────────────────────────────────────────────────────────────

    async def _add_partitions(self) -> None:
        """⚠ Pointers move to partitions that were added. A group gets them from its coordinator; a lone reader takes them."""
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

    def _begin(self, partitions: Sequence[TopicPartition]) -> None:
        self._watch = TopicWatch(self._source, partitions[0].topic, self._consumer.topics)
        if self._source.group is not None:
            self._consumer.subscribe([partitions[0].topic], listener=self)
            return
        self._chains = KafkaChains(self._begins)
        self._consumer.assign(partitions)

    async def _settle(self) -> bool:
        """Also takes over partitions whose records are all lost."""
        for partition in self._consumer.assignment():
            if partition not in self._given:
                await self._take_over(partition)
        return True

    async def _take_over(self, partition: TopicPartition) -> KafkaPartition | None:
        """Called in the reader's own turn; its positions come from where its offset came from. ⚠ Not when it is assigned: the
        fetcher does not wait for that call, and records that arrived earlier would be forgotten. None if it was reassigned."""
        deal = self._deal
        kept = (await self._kept()).get(partition)
        first = await self._first_offset(partition)
        if self._deal != deal or partition not in self._consumer.assignment():
            return None
        start = max(first, self._start.offsets.get(partition, 0))
        if kept is None:
            self._consumer.seek(partition, start)
        positions = self._remembered(partition) if kept is None else parse_positions(kept.metadata or "")
        is_cut = 0 < first == start if kept is None else kept.offset < first
        is_chosen = start > first if kept is None else not positions.is_complete
        given = self._given[partition] = KafkaPartition(
            self._new_chains(positions),
            positions,
            is_shared=self._source.group is not None,
            begins_midway=is_chosen and not is_cut,
        )
        if is_cut:
            await self._expect_heads(partition)
        return given

    def _remembered(self, partition: TopicPartition) -> KeptPositions:
        """⚠ Of a partition whose offset the brokers have lost: where this reader was, so that nothing between that and the
        first record of a topic that was re-created is passed over. That record may be of any generation."""
        own = self._acknowledged.get(partition, KeptPositions())
        return msgspec.structs.replace(own, generation=0, has_ended=False)

    def _new_chains(self, kept: KeptPositions) -> KafkaChains:
        """One for all partitions; in a group one for each, because other readers may have what a pointer left behind."""
        if self._source.group is None:
            return self._chains
        chains = KafkaChains(self._begins)
        chains.begin(kept.positions)
        return chains

    async def _expect_heads(self, partition: TopicPartition) -> None:
        partitions = [partition] if self._source.group is not None else sorted(self._consumer.assignment())
        self._checks.append(await RetentionCheck.of(self._source, self._consumer, partitions))

    async def _find_place_again(self, partition: TopicPartition, offset: int) -> None:
        """Retention has overtaken this reader; or the topic was re-created, and everything will come in its new generation."""
        given = self._given.get(partition) or await self._take_over(partition)
        first = await self._first_offset(partition)
        if given is not None and partition in self._consumer.assignment():
            given.begin_again()
            self._consumer.seek(partition, first)
            if offset < first:
                await self._expect_heads(partition)

    async def _seek_beginning(self, partition: TopicPartition, offset: int, *, wanted: int = 0) -> bool:
        """False if there is nothing before that record."""
        first = await self._first_offset(partition)
        if offset <= first:
            return False
        self._given[partition].begin_again(wanted)
        self._order.drop(partition)
        self._consumer.seek(partition, first)
        return True

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They are taken over in the reader's own turn."""

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """All are returned at once. Their next owner continues from what was acknowledged, and so does this reader."""
        self._deal += 1
        self._given.clear()
        self._order.clear()
        self._checks.clear()

    async def _kept(self) -> dict[TopicPartition, OffsetAndMetadata]:
        if self._source.group is None:
            return {}
        async with administering(self._source) as admin:
            found = await admin.list_consumer_group_offsets(self._source.group)
        return {partition: kept for partition, kept in found.items() if kept.offset >= 0}

    async def _first_offset(self, partition: TopicPartition) -> int:
        return int((await self._consumer.beginning_offsets([partition]))[partition])

    async def _ends_of_now(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """⚠ A topic that was re-created may be shorter than it was: its old end would never be reached."""
        now = await self._consumer.end_offsets(list(before))
        return {partition: min(end, now[partition]) for partition, end in before.items()}

    async def _has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        for partition, end in ends.items():
            if partition not in self._consumer.assignment():
                continue
            if partition not in self._given or await self._consumer.position(partition) < end:
                return False  # one that was not taken over has no position yet
        return True


def _unavailable(bootstrap: str, error: Exception) -> KafkaUnavailable:
    return KafkaUnavailable(f"{bootstrap}: {type(error).__name__} {error}", remedy="Look at the brokers.")
