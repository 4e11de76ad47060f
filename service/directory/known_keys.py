"""The keys that content ids are known to have had: most in a table that never changes, what came later in a dict."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.persistence.index import encode_key
from headwater.persistence.log.log_entry import StoredOperation
from headwater.schemas.change import Op
from headwater.service.directory.key_table import EMPTY_TABLE, ID_BYTES, KeyTable

LATER_BYTES = 250
"""What an id and its key take in the dict."""


class KnownKeys:
    """⚠ Only candidates: an id counts at a key only if the state that was asked for holds it there. So a key is never wrong,
    and is not taken out when its content goes. One thread changes it; any thread may read."""

    def __init__(self, table: KeyTable = EMPTY_TABLE, left: int = 0) -> None:
        self._known: tuple[KeyTable, dict[bytes, tuple[bytes, ...]]] = (table, {})
        """⚠ Replaced together: a reader sees every key in one of the two."""
        self.left = left
        """Keys that no longer hold their id, as far as is known. With too many of them, everything is read again."""

    @property
    def table(self) -> KeyTable:
        return self._known[0]

    def __len__(self) -> int:
        table, later = self._known
        return len(table) + len(later)

    @property
    def size_bytes(self) -> int:
        table, later = self._known
        return table.size_bytes + LATER_BYTES * len(later)

    @property
    def later_count(self) -> int:
        return len(self._known[1])

    def keys_of(self, id: bytes) -> list[bytes]:
        table, later = self._known
        return sorted({*table.keys_of(id), *later.get(id, ())})

    def add(self, id: bytes, key: bytes) -> None:
        if len(id) == ID_BYTES and key not in self.keys_of(id):
            later = self._known[1]
            later[id] = (*later.get(id, ()), key)

    def add_all(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Adds a whole state directly to the table."""
        more = [one for one in pairs if len(one[0]) == ID_BYTES]
        self._known = (self.table.with_pairs([*self.later_pairs(), *more]), {})

    def later_pairs(self) -> list[tuple[bytes, bytes]]:
        return sorted((id, key) for id, keys in self._known[1].items() for key in keys)

    def merge(self) -> None:
        if self.later_count:
            self.add_all(())

    def apply(self, operations: Iterable[StoredOperation]) -> None:
        """Applies the operations of one commit."""
        for one in operations:
            if one.op is Op.DELETE or one.from_key is not None:
                self.left += 1
            if one.op is not Op.DELETE:
                self.add(one.content_id, encode_key(one.key))
