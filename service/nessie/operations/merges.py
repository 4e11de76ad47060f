"""Merges and transplants, done or tried, with what became of every key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest, Report
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord, parent
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging.apply_changes import AppliedChanges, KeyOutcome, MergeRules
from headwater.producer.merging.merge import DeclaredMerge, MergePreview, MergeRequest, commit_merge
from headwater.producer.merging.transplant import DeclaredTransplant, TransplantRequest
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CommitConflict
from headwater.service.nessie.operations.catalog_view import CatalogView, Effective


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    applied: bool
    successful: bool
    head_before: bytes
    head_after: bytes
    ancestor: bytes | None = None
    """Where both sides diverged; None for a transplant."""
    outcomes: Sequence[KeyOutcome] = ()
    refusal: CommitConflict | None = None


class Seen(msgspec.Struct, frozen=True):
    """What a request saw when it was applied last: that is what was committed, or refused."""

    head: bytes = EMPTY
    ancestor: bytes | None = None
    outcomes: list[KeyOutcome] = []


class WatchedMerge(MergeRequest):
    seen = Seen(ancestor=EMPTY)

    def preview(self, draft: Draft) -> MergePreview:
        head = draft.head.commit
        self.seen = Seen(head, EMPTY)
        preview = super().preview(draft)
        base = EMPTY if preview.base is None else preview.base.commit
        self.seen = Seen(head, base, preview.applied.outcomes)
        return preview


class WatchedTransplant(TransplantRequest):
    seen = Seen()

    def plan(self, draft: Draft) -> Iterator[Plan]:
        self.seen = Seen(draft.head.commit)
        yield from super().plan(draft)

    def preview(self, draft: Draft) -> list[AppliedChanges]:
        self.seen = Seen(draft.head.commit)
        return super().preview(draft)

    def _apply(self, draft: Draft, commit: LogRecord) -> AppliedChanges:
        applied = super()._apply(draft, commit)
        last_words = {outcome.key: outcome for outcome in (*self.seen.outcomes, *applied.outcomes)}
        self.seen = Seen(self.seen.head, None, list(last_words.values()))
        return applied


def _take_seen(request: WatchedMerge | WatchedTransplant, seen: Seen) -> None:
    request.seen = seen


_REPORT: Report[Any, Seen] = Report(Seen, lambda request: request.seen, _take_seen)
DECLARED_REQUESTS.register(
    WatchedMerge, DeclaredRequest("watched-merge", DeclaredMerge, WatchedMerge.declare, WatchedMerge.of, _REPORT)
)
DECLARED_REQUESTS.register(
    WatchedTransplant,
    DeclaredRequest("watched-transplant", DeclaredTransplant, WatchedTransplant.declare, WatchedTransplant.of, _REPORT),
)


def merge_request(
    view: CatalogView, source: Effective, meta: CommitMeta, rules: MergeRules, request_id: str | RequestKey | None
) -> WatchedMerge:
    return WatchedMerge(
        view.kernel, source.logged, source.pointer, meta, rules=rules, request_id=request_id, history=view.history
    )


def run(view: CatalogView, branch: Effective, request: WatchedMerge | WatchedTransplant, *, dry_run: bool) -> MergeResult:
    """A conflict is a result here; a caller that wants an error raises `refusal`."""
    landed, refusal = None, None
    try:
        if dry_run:
            tried = request.preview(view.draft(branch.pointer))
            for applied in [tried.applied] if isinstance(tried, MergePreview) else tried:
                applied.raise_conflicts()
        elif isinstance(request, WatchedMerge):
            landed = commit_merge(view.kernel, branch.pointer, request).logged
        else:
            landed = view.kernel.committer.commit(branch.pointer, request).logged
    except CommitConflict as conflict:
        refusal = conflict
    # By the entry itself: of a request that had landed before, nothing was seen now.
    seen = request.seen
    before = seen.head if landed is None or seen.outcomes else parent(landed.entry)
    return MergeResult(
        applied=landed is not None,
        successful=refusal is None,
        head_before=before,
        head_after=before if landed is None else landed.commit,
        ancestor=seen.ancestor,
        outcomes=seen.outcomes,
        refusal=refusal,
    )
