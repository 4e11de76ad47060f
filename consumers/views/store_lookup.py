"""Reads the state after an entry, or its Change, straight from an open store."""

from __future__ import annotations

from headwater.consumers.views.live_views import State, TableState
from headwater.persistence.index import decode_key
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.state import State as StoredState
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.entry_ids import content_id_text, time_text


class StoreLookup:
    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel

    def state_at(self, pointer: str, seq: int) -> State:
        """`ObjectNotFound` if it was swept: never a part of it."""
        logged = self._entry(pointer, seq)
        stored = StoredState(self._kernel, logged)
        found = list(stored.index.under(()))
        contents = stored.contents(value for _, value in found)
        return {
            decode_key(key): TableState(
                content_id=content_id_text(contents[value.object_id].content_id),
                type=contents[value.object_id].type,
                value=contents[value.object_id].value,
                seq=logged.entry.seq,
                time=time_text(logged.entry.time),
            )
            for key, value in found
        }

    def change_at(self, pointer: str, seq: int) -> Change:
        return change_of(self._kernel.walk.whole(self._entry(pointer, seq)), self._kernel.realm_name)

    def heads(self) -> dict[str, Position]:
        """The newest entry of every pointer that has one."""
        rows = self._kernel.store.backend.all_pointers(self._kernel.realm)
        return {name: Position(row.seq, row.head) for name, row in rows if row.head}

    def _entry(self, pointer: str, seq: int) -> LogRecord:
        return self._kernel.walk.at(PointerLog(self._kernel, pointer).head().newest, seq)
