"""Each mutant takes one fix out of the product; a seed then breaks the promise that the fix was made for.

A mutant shows two things: that the fix is needed, and that the simulation would have found the defect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headwater.consumers.clients.chain import Chain
from headwater.consumers.clients.reader import Reader
from headwater.consumers.kafka import kafka_reader
from headwater.consumers.kafka.kafka_chains import KafkaChains
from headwater.consumers.kafka.kafka_partition import KafkaPartition
from headwater.consumers.kafka.retention_check import RetentionCheck
from headwater.persistence.backend import Moves
from headwater.persistence.backends.memory.memory_backend import MemoryBackend
from headwater.persistence.commit.request_search import RequestSearch
from headwater.persistence.coordination.restore_watch import RestoreWatch
from headwater.persistence.log.committed_requests import CommittedRequest
from headwater.persistence.log.head import Head
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.producer.merging.ancestry import _Search
from headwater.producer.publisher.kafka.topics import Topics
from headwater.schemas.kafka_records import RecordType
from headwater.streaming.archive.archive_targets import ParquetArchive
from headwater.streaming.expire import pins
from headwater.streaming.retained import retained_batch
from headwater.streaming.runs.runs import Run
from headwater.streaming.sources.linked_batches import PointerBatch
from headwater.streaming.spark_jobs import retained_job
from headwater.streaming.sweep import sweep
from tests.simulation.runtime.virtual import VirtualClock
from tests.simulation.world.database import Connection

LATE_MICROS = 5_000_000
ENTRIES_REMEMBERED = 3


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    apply: Callable[[], None]
    profile: str
    seed: int
    promise: str
    """That is broken without the fix."""


def merge_bases_guessed() -> None:
    """h1: a merge does not record what it brought, and history that is gone counts as history that never was."""
    _Search._brought = lambda self: None  # type: ignore[method-assign]
    _Search._gone = lambda self, segment: None  # type: ignore[method-assign]


def moves_by_clock() -> None:
    """h2: moves are found by the time at which they were sent, by the writer's clock."""

    def moves_since(self: Connection, realm: str, token: Any) -> Moves:
        now = VirtualClock().now_micros()
        since = now if token is None else token[0] - LATE_MICROS
        sent = self._database.sent_at.items()
        return self._read(
            "moves", lambda: Moves((now,), {name: None for (of, name), at in sent if of == realm and at >= since})
        )

    Connection.moves_since = moves_since  # type: ignore[method-assign]


def requests_forgotten() -> None:
    """h4: a request id is looked for among the newest entries alone."""
    is_logged = RequestSearch._is_logged

    def is_logged_just_now(self: RequestSearch, found: CommittedRequest, head: Head) -> bool:
        return found.seq > head.seq - ENTRIES_REMEMBERED and is_logged(self, found, head)

    RequestSearch._is_logged = is_logged_just_now  # type: ignore[method-assign]


def set_by_numbers() -> None:
    """n1: a retained set knows entries by their numbers, and a sweep looks at its end alone."""
    PointerBatch.follows = lambda self, seq, entry_id: self.first == seq + 1  # type: ignore[method-assign]
    retained_batch.pointers_of_lost_entries = lambda backend, realm, entry_ids: set()  # type: ignore[assignment]
    retained_job.lag = lambda store, state: {"cat/1/heads/main": 1}
    sweep.require_every_position = lambda walk, spans, passed: None
    sweep.require_same_history = lambda walk, spans, positions: None


def history_by_numbers() -> None:
    """n3: a Kafka reader knows entries by their numbers, so a history that was replaced is taken for the one it has read."""
    KafkaChains.require = lambda self, pointer, seq, entry_id: None  # type: ignore[method-assign]
    KafkaChains._begin_anew = lambda self, record, known: None  # type: ignore[method-assign]
    KafkaChains._require_proven = lambda self, record, known: None  # type: ignore[method-assign]
    Chain._is_known = lambda self, change: change.seq <= self.seq  # type: ignore[method-assign]
    Chain._check_link = lambda self, change: None  # type: ignore[method-assign]


def first_seen_is_first() -> None:
    """n4: the first record of a pointer that a reader meets is taken for the pointer's first."""
    missing = KafkaChains.missing
    KafkaChains.missing = lambda self, record, may_begin=False: missing(self, record, may_begin=True)  # type: ignore[method-assign]
    RetentionCheck.lost = lambda self, given, wants: iter(())  # type: ignore[method-assign]


def unseen_is_unpinned() -> None:
    """n6: pointers that the publisher has not seen are not held for it."""
    known = pins.publisher_pins
    pins.publisher_pins = lambda backend, realm, now, created_at=None: known(backend, realm, now)  # type: ignore[assignment]


def versions_alone() -> None:
    """n7: a pointer is moved if its version is the one that was read, whatever its head; no restore is noticed, and a commit
    names no copy of the data."""
    commit = MemoryBackend.commit

    def commit_on_version(
        self: MemoryBackend, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow]
    ) -> bool:
        kept = self.read_pointer(realm, name)
        if kept is not None and kept.version == expected.version:
            expected = msgspec.structs.replace(expected, head=kept.head)
        return commit(self, realm, name, expected, row, objects)

    MemoryBackend.commit = commit_on_version  # type: ignore[method-assign]
    RestoreWatch.check_if_due = lambda self: None  # type: ignore[method-assign]
    RestoreWatch.went_back = lambda self, reason: None  # type: ignore[method-assign]
    RestoreWatch.replaced = lambda self: None  # type: ignore[method-assign]
    RestoreWatch.copy = property(lambda self: "")  # type: ignore[method-assign,assignment]


def topics_by_name() -> None:
    """n8: nobody asks which topic bears the name, so what was sent for the old one is committed in the new one; and a reader
    that meets it begins there, in the middle."""
    Topics.check_same = lambda self, topics, **_: None  # type: ignore[method-assign]
    KafkaPartition.is_jump = lambda self, record: False  # type: ignore[method-assign]
    KafkaPartition.may_begin = lambda self, record: record.type != RecordType.BASELINE  # type: ignore[method-assign]
    kafka_reader.read_begins = _first_generation  # type: ignore[assignment]


async def _first_generation(source: object, topic: str) -> int:
    return 1


def lease_never_asked() -> None:
    """n9: a run does not ask whether another one has taken over."""
    Run.check = lambda self: None  # type: ignore[method-assign]


def beginning_forgotten() -> None:
    """n10: where a webhook began is kept nowhere before its first delivery."""
    begin = Reader.begin

    def begin_and_forget(self: Reader, **options: Any) -> str:
        begin(self, **options)
        return ""

    Reader.begin = begin_and_forget  # type: ignore[method-assign]


def manifest_undecided() -> None:
    """n11: a manifest is written without proof of the lease, and files without one are removed at once."""
    append, remove = ParquetArchive.append, ParquetArchive.remove_unfinished
    ParquetArchive.append = lambda self, changes, position, decide: append(self, changes, position, lambda _: None)  # type: ignore[method-assign]
    ParquetArchive.complete = lambda self, decided: None  # type: ignore[method-assign]
    ParquetArchive.remove_unfinished = lambda self: remove(self, 0.0)  # type: ignore[method-assign,assignment]


def partitions_apart() -> None:
    """n18: what a group has seen of a pointer is forgotten when it continues or starts over in another partition."""
    KafkaPartition.begins_unseen = lambda self, record: False  # type: ignore[method-assign]


MUTANTS = {
    "h1": Mutant(apply=merge_bases_guessed, profile="merges", seed=0, promise="merge"),
    "h2": Mutant(apply=moves_by_clock, profile="commits", seed=4, promise="notice"),
    "h4": Mutant(apply=requests_forgotten, profile="commits", seed=1, promise="request-once"),
    "n1": Mutant(apply=set_by_numbers, profile="retained-kafka", seed=3, promise="state"),
    "n3": Mutant(apply=history_by_numbers, profile="kafka-restores", seed=1, promise="same-log"),
    "n4": Mutant(apply=first_seen_is_first, profile="topics", seed=4, promise="same-log"),
    "n7": Mutant(apply=versions_alone, profile="restores", seed=3, promise="acknowledged"),
    "n8": Mutant(apply=topics_by_name, profile="topics", seed=4, promise="same-log"),
    "n9": Mutant(apply=lease_never_asked, profile="exports", seed=41, promise="superseded"),
    "n6": Mutant(apply=unseen_is_unpinned, profile="pins", seed=8, promise="pins"),
    "n10": Mutant(apply=beginning_forgotten, profile="webhooks", seed=5, promise="webhook"),
    "n11": Mutant(apply=manifest_undecided, profile="archives", seed=55, promise="archive"),
    "n18": Mutant(apply=partitions_apart, profile="kafka-mixed", seed=6, promise="same-log"),
}
