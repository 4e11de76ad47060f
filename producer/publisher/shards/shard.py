"""Publishes one leased shard, in Kafka transactions that hold records and progress together.

The protocol, each step only after the one before: lease, fence, read the progress to its undecided end, compare it with the
log, send. Any error discards the producer and begins again at the lease; being fenced means that the lease is lost.
"""

from __future__ import annotations

import logging
import random
import threading
import time

from headwater.persistence.log.purged_pointers import PurgedPointer
from headwater.persistence.rows import PointerRow
from headwater.producer.publisher.assignment.alarms import Alarm
from headwater.producer.publisher.assignment.generations import Generation
from headwater.producer.publisher.assignment.shard_leases import Lease
from headwater.producer.publisher.kafka.sender import Sender
from headwater.producer.publisher.shards.batches import Batch, check_against_log
from headwater.producer.publisher.shards.fault_points import FaultPoint
from headwater.producer.publisher.shards.heads import Inbox
from headwater.producer.publisher.shards.shard_context import ShardContext, ShardStatus
from headwater.producer.publisher.shards.shard_pins import ShardPins
from headwater.producer.publisher.shards.shard_states import ShardState, check_move
from headwater.schemas.errors import HeadwaterError, PublisherStopped, ShardLost
from headwater.schemas.kafka_records import Progress
from headwater.schemas.topics import transactional_id

IDLE_SECONDS = 0.5
RETRY_SECONDS = 0.1

_log = logging.getLogger(__name__)


class Shard:
    """Runs on a thread of its own until it is closed or lost."""

    def __init__(self, context: ShardContext, number: int, lease: Lease) -> None:
        self.number = number
        self.lease = lease
        self.realm = context.generation.realm
        self.state = ShardState.LEASED
        self._context = context
        self._inbox = Inbox(number, context.generation.shards)
        self._closing = threading.Event()
        self._sender: Sender | None = None
        self._published: dict[str, Progress] = {}
        self._seqs: dict[str, int] = {}
        """What was published as far as was ever known here: only for the lag."""
        self._behind: dict[str, PointerRow] = {}
        self._purged: dict[str, PurgedPointer] = {}
        """Pointers whose end is to be published."""
        self._changes = self._transactions = self._failures = self._failures_in_a_row = 0
        self._caught_up_at = time.monotonic()
        self._failure = ""
        self._alarm: Alarm | None = None
        self._pinned_at = float("-inf")
        self._readable_at = time.monotonic()
        store = context.kernel.store
        self._pins = ShardPins(
            store.backend, store.clock, self.realm, number, context.generation.number, context.options.pin_max_age_seconds
        )
        self._thread = threading.Thread(target=self._run, name=f"publisher-{self.realm}-{number}", daemon=True)

    def start(self) -> None:
        self._context.heads.subscribe(self._inbox)
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._closing.set()
        self._inbox.wake()

    def join(self) -> None:
        self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def generation(self) -> Generation:
        return self._context.generation

    def is_caught_up(self, seqs: dict[str, int]) -> bool:
        """Whether all of these entries are committed in Kafka."""
        if self.state not in (ShardState.SENDING, ShardState.IDLE):
            return False
        published = self._published
        return all(pointer in published and published[pointer].seq >= seq for pointer, seq in seqs.items())

    def status(self) -> ShardStatus:
        known = {**self._behind, **self._inbox.waiting()}
        lag = sum(max(0, row.seq - self._seqs.get(pointer, row.floor - 1)) for pointer, row in known.items())
        caught_up = self.state is ShardState.IDLE and not lag
        return ShardStatus(
            realm=self.realm,
            shard=self.number,
            generation=self._context.generation.number,
            state=self.state,
            pointers=len(self._published),
            changes=self._changes,
            transactions=self._transactions,
            failures=self._failures,
            lag_commits=lag,
            lag_seconds=0.0 if caught_up else time.monotonic() - self._caught_up_at,
            failure=self._failure,
            alarm=self._alarm,
        )

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    self._begin()
                    while not self._closing.is_set():
                        self._publish()
                except ShardLost as error:
                    _log.warning("%s shard %d is lost: %s", self.realm, self.number, error)
                    self.lease.lost = True
                    break
                except PublisherStopped as error:
                    self._stop(error)
                except HeadwaterError as error:
                    self._fail(error)
        except Exception:
            _log.exception("%s shard %d ends by a fault of its own", self.realm, self.number)
        finally:
            self._discard()
            self._pin_last()
            self._context.heads.unsubscribe(self._inbox)
            self.state = ShardState.LOST

    def _begin(self) -> None:
        """⚠ Lease, then fence, then the progress to its end, then the log: in this order and no other."""
        context = self._context
        if not context.leases.renew(self.lease):
            raise ShardLost("another publisher has the lease.")
        context.at(FaultPoint.LEASED)
        generation = context.generation.number
        self._sender = Sender(context.options, transactional_id(self.realm, generation, self.number))
        self._move(ShardState.FENCED)
        context.at(FaultPoint.FENCED)
        topics = context.generation.topics
        recovered = context.reader.recover(self.realm, topics.progress.name, self.number, generation)
        for topic in topics.of_changes:
            context.reader.check_readable(topic.name, context.generation.partitions_of(self.number, topic))
        self._readable_at = time.monotonic()
        ends = {pointer: check_against_log(context.kernel, position) for pointer, position in recovered.positions.items()}
        self._purged = {pointer: end for pointer, end in ends.items() if end is not None}
        self._published = recovered.positions
        self._seqs |= {pointer: position.seq for pointer, position in recovered.positions.items()}
        self._move(ShardState.RECOVERED)
        context.at(FaultPoint.RECOVERED)
        context.alarms.clear(self.realm, self.number)  # also one that a publisher before this one has raised
        self._alarm = None

    def _publish(self) -> None:
        self._behind |= self._inbox.take()
        self._look_for_ends()
        self._forget_published()
        if self._behind or self._purged:
            self._move(ShardState.SENDING)
            self._send_batch(self._sender)
            self._failures_in_a_row, self._failure = 0, ""
        else:
            if self.state is not ShardState.IDLE:
                self._move(ShardState.IDLE)
            if self._context.heads.ready.is_set():
                self._caught_up_at = time.monotonic()
            self._pin()
            self._check_readable()
            if not self._context.leases.is_safe(self.lease):
                raise ShardLost("its lease ran out.")
            self._inbox.wait(IDLE_SECONDS)

    def _send_batch(self, sender: Sender | None) -> None:
        if sender is None:
            raise ShardLost("there is no producer.")
        context = self._context
        batch = Batch(
            context.kernel,
            context.records,
            self._published,
            changes_max=context.options.batch_changes,
            bytes_max=context.options.batch_bytes,
            seconds_max=context.options.kafka_timeout_seconds / 4,
        )
        sender.begin()
        context.at(FaultPoint.BEFORE_SEND)
        for pointer, row in list(self._behind.items()):
            sender.send(batch.read(pointer, row))
            if batch.is_full:
                break
        for pointer, end in self._purged.items():
            sender.send(batch.end(pointer, end))
        sender.send(batch.final())
        context.at(FaultPoint.AFTER_SEND)
        sender.flush()
        context.topics.check_same(context.generation.topics)
        if not context.leases.is_safe(self.lease):
            raise ShardLost("its lease ran out before a transaction was committed.")
        context.at(FaultPoint.BEFORE_COMMIT)
        sender.commit()
        context.at(FaultPoint.AFTER_COMMIT)
        self._note(batch)

    def _note(self, batch: Batch) -> None:
        self._published |= batch.positions
        for pointer in batch.ended:
            self._forget_purged(pointer)
        self._seqs |= {pointer: position.seq for pointer, position in batch.positions.items()}
        self._context.at(FaultPoint.NOTED)
        self._changes += batch.changes
        self._transactions += 1
        # The pointer that was served last comes last, so that a busy one does not hold up the others.
        for pointer in batch.positions:
            if (row := self._behind.pop(pointer, None)) is not None:
                self._behind[pointer] = row
        self._forget_published()
        self._pin()

    def _look_for_ends(self) -> None:
        """Of pointers whose rows are gone since they were published."""
        for pointer in self._inbox.take_gone():
            position = self._published.get(pointer)
            if position is not None and (end := check_against_log(self._context.kernel, position)) is not None:
                self._purged[pointer] = end

    def _forget_purged(self, pointer: str) -> None:
        del self._published[pointer], self._purged[pointer]
        self._behind.pop(pointer, None)
        made_again = self._context.kernel.store.backend.read_pointer(self.realm, pointer)
        if made_again is not None and made_again.head:
            self._behind[pointer] = made_again

    def _forget_published(self) -> None:
        for pointer, row in list(self._behind.items()):
            position = self._published.get(pointer)
            if position is None:
                continue
            is_other = row.seq < position.seq or (row.seq == position.seq and row.head.hex() != position.entry_id)
            if is_other and (end := check_against_log(self._context.kernel, position)) is not None:
                self._purged[pointer] = end
            if row.seq <= position.seq:
                del self._behind[pointer]

    def _check_readable(self) -> None:
        """A broker that died after agreeing to commit may have left the transaction undecided; nothing else would notice."""
        if time.monotonic() - self._readable_at >= self._context.options.readable_check_seconds:
            generation = self._context.generation
            for topic in generation.topics.of_changes:
                self._context.reader.check_readable(topic.name, generation.partitions_of(self.number, topic))
            self._context.reader.check_readable(generation.topics.progress.name, [self.number])
            self._readable_at = time.monotonic()

    def _pin(self) -> None:
        if time.monotonic() - self._pinned_at >= self._context.options.pin_write_seconds:
            self._pins.write({pointer: position.seq for pointer, position in self._published.items()})
            self._pinned_at = time.monotonic()

    def _pin_last(self) -> None:
        """Lets the store show what Kafka has when no publisher runs."""
        if self.state in (ShardState.SENDING, ShardState.IDLE) and not self.lease.lost:
            try:
                self._pins.write({pointer: position.seq for pointer, position in self._published.items()})
            except HeadwaterError as error:
                _log.warning("%s shard %d: what was published last is not in the store: %s", self.realm, self.number, error)

    # ── what ends a turn ────────────────────────────────────────────────────────────────────────────────────

    def _stop(self, error: PublisherStopped) -> None:
        self._discard()
        self._move(ShardState.STOPPED)
        self._failures += 1
        self._alarm = self._context.alarms.sound(self.realm, self.number, error)
        self._closing.wait(self._context.options.alarm_retry_seconds)
        self._again()

    def _fail(self, error: HeadwaterError) -> None:
        _log.warning("%s shard %d begins again: %s", self.realm, self.number, error)
        self._discard()
        self._move(ShardState.FAILED)
        self._failures += 1
        self._failures_in_a_row += 1
        self._failure = str(error)
        pause = min(self._context.options.retry_seconds_max, RETRY_SECONDS * 2 ** min(self._failures_in_a_row, 10))
        self._closing.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries, keeps no secret
        self._again()

    def _again(self) -> None:
        """All pointers count as behind until the progress says otherwise."""
        self._move(ShardState.LEASED)
        self._published = {}
        self._context.heads.unsubscribe(self._inbox)
        self._context.heads.subscribe(self._inbox)

    def _discard(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.discard()

    def _move(self, state: ShardState) -> None:
        self.state = check_move(self.state, state)
