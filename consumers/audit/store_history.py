"""Reads the Changes of any pointer of an open store for an audit, and the states to compare them with."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.consumers.audit.replay import Replayed, State
from headwater.persistence.index import decode_key
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.persistence.reading.state import State as StoredState
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import content_id_text
from headwater.schemas.errors import CursorExpired, ObjectNotFound


class StoreHistory:
    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel

    def pointers(self) -> Iterator[str]:
        rows = self._kernel.store.backend.all_pointers(self._kernel.realm)
        return (name for name, row in rows if row.head)

    def head(self, pointer: str) -> LogHead:
        return PointerLog(self._kernel, pointer).head()

    def range(self, pointer: str) -> tuple[int, int]:
        head = self.head(pointer)
        return head.row.floor, head.seq

    def anchor(self, pointer: str) -> str | None:
        anchor = self.head(pointer).row.anchor
        return None if anchor is None else anchor.entry_id.hex()

    def changes(self, pointer: str, after_seq: int, to_seq: int) -> Iterator[Change]:
        for logged in PointerLog(self._kernel, pointer).forward(after_seq):
            if logged.entry.seq > to_seq:
                return
            yield change_of(logged, self._kernel.realm_name)

    def position(self, pointer: str, cursor: str) -> int:
        log = PointerLog(self._kernel, pointer)
        return log.position(cursor, log.head())

    def stored_state(self, pointer: str, seq: int) -> State:
        if seq == 0:
            return {}
        logged = self._kernel.walk.at(self.head(pointer).newest, seq)
        try:
            return self._state_of(logged)
        except ObjectNotFound as gone:
            raise CursorExpired(f"{pointer}: the state at entry {seq} has been swept.", field="at", oldest=seq) from gone

    def _state_of(self, logged: LogRecord) -> State:
        state = StoredState(self._kernel, logged)
        found = list(state.index.items())
        contents = state.contents(value for _, value in found)
        return {
            decode_key(key): Replayed(
                content_id_text(contents[value.object_id].content_id),
                contents[value.object_id].type,
                contents[value.object_id].value,
            )
            for key, value in found
        }
