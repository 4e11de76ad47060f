"""In the place of Spark for retained sets: batches of rows in lists, streams of the log and of a topic, and the two joins.

What decides stays the product's: which entries are new, what a set knows, when it is seeded again, and what a sweep may trust.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq

from headwater.persistence.backend import Backend
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import Store
from headwater.schemas.cursor import Position
from headwater.schemas.errors import PointerNotFound, SparkFailed
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.reachability.segments import NEVER, BaseAt, Bounds
from headwater.streaming.retained import retained_batch, retained_seed
from headwater.streaming.retained.present_history import present_entries
from headwater.streaming.retained.retained_seed import SetRow, write_rows
from headwater.streaming.retained.retained_store import RetainedState
from headwater.streaming.sources import kafka_changes
from headwater.streaming.sources.change_rows import row_of_entry
from headwater.streaming.sources.kafka_changes import KafkaOptions
from headwater.streaming.sources.linked_batches import PointerBatch
from headwater.streaming.sources.log_offsets import LogOffset, offset_of_text
from headwater.streaming.spark_jobs import retained_job, retained_rows

if TYPE_CHECKING:
    from tests.simulation.world.environment import Environment

Row = dict[str, Any]
BATCH_ROWS = 6


class RowFrame:
    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows

    def select(self, *_: str) -> RowFrame:
        return self

    def persist(self) -> RowFrame:
        return self

    def unpersist(self) -> None: ...


class RetainedSession:
    """Of one process."""

    def __init__(self, env: Environment, store: Store) -> None:
        self.env = env
        self.store = store
        self.sparkContext = SimpleNamespace(defaultParallelism=1)
        self.readStream = self
        self._options: dict[str, str] = {}

    def format(self, _: str) -> RetainedSession:
        return self

    def options(self, **options: str) -> RetainedSession:
        self._options = options
        return self

    def load(self) -> RowStream:
        realm, after = self._options["realm"], offset_of_text(self._options["after"])
        return RowStream(lambda _: log_batches(self.store, realm, after))


class RowStream:
    """A DataFrame that is a stream, and its writer."""

    def __init__(self, batches: Callable[[Path], Iterator[RowFrame]]) -> None:
        self.writeStream = self
        self._batches = batches
        self._checkpoint = Path()
        self._add: Callable[[Any, int], None] = lambda batch, number: None

    def foreachBatch(self, add: Callable[[Any, int], None]) -> RowStream:  # noqa: N802 - Spark's name
        self._add = add
        return self

    def option(self, _: str, checkpoint: str) -> RowStream:
        self._checkpoint = Path(checkpoint.removeprefix("file://"))
        return self

    def trigger(self, **_: object) -> RowStream:
        return self

    def run(self, **_: object) -> int:
        for number, batch in enumerate(self._batches(self._checkpoint)):
            self._add(batch, number)
        return 0


def log_batches(store: Store, realm: str, after: LogOffset) -> Iterator[RowFrame]:
    """Up to the heads of now. ⚠ As the product's source: behind an entry that is not in the log comes nothing."""
    kernel, rows = store.kernel(realm), list[Row]()
    for name in store.backend.list_names(realm):
        log = PointerLog(kernel, name)
        try:
            head = log.head()
        except PointerNotFound:
            continue
        at = after.pointers.get(name)
        position = Position(head.row.floor - 1, b"") if at is None else Position(at.seq, bytes.fromhex(at.entry_id))
        while position.seq < head.seq:
            entries = log.page(position, 50, head).entries
            rows += [row_of_entry(entry, realm) for entry in entries]
            position = Position(entries[-1].entry.seq, entries[-1].entry_id)
    return _in_batches(rows)


def _in_batches(rows: Iterable[Row]) -> Iterator[RowFrame]:
    waiting = iter(rows)
    while some := list(islice(waiting, BATCH_ROWS)):
        yield RowFrame(some)


def stream_kafka(session: RetainedSession, options: KafkaOptions) -> RowStream:
    return RowStream(functools.partial(_topic_batches, session, options))


def _topic_batches(session: RetainedSession, options: KafkaOptions, checkpoint: Path) -> Iterator[RowFrame]:
    """⚠ Spark knows a topic by its name and offsets alone: one that was re-created is read on from the middle. An offset that
    is not there is a loss, and fails the stream."""
    broker, kept = session.env.broker, checkpoint / "offsets.json"
    offsets: dict[str, int] = msgspec.json.decode(kept.read_bytes()) if kept.exists() else {}
    names = kafka_changes._topics(options)
    topics = broker.call("describe for Spark", lambda: [broker.topics[name] for name in names if name in broker.topics])
    partitions = {f"{one.name}/{number}": part for one in topics for number, part in enumerate(one.partitions)}
    read = kafka_changes._ChangeReader(options.schemas)
    for number, partition in partitions.items():
        position = offsets.get(number, partition.start)
        if not partition.start <= position <= partition.end:
            raise SparkFailed(f"partition {number}: offset {position} is not there")
        end = partition.stable_end()
        while position < end:
            records, position = broker.call(
                f"Spark reads {number}", lambda one=partition, at=position: one.from_offset(at, BATCH_ROWS, committed=True)
            )
            begins = kafka_changes._begins(options)
            found = [
                kafka_changes._row(
                    {"headers": [{"key": key, "value": value} for key, value in record.headers], "value": record.value},
                    read, options, begins,
                )
                for record in records
            ]  # fmt: skip
            yield RowFrame([row for row in found if row is not None])
            offsets[number] = position
            checkpoint.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(msgspec.json.encode(offsets))


# ── what Spark computes ─────────────────────────────────────────────────────────────────────────────────────


def pointer_batches(batch: RowFrame) -> list[PointerBatch]:
    by_pointer: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(batch.rows, key=lambda row: row["seq"]):
        by_pointer.setdefault((row["realm_instance"], row["pointer"]), []).append(row)
    found = []
    for (realm, pointer), rows in by_pointer.items():
        ids = {row["seq"]: row["entry_id"] for row in rows}
        first, last = rows[0], rows[-1]
        is_whole = len(rows) == len(ids) == last["seq"] - first["seq"] + 1
        is_linked = is_whole and all(row["previous_id"] == ids[row["seq"] - 1] for row in rows[1:])
        found.append(PointerBatch(realm, pointer, first["seq"], last["seq"], last["entry_id"], first["previous_id"], is_linked))
    return found


def behind(batch: RowFrame, known: dict[str, int]) -> RowFrame:
    new = [row for row in batch.rows if row["pointer"] in known and row["seq"] > known[row["pointer"]]]
    return RowFrame(list({(row["pointer"], row["seq"], row["entry_id"]): row for row in new}.values()))


def present(batch: RowFrame, state: RetainedState, lost: dict[str, int], backend: Backend) -> tuple[RowFrame, RowFrame]:
    allowed = set(present_entries(backend, state.realm, lost, state.positions))
    resolved = [row for row in batch.rows if (row["pointer"], row["seq"], row["entry_id"]) in allowed]
    others = [row for row in batch.rows if row["pointer"] not in lost]
    return RowFrame(others + resolved), RowFrame(resolved)


def opened(batch: RowFrame) -> list[Bounds]:
    opening = [row for row in batch.rows if row["kind"] in retained_batch.OPENING or row["seq"] == 1]
    opening.sort(key=lambda row: (row["pointer"], row["seq"]))
    bases = [None if row["base"] is None else BaseAt(row["base"]["pointer"], row["base"]["seq"]) for row in opening]
    return [Bounds(row["pointer"], row["seq"], base) for row, base in zip(opening, bases, strict=True)]


def object_rows(new: RowFrame, segments: list[tuple[str, int, int]]) -> list[SetRow]:
    found: list[SetRow] = []
    for row in new.rows:
        for pointer, start, end in segments:
            if pointer == row["pointer"] and start <= row["seq"] < end:
                found += [SetRow(pointer, start, one, row["seq"], True) for one in row["objects_added"]]
                found += [SetRow(pointer, start, one, row["seq"], False) for one in row["objects_released"]]
    return found


def retained_ids(_: object, state: RetainedState, floors: Mapping[str, int], *, follow_base: bool = True) -> Iterator[int]:
    """The two joins of `retained_rows`, on lists."""
    times: dict[tuple[str, int, int], tuple[list[int], list[int]]] = {}
    for folder in state.folders:
        for row in pq.read_table(folder).to_pylist():
            both = times.setdefault((row["pointer"], row["segment"], row["object"]), ([], []))
            both[0 if row["added"] else 1].append(row["seq"])
    links: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for chain, depth, pointer, segment, at in retained_rows._link_rows(state, floors, follow_base=follow_base):
        links.setdefault((pointer, segment), []).append((chain, depth, at))
    objects: list[tuple[int, int, int]] = []
    hidden: dict[tuple[int, int], int] = {}
    for (pointer, segment, one), (added, released) in times.items():
        ends = NEVER if not released or (added and max(added) > max(released)) else max(released)
        for chain, depth, at in links.get((pointer, segment), ()):
            if added and ends > at and (depth == 0 or min(added) <= at):
                objects.append((chain, depth, one))
            if not added and ends <= at:
                hidden[chain, one] = min(depth, hidden.get((chain, one), depth))
    return (one for chain, depth, one in objects if not hidden.get((chain, one), depth) < depth)


def id_set(ids: Iterable[int]) -> IdSet:
    collector = IdCollector()
    collector.add(ids)
    return collector.finish()


def install(step: Callable[[str], None]) -> None:
    """In the product's modules. `step`: anything may happen here."""

    def write(rows: list[SetRow], folder: str) -> int:
        step("file rows of a retained set")
        count = write_rows(folder, iter(rows))
        step("file step of a retained set")
        return count

    def walking(session: RetainedSession, _: str) -> retained_seed.SeedWriter:
        return functools.partial(retained_seed._walk_here, session.store.backend)

    retained_batch.pointer_batches = pointer_batches  # type: ignore[assignment]
    retained_batch._behind = behind  # type: ignore[assignment]
    retained_batch._present = present  # type: ignore[assignment]
    retained_batch._opened = opened  # type: ignore[assignment]
    retained_job.object_rows = object_rows  # type: ignore[assignment]
    retained_job.write_parquet = write  # type: ignore[assignment]
    retained_job.SparkSeedWriter = walking  # type: ignore[assignment,misc]
    retained_job.stream_kafka_changes = stream_kafka  # type: ignore[assignment]
    retained_job.require_broker = lambda bootstrap: None
    retained_job.run_until_caught_up = RowStream.run  # type: ignore[assignment]
    retained_job.run_until_stopped = RowStream.run  # type: ignore[assignment]
    retained_rows.retained_ids = retained_ids  # type: ignore[assignment]
    retained_rows.FrameIds = id_set  # type: ignore[assignment,misc]
