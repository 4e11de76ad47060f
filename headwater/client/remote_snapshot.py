"""Reads the keys and contents of a state in pages, and says where to follow it from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.client.server_calls import ServerCalls
from headwater.producer.content.snapshots import ContentEntry
from headwater.schemas.change import KeyPath
from headwater.schemas.filters import is_under
from headwater.schemas.http.feed_json import StatePage


class RemoteSnapshot:
    """Everything that a reference held after one of its entries. Following the pointer's log after `seq` leaves no gap."""

    def __init__(self, calls: ServerCalls, first: StatePage) -> None:
        self.pointer = first.pointer
        self.seq = first.at.seq
        self.entry_id = first.at.entry_id
        self.commit_id = first.at.commit_id
        self.cursor = first.cursor
        self._calls = calls
        self._first = first

    def __iter__(self) -> Iterator[ContentEntry]:
        return self.entries()

    def entries(self, prefix: Sequence[str] = (), types: Sequence[str] | None = None) -> Iterator[ContentEntry]:
        """All keys below the prefix, in key order; others are skipped."""
        above = tuple(prefix)
        for one in self._calls.state_entries(self._first):
            if is_under(one.key, above) and one.key != above and (types is None or one.type in types):
                yield ContentEntry(key=one.key, type=one.type, content_id=one.content_id, value=one.value)

    def get(self, key: KeyPath) -> ContentEntry | None:
        return next((entry for entry in self.entries(key[:-1]) if entry.key == key), None)
