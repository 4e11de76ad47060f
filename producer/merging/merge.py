"""A source commit enters; one merge entry on the target leaves, holding all that the source changed since both parted."""

from __future__ import annotations

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.log.log_entry import LogRecord, StoredSource
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.catalog_commit import require_branch
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.merging.ancestry import ancestors, commit_of, merge_bases
from headwater.producer.merging.apply_changes import (
    AppliedChanges,
    MergeRules,
    apply_changes,
    check_expected_head,
    check_namespaces,
)
from headwater.producer.merging.shared_state import changes_since
from headwater.schemas.change import Kind
from headwater.schemas.errors import MergeBaseExpired, ObjectNotFound


class MergePreview(msgspec.Struct, frozen=True):
    """What a merge would do to the head that it was shown."""

    base: LogRecord | None
    """The newest commit of both sides; None is the empty state."""
    brought: AppliedChanges
    already_merged: bool = False


class MergeRequest:
    """Squash: however many commits the source has, the target gets one. What is already merged adds nothing."""

    kind = Kind.MERGE

    def __init__(
        self,
        kernel: RealmKernel,
        source: LogRecord,
        source_pointer: str,
        meta: CommitMeta,
        *,
        rules: MergeRules | None = None,
        expected_head: bytes | None = None,
        request_id: str | None = None,
    ) -> None:
        self.request_id, self.request_id_is_callers = check_request_id(request_id)
        self._kernel = kernel
        self._source = commit_of(kernel.walk, source)
        self._source_pointer = source_pointer
        self._meta = check_meta(meta)
        self._rules = rules or MergeRules()
        self._expected_head = expected_head

    def plan(self, draft: Draft) -> Plan | None:
        preview = self.preview(draft)
        preview.brought.raise_conflicts()
        if not preview.brought.operations or self._source is None:
            return None
        return Plan(
            kind=Kind.MERGE,
            author=self._meta.author,
            message=self._meta.message,
            headers=self._meta.headers,
            operations=preview.brought.operations,
            source=StoredSource(self._source_pointer, self._source.entry_id),
        )

    def preview(self, draft: Draft) -> MergePreview:
        """The outcome for every key, conflicts included; nothing is written: a dry run is just this."""
        require_branch(draft)
        check_expected_head(draft, self._expected_head)
        walk = draft.walk
        target = None if draft.head.entry is None else commit_of(walk, LogRecord(draft.head.entry_id, draft.head.entry))
        if self._source is None or ancestors(walk, target).include(self._source):
            return MergePreview(self._source, AppliedChanges([], []), already_merged=True)
        bases = merge_bases(walk, target, self._source)
        try:
            changes = changes_since(self._kernel, bases, self._source)
        except ObjectNotFound as gone:
            raise MergeBaseExpired(
                "the state that both sides share has been swept.", field="from", remedy="Copy the tables over by a commit."
            ) from gone
        return MergePreview(bases[0] if bases else None, check_namespaces(draft, apply_changes(draft, changes, self._rules)))
