"""`format("headwater")`: reads the log of a store or of a server in parallel by pointer and range, one row for each Change.

Within a pointer, rows of a batch may come from several tasks; `seq` is their order. Across pointers there is no order but time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.schemas.cursor import Position
from headwater.schemas.errors import CursorReset
from headwater.streaming.sources.change_rows import CHANGE_TYPES, change_ddl, entries_batch
from headwater.streaming.sources.log_filters import LogFilter, push
from headwater.streaming.sources.log_heads import LogHeads
from headwater.streaming.sources.log_offsets import LogOffset, LogRange, OffsetPosition, cut, offset_of, ranges_between
from headwater.streaming.sources.log_options import LogOptions, parse_options
from headwater.streaming.sources.open_stores import opened_kernel

if TYPE_CHECKING:
    from headwater.streaming.sources.server_heads import ServerHeads

ENTRIES_PER_READ = 500
"""The size of one bulk read and of one Arrow batch."""


class LogPartition(InputPartition):
    """The share of one task, small enough to be sent to it."""

    def __init__(self, realm: str, pointer: str, after: int, last: int, after_id: str = "", last_id: str = "") -> None:
        self.realm = realm
        self.pointer = pointer
        self.after = after
        self.last = last
        self.after_id = after_id
        """Entry id of `after`, if this share begins at the reader's position; else empty."""
        self.last_id = last_id
        """Entry id of `last`, if this share ends where the batch ends; else empty."""


class LogSource(DataSource):
    """Options: see `LogOptions`."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._options = parse_options(dict(options), LogOptions, "headwater")
        self._columns = self._options.wanted_columns

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> str:
        return change_ddl(self._columns)

    def reader(self, schema: StructType) -> LogReader:
        return LogReader(self._options)

    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802
        return LogStreamReader(self._options)


class LogReader(DataSourceReader):
    """One read up to the heads as of planning."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._filter = LogFilter()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        self._filter, left = push(filters)
        yield from left

    def partitions(self) -> Sequence[LogPartition]:
        heads = heads_of(self._options)
        start, end = heads.start(), heads.heads()
        if not self._options.has_given_end:
            heads.check_seen(start, end)
        ranges = [one for one in ranges_between(start, end) if self._filter.reads_pointer(one.pointer)]
        narrowed = [heads.narrowed(one, self._filter) for one in ranges]
        return _shares(heads.realm, narrowed, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)  # noqa: S101
        return read_share(self._options, partition, self._filter)


class LogStreamReader(DataSourceStreamReader):
    """Bounded micro-batches.

    ⚠ Spark tells a restarted reader its position by planning a batch, never when it asks for the newest offset: so the next
    batch begins wherever the last planned one ended.

    ⚠ No checkpoint holds the offset where a query begins: Spark asks for it again until the first batch is done. By then
    `latest` is a later head, and `earliest` a later floor. So the end of the first batch says where that batch begins; Spark
    plans it at once, even if it is empty.
    """

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._planned: LogOffset | None = None
        self._beginning: LogOffset | None = None
        """Where a new query begins, until its first batch is planned."""

    @functools.cached_property
    def _heads(self) -> LogHeads | ServerHeads:
        """Opened at first use on the driver: the reader itself is sent to the executors, and open stores are not."""
        return heads_of(self._options)

    @functools.cached_property
    def _until(self) -> LogOffset | None:
        return self._heads.heads() if self._options.until else None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return self._begin().as_json()

    def _begin(self) -> LogOffset:
        self._planned = self._beginning = self._heads.start()
        for name, position in self._planned.pointers.items():
            self._heads.check_not_expired(name, position.seq)
        return self._planned

    def latestOffset(self, *args: Any) -> dict[str, Any]:  # noqa: N802
        """Later versions of Spark pass their position and a limit."""
        start = offset_of(args[0]) if args and args[0] else self._planned or self._begin()
        heads = self._until or self._heads.moved_heads()
        if not self._options.has_given_end:
            self._heads.check_seen(start, heads)
        end = self._heads.bounded(start, heads, self._options.changes_per_batch)
        if start == self._beginning:
            return msgspec.structs.replace(end, begins=start.pointers).as_json()
        return (start if end.pointers == start.pointers else end).as_json()  # equal text means nothing new

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogPartition]:
        begin, stop = offset_of(start), offset_of(end)
        if stop.begins is not None and stop != begin:
            begin = LogOffset(stop.realm, stop.begins)
        if begin.realm != self._heads.realm:
            raise CursorReset(
                f"the checkpoint is of realm {begin.realm}, the log of {self._heads.realm}: it was deleted and re-created.",
                field="realm",
                remedy="Start again with a new checkpoint.",
            )
        self._planned, self._beginning = stop, None
        ranges = ranges_between(begin, stop)
        for one in ranges:
            self._heads.check_not_expired(one.pointer, one.after.seq)
        return _shares(self._heads.realm, ranges, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)  # noqa: S101
        return read_share(self._options, partition, LogFilter())

    def commit(self, end: dict[str, Any]) -> None:
        """Spark's checkpoint is the only record of what was read."""

    def stop(self) -> None:
        """The store stays open for the next query of this process."""


def heads_of(options: LogOptions) -> LogHeads | ServerHeads:
    """The heads of a server, if one is named; else of the store."""
    if not options.server:
        return LogHeads(options)
    from headwater.streaming.sources.server_heads import ServerHeads  # needs the client, the store does not

    return ServerHeads(options)


def read_share(options: LogOptions, share: LogPartition, wanted: LogFilter) -> Iterator[pa.RecordBatch]:
    if not options.server:
        return read_partition(options.store, share, wanted, options.wanted_columns)
    from headwater.streaming.sources.server_heads import read_server_range

    one = LogRange(share.pointer, OffsetPosition(share.after, share.after_id), OffsetPosition(share.last, share.last_id))
    return read_server_range(options, share.realm, one, wanted, options.wanted_columns)


def read_partition(
    store: str, share: LogPartition, wanted: LogFilter, columns: Sequence[str] = tuple(CHANGE_TYPES)
) -> Iterator[pa.RecordBatch]:
    """Oldest first; a share whose history was cut or replaced meanwhile fails as a whole."""
    kernel = opened_kernel(store, share.realm)
    log = PointerLog(kernel, share.pointer)
    head = log.head()
    after = share.after
    while after < share.last:
        seen = Position(after, bytes.fromhex(share.after_id) if after == share.after else b"")
        page = log.page(seen, min(ENTRIES_PER_READ, share.last - after), head)
        if page.to_seq == share.last and share.last_id not in ("", page.entries[-1].entry_id.hex()):
            raise _replaced(share, head)  # ⚠ it must end with the entry that the batch was planned to end with
        shown = [logged for logged in page.entries if wanted.shows_kind(logged.entry.kind)]
        if shown:
            yield entries_batch(shown, share.realm, columns)
        if page.to_seq == after:
            raise _replaced(share, head)
        after = page.to_seq


def _replaced(share: LogPartition, head: LogHead) -> CursorReset:
    return CursorReset(
        f"{share.pointer}: the entries that were planned are not in this history; it was replaced under the reader.",
        field="after",
        remedy="Start again with a new checkpoint.",
        oldest=head.row.floor,
        head=head.seq,
    )


def _shares(realm: str, ranges: Sequence[LogRange], options: LogOptions) -> list[LogPartition]:
    return [
        LogPartition(
            realm,
            one.pointer,
            after,
            last,
            one.after.entry_id if after == one.after.seq else "",
            one.last.entry_id if last == one.last.seq else "",
        )
        for one in ranges
        for after, last in cut(one, options.changes_per_split)
    ]
