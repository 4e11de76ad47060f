"""A cache of log entries encoded as JSON, bounded by bytes.

An entry never changes, so its JSON is encoded once: for the writer's answer, for every page and for every event. Old history
has a part of the cache for itself: a reader of it from end to end does not push out the newest entries, which all others read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

import msgspec

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.schemas.change import Change

ENTRY_BYTES = 400
"""What a kept entry takes beside its JSON."""
OLD_PART = 2
"""Old history takes at most one part in so many."""

_encode = msgspec.json.Encoder().encode


class EncodedEntry(msgspec.Struct, frozen=True, gc=False):
    seq: int
    entry_id: bytes
    previous: bytes
    """Entry id of the predecessor: a page is checked to be one chain before it leaves."""
    time: int
    """Microseconds."""
    json: bytes


def encoded_entry(logged: LogRecord, realm_name: str) -> EncodedEntry:
    entry = logged.entry
    return EncodedEntry(entry.seq, logged.entry_id, entry.previous, entry.time, _encode(change_of(logged, realm_name)))


def encoded_part(logged: LogRecord, seen: Change | None) -> EncodedEntry:
    """An entry as a reader sees it who may not see all of it; without JSON if nothing of it may be seen."""
    entry = logged.entry
    return EncodedEntry(entry.seq, logged.entry_id, entry.previous, entry.time, b"" if seen is None else _encode(seen))


class EncodedEntries:
    """Entries by the log they are of and their seq. Reading takes no lock: a dictionary look-up is atomic."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self.encoded = 0
        self._logs: dict[str, dict[int, EncodedEntry]] = {}
        self._recent: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._old: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._old_bytes = 0
        self._lock = threading.Lock()

    def get(self, log: str, seq: int) -> EncodedEntry | None:
        entries = self._logs.get(log)
        return None if entries is None else entries.get(seq)

    def run(self, log: str, first_seq: int, last_seq: int) -> list[EncodedEntry] | None:
        """All of them, or None."""
        entries = self._logs.get(log)
        if entries is None:
            return None
        try:
            return [entries[seq] for seq in range(first_seq, last_seq + 1)]
        except KeyError:
            return None

    def keep(self, log: str, logged: Iterable[LogRecord], realm_name: str, *, is_old: bool = False) -> list[EncodedEntry]:
        """Those that are not kept yet are encoded now; `is_old` says that they are far behind the head."""
        kept = []
        for one in logged:
            found = self.get(log, one.entry.seq)
            if found is None or found.entry_id != one.entry_id:
                found = encoded_entry(one, realm_name)
                self._put(log, found, is_old)
            kept.append(found)
        return kept

    def clear(self) -> None:
        """After a restore: other entries have these numbers."""
        with self._lock:
            self._logs.clear()
            self._recent.clear()
            self._old.clear()
            self.bytes_used = self._old_bytes = 0

    def _put(self, log: str, entry: EncodedEntry, is_old: bool = False) -> None:
        weight = _weight(entry)
        with self._lock:
            self.encoded += 1
            if weight > self.bytes_max:
                return
            key = (log, entry.seq)
            if self.get(*key) is not None:
                self._drop(key)
            self._logs.setdefault(log, {})[entry.seq] = entry
            self.bytes_used += weight
            if is_old:
                self._old[key] = None
                self._old_bytes += weight
            else:
                self._recent[key] = None
            while self._old and (self._old_bytes > self.bytes_max // OLD_PART or self.bytes_used > self.bytes_max):
                self._drop(next(iter(self._old)))
            while self.bytes_used > self.bytes_max:
                self._drop(next(iter(self._recent)))

    def _drop(self, key: tuple[str, int]) -> None:
        log, seq = key
        entries = self._logs[log]
        weight = _weight(entries.pop(seq))
        self.bytes_used -= weight
        if key in self._old:
            del self._old[key]
            self._old_bytes -= weight
        else:
            del self._recent[key]
        if not entries:
            del self._logs[log]


def _weight(entry: EncodedEntry) -> int:
    return len(entry.json) + ENTRY_BYTES
