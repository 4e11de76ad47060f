"""Reads the encoded entries after positions in logs, from memory or from the store.

One pointer or many make no difference to a reader: many are merged by time, each pointer's entries in order, and the range of
each says how far the page goes. What is answered from memory is checked like what is read: the floor, the chain, the history
that the reader has seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from heapq import merge
from typing import NamedTuple, Protocol

from headwater.consumers.clients.local_feed import SCANNED_ENTRIES_MAX, LocalFeed
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.reading.pointer_log import LogHead, PointerLog, known_end
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change
from headwater.schemas.cursor import After, AfterSeq, Cursor, Edge, Position
from headwater.schemas.errors import CursorAhead, CursorGone
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.service.operations.encoded_entries import EncodedEntries, EncodedEntry, encoded_part

PAGE_BYTES_MAX = 8 * 1024 * 1024
"""A page ends after the Change that exceeds this, whatever its limit; it holds at least one."""
READ_ENTRIES_MAX = 250
"""At once from the store, so that large entries do not fill memory before the page is full."""
RECENT_ENTRIES = 1_000
"""So far behind the head an entry is old history for the cache: its readers come one by one."""


class View(Protocol):
    """What a restricted reader may see."""

    @property
    def key(self) -> Hashable:
        """Equal for readers who see the same."""
        ...

    def seen(self, change: Change) -> Change | None:
        """The Change itself, the part of it that may be seen, or None."""
        ...


class PointerPart(NamedTuple):
    """What a page has of one pointer: (start, end] was looked at."""

    start: Position
    end: Position
    head: LogHead


class Page(NamedTuple):
    entries: list[EncodedEntry]
    """What is shown, in order."""
    parts: dict[str, PointerPart]
    withheld: bool = False
    """Whether its reader may not see everything: ranges then cover more than what is shown, filter or not."""

    @property
    def advanced(self) -> bool:
        return any(part.end.seq > part.start.seq for part in self.parts.values())

    @property
    def ends(self) -> dict[str, Position]:
        return {pointer: part.end for pointer, part in self.parts.items()}


class FeedPages:
    """The feed of one realm instance."""

    def __init__(self, kernel: RealmKernel, watch: HeadWatch, encoded: EncodedEntries) -> None:
        self.kernel = kernel
        self.watch = watch
        self.local = LocalFeed(kernel, watch)
        self.encoded = encoded

    # ── where to begin ──────────────────────────────────────────────────────────────────────────────────────

    def start_from_memory(self, pointer: str, after: After) -> Position | None:
        """What the cursor means, if no store is needed to say so."""
        head = self.watch.known(pointer)
        if head is None:
            return None
        match after:
            case Edge.LATEST:
                return Position(head.seq, head.newest.entry_id)
            case Edge.EARLIEST:
                return Position(head.row.floor - 1, b"")
            case AfterSeq(seq):
                position = Position(seq, b"")
            case Cursor() if after.realm == self.kernel.realm and pointer in after.positions:
                position = after.positions[pointer]
            case _:
                return None
        if not head.row.floor - 1 <= position.seq <= head.seq:
            return None
        return position

    def start(self, pointer: str, after: After) -> Position:
        """What the cursor means, or why it means nothing here. May ask the store."""
        with _naming(pointer):
            return self.local.start(pointer, after)

    # ── pages ───────────────────────────────────────────────────────────────────────────────────────────────

    def from_memory(
        self,
        positions: Mapping[str, Position],
        limit: int,
        filter: Filter,
        bytes_max: int = PAGE_BYTES_MAX,
        view: View | None = None,
    ) -> Page | None:
        """The page if heads and entries are all in memory; None if the store must be asked."""
        heads: dict[str, LogHead] = {}
        runs: dict[str, list[EncodedEntry]] = {}
        for pointer, after in positions.items():
            head = self.watch.known(pointer) or self.watch.known_end(pointer)
            if head is None or not head.row.floor - 1 <= after.seq <= head.seq:
                return None
            heads[pointer] = head
            if head.seq > after.seq:
                if filter is not NO_FILTER or view is not None:
                    return None
                run = self.encoded.run(self._log(pointer), after.seq + 1, min(head.seq, after.seq + limit))
                if run is None or not _is_chain(run, after, head):
                    return None
                runs[pointer] = run
            elif after.entry_id and after.entry_id != head.newest.entry_id:
                return None
        return _merged(positions, heads, runs, limit, bytes_max)._replace(withheld=view is not None)

    def read(
        self,
        positions: Mapping[str, Position],
        limit: int,
        filter: Filter,
        bytes_max: int = PAGE_BYTES_MAX,
        view: View | None = None,
    ) -> Page:
        """The page, from the store where memory lacks it; without a view its reader may see everything."""
        heads = {pointer: self.watch.head_or_end(pointer) for pointer in positions}
        if filter is NO_FILTER and view is None:
            runs = {
                pointer: self._run(pointer, after, heads[pointer], limit, bytes_max) for pointer, after in positions.items()
            }
            return _merged(positions, heads, runs, limit, bytes_max)
        return self._filtered(positions, heads, limit, filter, bytes_max, view)

    def _run(self, pointer: str, after: Position, head: LogHead, limit: int, bytes_max: int) -> list[EncodedEntry]:
        """Entries after `after`; empty if there are none. Refuses what is expired, reset or beyond the head."""
        known = self.encoded.run(self._log(pointer), after.seq + 1, min(head.seq, after.seq + limit))
        if known and after.seq >= head.row.floor - 1 and _is_chain(known, after, head):
            return known
        run: list[EncodedEntry] = []
        size, seq = 0, after.seq
        while len(run) < limit and size <= bytes_max:
            logged = self._logged(pointer, Position(seq, after.entry_id if seq == after.seq else b""), head, limit - len(run))
            if not logged:
                break
            is_old = logged[0].entry.seq <= head.seq - RECENT_ENTRIES
            some = self.encoded.keep(self._log(pointer), logged, self.kernel.realm_name, is_old=is_old)
            run += some
            size += sum(len(entry.json) for entry in some)
            seq = some[-1].seq
        return run

    def _logged(self, pointer: str, after: Position, head: LogHead, limit: int) -> list[LogRecord]:
        with _naming(pointer):
            return PointerLog(self.kernel, pointer).page(after, min(limit, READ_ENTRIES_MAX), head).entries

    def _filtered(
        self,
        positions: Mapping[str, Position],
        heads: Mapping[str, LogHead],
        limit: int,
        filter: Filter,
        bytes_max: int,
        view: View | None,
    ) -> Page:
        """Looks at a bounded number of entries of each pointer, so that it ends; ranges say how far it came."""
        scanned = max(READ_ENTRIES_MAX, SCANNED_ENTRIES_MAX // len(positions))
        looked: dict[str, list[EncodedEntry]] = {}
        hidden: set[bytes] = set()
        for pointer, after in positions.items():
            looked[pointer] = []
            shown = 0
            for one in self._logged_run(pointer, after, heads[pointer], scanned):
                whole = change_of(one, self.kernel.realm_name)
                seen = whole if view is None else view.seen(whole)
                if seen is whole:
                    is_old = one.entry.seq <= heads[pointer].seq - RECENT_ENTRIES
                    looked[pointer] += self.encoded.keep(self._log(pointer), [one], self.kernel.realm_name, is_old=is_old)
                else:  # of this reader alone: never kept
                    looked[pointer].append(encoded_part(one, seen))
                if seen is not None and filter.shows(seen):
                    shown += 1
                    if shown == limit:
                        break
                else:
                    hidden.add(one.entry_id)
        return _merged(positions, heads, looked, limit, bytes_max, hidden)._replace(withheld=view is not None)

    def _logged_run(self, pointer: str, after: Position, head: LogHead, count: int) -> list[LogRecord]:
        found: list[LogRecord] = []
        position = after
        while len(found) < count:
            some = self._logged(pointer, position, head, count - len(found))
            if not some:
                break
            found += some
            position = Position(some[-1].entry.seq, some[-1].entry_id)
        return found

    def _log(self, pointer: str) -> str:
        return f"{self.kernel.realm}/{pointer}"


@contextmanager
def _naming(pointer: str) -> Iterator[None]:
    """A feed of many pointers says which one cannot continue."""
    try:
        yield
    except (CursorGone, CursorAhead) as error:
        error.facts["pointer"] = pointer
        raise


def _is_chain(run: list[EncodedEntry], after: Position, head: LogHead) -> bool:
    """Whether the entries follow each other and the reader's, and end in the head if they reach it."""
    previous = after.entry_id or run[0].previous
    for entry in run:
        if entry.previous != previous:
            return False
        previous = entry.entry_id
    return run[-1].seq < head.seq or previous == head.newest.entry_id


def _merged(
    positions: Mapping[str, Position],
    heads: Mapping[str, LogHead],
    runs: Mapping[str, list[EncodedEntry]],
    limit: int,
    bytes_max: int,
    hidden: set[bytes] | None = None,
) -> Page:
    """Entries of all pointers by time, up to the limit and the bound in bytes; each part ends where its entries end."""
    ends = {pointer: known_end(after, heads[pointer]) for pointer, after in positions.items()}
    shown: list[EncodedEntry] = []
    size = 0
    labelled = [[(entry.time, pointer, entry) for entry in run] for pointer, run in runs.items() if run]
    for _, pointer, entry in labelled[0] if len(labelled) == 1 else merge(*labelled, key=_time_and_pointer):
        if len(shown) == limit or size > bytes_max:
            break
        ends[pointer] = Position(entry.seq, entry.entry_id)
        if hidden is None or entry.entry_id not in hidden:
            shown.append(entry)
            size += len(entry.json)
    parts = {pointer: PointerPart(after, ends[pointer], heads[pointer]) for pointer, after in positions.items()}
    return Page(shown, parts)


def _time_and_pointer(labelled: tuple[int, str, EncodedEntry]) -> tuple[int, str]:
    return labelled[:2]
