"""Makes sure that every content id of a state is known, by the least reading that is enough.

A log that was followed from one entry to another covers every state between them. A later state is covered by following the log
to it, a branch by the state that it began at, and what neither covers by a walk over its keys.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from headwater.persistence.index import children_bounds
from headwater.persistence.log.log_entry import LogRecord, StoredBase
from headwater.persistence.log.log_walk import has_entry
from headwater.persistence.reading.state import State
from headwater.persistence.records.directory_checkpoints import FollowedLog
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import COMMITTING_KINDS, Kind
from headwater.schemas.errors import CursorExpired, NotServing, ObjectNotFound
from headwater.service.directory.known_keys import KnownKeys

FOLLOWED_MAX = 10_000
"""Entries between: more are not followed, the keys are walked instead."""
_ENTRIES_AT_ONCE = 200
_WALK_KEYS = 1_000
_WALKED_MAX = 64
_LOGS_MAX = 10_000
"""Logs kept per catalog, the most recently used: otherwise every branch that was ever requested would have one."""
_BASES_MAX = 8
"""How far the state that a branch began at is followed from branch to branch."""
_JUMPS = frozenset({Kind.CREATE, Kind.ASSIGN})


class FollowedLogs:
    """One per catalog. One thread at a time calls `cover`; `covers` is for any."""

    def __init__(self, keys: KnownKeys, logs: Iterable[FollowedLog] = (), *, is_closing: Callable[[], bool]) -> None:
        self._keys = keys
        self._logs = {one.pointer: one for one in logs}
        self._unproven = set(self._logs)
        """⚠ Of a checkpoint: the store may have been restored since."""
        self.is_disproved = False
        """Whether that was found out."""
        self._walked: OrderedDict[bytes, None] = OrderedDict()
        """Entries whose states were walked, and that are too far from the rest of the log to be joined to it."""
        self._is_closing = is_closing
        self.walks = 0
        self.entries = 0
        """Followed so far."""

    def covers(self, at: LogRecord) -> bool:
        """Whether an id that is not known is not there."""
        log = self._logs.get(at.entry.pointer)
        if log is None or at.entry.pointer in self._unproven:
            return at.entry_id in self._walked
        return _is_in(log, at) or at.entry_id in self._walked

    def cover(self, kernel: RealmKernel, at: LogRecord, bases: int = 0) -> None:
        """`CursorExpired` for a state that is gone."""
        self._prove(kernel, at.entry.pointer)
        if self.covers(at):
            return
        while len(self._logs) > _LOGS_MAX:
            self._forget_oldest()
        log = self._logs.get(at.entry.pointer)
        if log is not None and at.entry.seq > log.last_seq and self._follow(kernel, log, at, bases):
            return
        if log is not None and at.entry.seq < log.first_seq:
            self._go_back(kernel, log, at)
        elif not self._begin(kernel, at, bases):
            self._walk(kernel, at)
            self._logs[at.entry.pointer] = _only(at)

    def newest_first(self) -> list[FollowedLog]:
        """The most recently used pointers, newest first."""
        return list(reversed(self._logs.values()))

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _prove(self, kernel: RealmKernel, pointer: str) -> None:
        """⚠ What a checkpoint says counts only while its last entry is in the log."""
        if pointer not in self._unproven:
            return
        log, row = self._logs[pointer], kernel.read_pointer(pointer)
        try:
            is_in_log = row is not None and bool(row.head) and has_entry(kernel.walk, row, log.last_seq, log.last_entry)
        except ObjectNotFound:
            is_in_log = False
        if not is_in_log:
            del self._logs[pointer]
            self.is_disproved = True
        self._unproven.discard(pointer)

    def _follow(self, kernel: RealmKernel, log: FollowedLog, at: LogRecord, bases: int) -> bool:
        """Whether the entries up to `at` are of the same log, are still there, and are applied now."""
        if at.entry.seq - log.last_seq > FOLLOWED_MAX:
            return False
        try:
            for one in _entries(kernel, at, log.last_seq + 1, at.entry.seq):
                if one.entry.seq == log.last_seq + 1 and one.entry.previous != log.last_entry:
                    return False
                self._apply(kernel, one, bases)
                moved = msgspec.structs.replace(self._taken(log), last_seq=one.entry.seq, last_entry=one.entry_id)
                self._logs[log.pointer] = log = moved
        except ObjectNotFound:
            return False
        return True

    def _forget_oldest(self) -> None:
        pointer = next(iter(self._logs))
        del self._logs[pointer]
        self._unproven.discard(pointer)

    def _taken(self, log: FollowedLog) -> FollowedLog:
        """Out of its place: what is put back comes last."""
        self._logs.pop(log.pointer, None)
        return log

    def _begin(self, kernel: RealmKernel, at: LogRecord, bases: int) -> bool:
        """Whether the branch began at a state that is covered and was followed from there."""
        first_seq = at.entry.segment_seq
        if not first_seq or at.entry.seq - first_seq > FOLLOWED_MAX:
            return False
        try:
            first = kernel.walk.at(at, first_seq)
            if first.entry.base is None or not self._covers_base(kernel, first.entry.base, bases):
                return False
            for one in _entries(kernel, at, first_seq + 1, at.entry.seq):
                self._apply(kernel, one, bases)
        except ObjectNotFound:
            return False
        self._logs[at.entry.pointer] = FollowedLog(at.entry.pointer, first_seq, first.entry_id, at.entry.seq, at.entry_id)
        return True

    def _covers_base(self, kernel: RealmKernel, base: StoredBase, bases: int) -> bool:
        if bases == _BASES_MAX or base.pointer not in self._logs:
            return False
        row = kernel.read_pointer(base.pointer)
        if row is None or not row.head or row.seq < base.seq:
            return False
        at = kernel.walk.at(kernel.walk.header(row.head), base.seq)
        self._prove(kernel, base.pointer)
        if base.pointer in self._logs:
            self.cover(kernel, at, bases + 1)
        return self.covers(at)

    def _apply(self, kernel: RealmKernel, one: LogRecord, bases: int) -> None:
        self.entries += 1
        if one.entry.kind in COMMITTING_KINDS:
            self._keys.apply(one.entry.operations)
        elif one.entry.kind is not Kind.DELETE:
            base = one.entry.base
            if one.entry.kind not in _JUMPS or (base is not None and not self._covers_base(kernel, base, bases)):
                self._walk(kernel, one)

    def _go_back(self, kernel: RealmKernel, log: FollowedLog, at: LogRecord) -> None:
        """An older state is walked, and joined to the rest of its log where that is near."""
        self._walk(kernel, at)
        self._walked[at.entry_id] = None
        while len(self._walked) > _WALKED_MAX:
            self._walked.popitem(last=False)
        if log.first_seq - at.entry.seq > FOLLOWED_MAX:
            return
        try:
            first = kernel.walk.load(log.first_entry)
            for one in _entries(kernel, first, at.entry.seq + 1, log.first_seq):
                if one.entry.seq == at.entry.seq + 1 and one.entry.previous != at.entry_id:
                    return
                self._apply(kernel, one, _BASES_MAX)
        except ObjectNotFound:
            return
        self._logs[log.pointer] = msgspec.structs.replace(log, first_seq=at.entry.seq, first_entry=at.entry_id)

    def _walk(self, kernel: RealmKernel, at: LogRecord) -> None:
        """All keys of a state. ⚠ The only step whose cost grows with the catalog."""
        self.walks += 1
        try:
            self._keys.add_all(list(self._pairs(kernel, at)))
        except ObjectNotFound as error:
            what = f"the state at {at.commit.hex()} has expired."
            raise CursorExpired(what, field="reference", remedy="Read the branch at a newer commit.") from error

    def _pairs(self, kernel: RealmKernel, at: LogRecord) -> Iterator[tuple[bytes, bytes]]:
        state = State(kernel, at)
        items = state.index.items(*children_bounds(()))
        while part := list(islice(items, _WALK_KEYS)):
            if self._is_closing():
                raise NotServing("the server is stopping.", remedy="Try again.")
            contents = state.contents(value for _, value in part)
            yield from ((contents[value.object_id].content_id, key) for key, value in part)


def _entries(kernel: RealmKernel, newest: LogRecord, first_seq: int, last_seq: int) -> Iterator[LogRecord]:
    """Oldest first, some at a time: a commit may have thousands of operations."""
    for start in range(first_seq, last_seq + 1, _ENTRIES_AT_ONCE):
        yield from kernel.walk.between(newest, start, min(start + _ENTRIES_AT_ONCE - 1, last_seq))


def _is_in(log: FollowedLog, at: LogRecord) -> bool:
    if at.entry.seq == log.last_seq:
        return at.entry_id == log.last_entry
    return log.first_seq <= at.entry.seq < log.last_seq


def _only(at: LogRecord) -> FollowedLog:
    return FollowedLog(at.entry.pointer, at.entry.seq, at.entry_id, at.entry.seq, at.entry_id)
