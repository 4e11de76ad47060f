"""A source and a branch enter; a merge or transplant leaves, done or tried, with what became of every key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord, parent
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.merging.apply_changes import AppliedChanges, KeyOutcome, MergeRules
from headwater.producer.merging.merge import MergePreview, MergeRequest, commit_merge
from headwater.producer.merging.transplant import TransplantRequest
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CommitConflict
from headwater.service.nessie.operations.catalog_view import CatalogView, Effective


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    applied: bool
    successful: bool
    head_before: bytes
    head_after: bytes
    ancestor: bytes | None = None
    """Where both sides parted; None for a transplant."""
    outcomes: Sequence[KeyOutcome] = ()
    refusal: CommitConflict | None = None


class WatchedMerge(MergeRequest):
    """Remembers what it saw when it was applied last: that is what was committed, or refused."""

    head: bytes = EMPTY
    seen: MergePreview | None = None

    def preview(self, draft: Draft) -> MergePreview:
        self.head = draft.head.commit
        self.seen = super().preview(draft)
        return self.seen

    @property
    def outcomes(self) -> list[KeyOutcome]:
        return [] if self.seen is None else self.seen.brought.outcomes

    @property
    def ancestor(self) -> bytes | None:
        if self.seen is None or self.seen.base is None:
            return EMPTY
        return self.seen.base.commit


class WatchedTransplant(TransplantRequest):
    head: bytes = EMPTY
    ancestor = None

    @property
    def outcomes(self) -> list[KeyOutcome]:
        """The last word on each key."""
        return list({outcome.key: outcome for outcome in self._seen}.values())

    def plan(self, draft: Draft) -> Iterator[Plan]:
        self.head, self._seen = draft.head.commit, []
        yield from super().plan(draft)

    def preview(self, draft: Draft) -> list[AppliedChanges]:
        self.head, self._seen = draft.head.commit, []
        return super().preview(draft)

    def _bring(self, draft: Draft, commit: LogRecord) -> AppliedChanges:
        brought = super()._bring(draft, commit)
        self._seen += brought.outcomes
        return brought

    _seen: list[KeyOutcome] = []


def merge_request(
    view: CatalogView, source: Effective, meta: CommitMeta, rules: MergeRules, request_id: str | RequestKey | None
) -> WatchedMerge:
    return WatchedMerge(view.kernel, source.logged, source.pointer, meta, rules=rules, request_id=request_id)


def run(view: CatalogView, branch: Effective, request: WatchedMerge | WatchedTransplant, *, dry_run: bool) -> MergeResult:
    """A conflict is a result here; whoever wants it as an error raises `refusal`."""
    landed, refusal = None, None
    try:
        if dry_run:
            tried = request.preview(view.draft(branch.pointer))
            for brought in [tried.brought] if isinstance(tried, MergePreview) else tried:
                brought.raise_conflicts()
        elif isinstance(request, WatchedMerge):
            landed = commit_merge(view.kernel, branch.pointer, request).logged
        else:
            landed = view.kernel.committer.commit(branch.pointer, request).logged
    except CommitConflict as conflict:
        refusal = conflict
    # By the entry itself: of a request that had landed before, nothing was seen now.
    before = request.head if landed is None or request.outcomes else parent(landed.entry)
    return MergeResult(
        applied=landed is not None,
        successful=refusal is None,
        head_before=before,
        head_after=before if landed is None else landed.commit,
        ancestor=request.ancestor,
        outcomes=request.outcomes,
        refusal=refusal,
    )
