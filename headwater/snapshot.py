"""Keys and contents at one entry, read on demand, and the seq from which to follow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.persistence.log.log_entry import LogRecord
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.change import KeyPath

PAGE_KEYS = 1_000


class Snapshot:
    """Everything that a reference held after one of its entries. Following the pointer's log after `seq` leaves no seam."""

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
        page = self._snapshots.page(self._at, prefix=prefix, types=types, limit=PAGE_KEYS)
        yield from page.entries
        while page.next_token is not None:
            page = self._snapshots.page(self._at, prefix=prefix, types=types, limit=PAGE_KEYS, token=page.next_token)
            yield from page.entries

    def get(self, key: KeyPath) -> ContentEntry | None:
        return self._snapshots.get(self._at, [key]).get(key)
