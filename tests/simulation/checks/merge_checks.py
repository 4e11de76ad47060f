"""A merge that landed enters; it is compared with what the same code does on the history that nothing was ever swept from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headwater.persistence.backends.memory.memory_backend import MemoryBackend
from headwater.persistence.commit.draft import Draft
from headwater.persistence.log.head import load_head
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.persistence.store import Store, StoreOptions
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging.merge import MergeRequest
from headwater.schemas.errors import HeadwaterError
from tests.simulation.promises import broken
from tests.simulation.runtime.virtual import VirtualClock
from tests.simulation.world.model import ModelEntry

Shadow = Mapping[tuple[str, int], Mapping[int, ObjectRow]]


class UnsweptBackend(MemoryBackend):
    """The store as it would be without expiry and sweeps."""

    def __init__(self, real: MemoryBackend, shadow: Shadow) -> None:
        super().__init__(real.store, VirtualClock())
        self._shadow = shadow

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        found = {object_id: self._shadow.get((realm, object_id), {}) for object_id in ids}
        return {object_id: [rows[part] for part in sorted(rows)] for object_id, rows in found.items() if rows}

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        row = super().read_pointer(realm, name, decide=decide)
        return None if row is None else msgspec.structs.replace(row, floor=1, anchor=None)


def check_merge(real: MemoryBackend, shadow: Shadow, realm: str, logged: LogRecord, log: Sequence[ModelEntry]) -> None:
    """`log` is the target's, up to the entry before the merge."""
    kernel = Store(UnsweptBackend(real, shadow), StoreOptions(cache_bytes=0), VirtualClock()).kernel(realm)
    source, entry = logged.entry.source, logged.entry
    assert source is not None
    before = log[-1].logged if log else None
    row = PointerRow(created_at=0) if before is None else PointerRow(head=before.entry_id, seq=before.entry.seq, created_at=0)
    try:
        request = MergeRequest(kernel, kernel.walk.load(source.commit), source.pointer, CommitMeta("oracle"))
        draft = Draft(entry.pointer, load_head(kernel.objects, row), kernel.objects, kernel.store, VirtualClock())
        expected = {op.key: op.after for op in request.preview(draft).applied.operations}
    except HeadwaterError as error:
        broken("merge", f"{entry.pointer}: entry {entry.seq} merges what whole history refuses: {error}")
        return
    found = {op.key: op.after for op in entry.operations}
    if found != expected:
        broken("merge", f"{entry.pointer}: entry {entry.seq} from {source.pointer} brings {found}, by whole history {expected}")
