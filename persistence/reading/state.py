"""The state at a log entry: keys, contents, and what a pointer that branches here inherits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.persistence.commit.draft import BaseState
from headwater.persistence.index import Index, IndexObject, IndexRoot, IndexValue, encode_key
from headwater.persistence.log.head import as_index_objects, load_tail
from headwater.persistence.log.log_entry import (
    CONTENT,
    Content,
    LogRecord,
    StoredBase,
    place_of,
    reachable_only_as_head,
    tail_ids,
)
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath


class State:
    """What a pointer held after one of its entries. Reads lazily; immutable; an object that is gone is `ObjectNotFound`."""

    def __init__(self, kernel: RealmKernel, logged: LogRecord) -> None:
        self.logged = logged
        self._objects = kernel.objects
        self.index = Index(
            self._load, IndexRoot(logged.entry.levels), load_tail(kernel.objects, logged.entry, logged.object_id)
        )

    def content(self, key: KeyPath) -> Content | None:
        value = self.index.get(encode_key(key))
        return None if value is None else self._objects.fetch(CONTENT, value.object_id)

    def contents(self, values: Iterable[IndexValue]) -> dict[int, Content]:
        """By object id, in one bulk read."""
        return self._objects.fetch_many(CONTENT, [value.object_id for value in values])

    def _load(self, ids: Sequence[int]) -> dict[int, IndexObject]:
        return as_index_objects(self._objects.fetch_any(ids))


def base_state(logged: LogRecord) -> BaseState:
    """What a pointer that is created or assigned at this entry starts from."""
    return BaseState(
        base=StoredBase(logged.entry.pointer, logged.entry.seq, logged.commit),
        origin=place_of(logged),
        levels=logged.entry.levels,
        tail_ids=tail_ids(logged.entry, logged.object_id),
        only_as_head=reachable_only_as_head(logged.entry, logged.object_id),
    )
