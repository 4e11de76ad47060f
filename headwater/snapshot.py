"""Keys and contents at one entry, read on demand, and the seq from which to follow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.persistence.log.log_entry import LogRecord
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import KeyPath


class Snapshot:
    """Everything that a reference held after one of its entries. Following the pointer's log after `seq` leaves no gap."""

    def __init__(self, snapshots: Snapshots, at: LogRecord) -> None:
        self.pointer = at.entry.pointer
        self.seq = at.entry.seq
        self.entry_id = at.entry_id.hex()
        self.commit_id = at.commit.hex()
        self._snapshots = snapshots
        self._at = at

    def __iter__(self) -> Iterator[ContentEntry]:
        return self.entries()

    def entries(self, prefix: Sequence[str] = (), types: Sequence[str] | None = None) -> Iterator[ContentEntry]:
        """All below the prefix, in key order."""
        return self._snapshots.entries(self._at, prefix=prefix, types=types)

    def get(self, key: KeyPath) -> ContentEntry | None:
        return self._snapshots.get(self._at, [key]).get(key)
