"""A cache of log entries encoded as JSON, bounded by bytes.

An entry never changes, so its JSON is encoded once: for the writer's answer, for every page and for every event.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

import msgspec

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.schemas.change import Change

ENTRY_BYTES = 400
"""What a kept entry takes beside its JSON."""

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
        self._order: deque[tuple[str, int]] = deque()
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

    def keep(self, log: str, logged: Iterable[LogRecord], realm_name: str) -> list[EncodedEntry]:
        """Those that are not kept yet are encoded now."""
        kept = []
        for one in logged:
            found = self.get(log, one.entry.seq)
            if found is None or found.entry_id != one.entry_id:
                found = encoded_entry(one, realm_name)
                self._put(log, found)
            kept.append(found)
        return kept

    def clear(self) -> None:
        """After a restore: other entries have these numbers."""
        with self._lock:
            self._logs.clear()
            self._order.clear()
            self.bytes_used = 0

    def _put(self, log: str, entry: EncodedEntry) -> None:
        weight = len(entry.json) + ENTRY_BYTES
        with self._lock:
            self.encoded += 1
            if weight > self.bytes_max:
                return
            entries = self._logs.setdefault(log, {})
            replaced = entries.get(entry.seq)
            entries[entry.seq] = entry
            if replaced is None:
                self._order.append((log, entry.seq))
                self.bytes_used += weight
            else:
                self.bytes_used += len(entry.json) - len(replaced.json)
            while self.bytes_used > self.bytes_max:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        log, seq = self._order.popleft()
        entries = self._logs[log]
        self.bytes_used -= len(entries.pop(seq).json) + ENTRY_BYTES
        if not entries:
            del self._logs[log]
