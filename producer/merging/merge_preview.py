"""Shows what a merge would do to each key of a branch, without writing anything."""

from __future__ import annotations

from headwater.persistence.commit.draft import Draft
from headwater.persistence.log.head import load_head
from headwater.persistence.store import RealmKernel
from headwater.producer.merging.apply_changes import KeyOutcome
from headwater.producer.merging.merge import MergeRequest
from headwater.schemas.http.merge_json import ConflictInfo, MergedKeyInfo, MergePreview


def preview_merge(kernel: RealmKernel, pointer: str, request: MergeRequest) -> MergePreview:
    head = load_head(kernel.objects, kernel.read_pointer(pointer))
    preview = request.preview(Draft(pointer, head, kernel.objects, kernel.store, kernel.store.clock))
    return MergePreview(
        base=None if preview.base is None else preview.base.entry_id.hex(),
        already_merged=preview.already_merged,
        keys=[_key(outcome) for outcome in preview.applied.outcomes],
    )


def _key(outcome: KeyOutcome) -> MergedKeyInfo:
    conflict = outcome.conflict
    shown = None if conflict is None else ConflictInfo(kind=str(conflict.kind), message=conflict.message)
    return MergedKeyInfo(key=outcome.key, verdict=str(outcome.verdict), conflict=shown)
