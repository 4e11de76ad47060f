"""Reads the Changes of any pointer of an open store for an audit, and the states to compare them with."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.consumers.audit.replay import Replayed, State, replay
from headwater.persistence.index import decode_key
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.persistence.reading.state import State as StoredState
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Base, Change
from headwater.schemas.entry_ids import content_id_text
from headwater.schemas.errors import CursorExpired, ObjectNotFound, PointerNotFound

BASES_MAX = 1_000
"""Branches of branches that one replay follows."""


class StoreHistory:
    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel

    def pointers(self) -> Iterator[str]:
        """All with a history, in order of name."""
        rows = self._kernel.store.backend.all_pointers(self._kernel.realm)
        return (name for name, row in rows if row.head)

    def head(self, pointer: str) -> LogHead:
        return PointerLog(self._kernel, pointer).head()

    def changes(self, pointer: str, after_seq: int, to_seq: int) -> Iterator[Change]:
        """Entries (after_seq, to_seq], oldest first."""
        for logged in PointerLog(self._kernel, pointer).forward(after_seq):
            if logged.entry.seq > to_seq:
                return
            yield change_of(logged, self._kernel.realm_name)

    def position(self, pointer: str, cursor: str) -> int:
        """The seq of the newest entry at a commit or not later than a time."""
        log = PointerLog(self._kernel, pointer)
        return log.position(cursor, log.head())

    def stored_state(self, pointer: str, seq: int) -> State:
        """As the index has it; a state with a missing part is expired."""
        if seq == 0:
            return {}
        logged = self._kernel.walk.at(self.head(pointer).newest, seq)
        try:
            return self._state_of(logged)
        except ObjectNotFound as gone:
            raise CursorExpired(f"{pointer}: the state at entry {seq} has been swept.", field="at", oldest=seq) from gone

    def replayed_state(self, pointer: str, to_seq: int, depth: int = 0) -> State:
        """As the Changes add up: from the first entry, or over the oldest state that is left where history was cut."""
        if depth > BASES_MAX:
            raise PointerNotFound(f"more than {BASES_MAX} branches stand on one another.", field="pointer")
        floor = self.head(pointer).row.floor
        if to_seq < floor:
            return self.stored_state(pointer, to_seq)
        start = 0 if floor == 1 else floor
        state = self.stored_state(pointer, start)
        return replay(self.changes(pointer, start, to_seq), lambda base: self._base_state(base, depth), state)

    def _base_state(self, base: Base, depth: int) -> State:
        return self.replayed_state(base.pointer, base.seq, depth + 1) if base.seq else {}

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
