"""Merges a source commit into a branch: one entry with everything that the source changed since both diverged.

What both sides share and what the source changed since is worked out before the request waits for the target's lane, by the
thread that asks for the merge. The lane only looks whether that still holds, and works it out again where it does not.
"""

from __future__ import annotations

import threading
from typing import Self

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest
from headwater.persistence.index import encode_key
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord, StoredSource, place_of
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.catalog_commit import require_branch
from headwater.producer.commits.commit_gate import require_files_stay
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.commits.owned_paths import require_own_merge
from headwater.producer.forgotten_tables import require_none_forgotten
from headwater.producer.merging.ancestry import SharedHistory, shared_history
from headwater.producer.merging.apply_changes import (
    AppliedChanges,
    KeyChange,
    MergeRules,
    apply_changes,
    check_expected_head,
    check_namespaces,
)
from headwater.producer.merging.moved_target import still_shares
from headwater.producer.merging.shared_state import changes_since
from headwater.producer.references.reference_moves import is_same_history
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import HeadwaterError, MergeBaseExpired, ObjectNotFound, OutcomeUnknown, StoreUnavailable

TURN_SECONDS_MAX = 1.0
_TURNS = [threading.Lock() for _ in range(64)]


def commit_merge(kernel: RealmKernel, pointer: str, request: MergeRequest) -> CommitOutcome:
    """One merge into a branch at a time in a process: several would not be faster under one interpreter, would have to be
    prepared again behind each other, and commits would wait for all of them. After a long wait a merge continues anyway."""
    turn = _TURNS[hash((kernel.realm, pointer)) % len(_TURNS)]
    is_mine = turn.acquire(timeout=TURN_SECONDS_MAX)
    try:
        request.prepare(pointer)
        return kernel.committer.commit(pointer, request)
    finally:
        if is_mine:
            turn.release()


class MergePreview(msgspec.Struct, frozen=True):
    """What a merge would do to the head that it was shown."""

    base: LogRecord | None
    """The newest commit of both sides; None is the empty state."""
    applied: AppliedChanges
    already_merged: bool = False


class PreparedMerge(msgspec.Struct, frozen=True):
    """What a merge into one state of the target rests on; None is the empty state."""

    target: LogRecord | None
    shared: SharedHistory
    changes: list[KeyChange]


class DeclaredMerge(msgspec.Struct, frozen=True, array_like=True):
    """A merge as plain data, with what was worked out for it: the lane of another worker looks whether that still holds."""

    request_id: str
    request_id_is_callers: bool
    fingerprint: bytes
    source: LogRecord
    source_pointer: str
    meta: CommitMeta
    rules: MergeRules
    expected_head: bytes | None
    prepared: PreparedMerge | None
    history: str


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
        request_id: str | RequestKey | None = None,
        history: str | None = None,
    ) -> None:
        """`history` is that of the store before the source was looked up."""
        self.request_id, self.request_id_is_callers, self.fingerprint = check_request_id(request_id)
        self._kernel = kernel
        self._history = kernel.store.restores.history if history is None else history
        self._source = source
        self._source_pointer = source_pointer
        self._meta = check_meta(meta)
        self._rules = rules or MergeRules()
        self._expected_head = expected_head
        self._prepared: PreparedMerge | None = None
        self.keys_to_read: list[bytes] = []
        """What the lane looks up in bulk for all that wait together."""

    def declare(self) -> DeclaredMerge:
        return DeclaredMerge(
            self.request_id,
            self.request_id_is_callers,
            self.fingerprint,
            self._source,
            self._source_pointer,
            self._meta,
            self._rules,
            self._expected_head,
            self._prepared,
            self._history,
        )

    @classmethod
    def of(cls, kernel: RealmKernel, declared: DeclaredMerge) -> Self:
        made = cls(
            kernel,
            declared.source,
            declared.source_pointer,
            declared.meta,
            rules=declared.rules,
            expected_head=declared.expected_head,
            history=declared.history,
        )
        made.request_id, made.request_id_is_callers = declared.request_id, declared.request_id_is_callers
        made.fingerprint = declared.fingerprint
        if declared.prepared is not None:
            made._use(declared.prepared)
        return made

    def prepare(self, pointer: str) -> None:
        """Work out beforehand what does not need the lane. ⚠ Nothing is refused here: only the lane has the newest head."""
        row = self._kernel.read_pointer(pointer)
        if row is None or not row.head:
            return
        walk = self._kernel.walk
        try:
            target = walk.header(row.head)
            self._use(self._prepare(target, shared_history(walk, target, self._source)))
        except (StoreUnavailable, OutcomeUnknown):
            raise
        except HeadwaterError:
            return

    def _use(self, prepared: PreparedMerge) -> None:
        self._prepared = prepared
        self.keys_to_read = [encode_key(change.key) for change in prepared.changes]

    def plan(self, draft: Draft) -> Plan | None:
        history = self._kernel.store.restores.history
        if not is_same_history(self._kernel, self._history, [self._source]):
            self._history, self._prepared = history, None
        preview = self.preview(draft)
        preview.applied.raise_conflicts()
        if not preview.applied.operations or self._prepared is None:
            return None
        resolved = self._rules.resolved_by_caller(preview.applied.operations)
        require_own_merge(self._kernel, draft, preview.applied.operations, resolved)
        require_files_stay(self._kernel, draft, resolved)
        require_none_forgotten(self._kernel, preview.applied.operations)
        brought = self._prepared.shared.brought
        origin = next((place for place in brought or () if place.commit == self._source.commit), place_of(self._source))
        return Plan(
            kind=Kind.MERGE,
            author=self._meta.author,
            message=self._meta.message,
            headers=self._meta.headers,
            operations=preview.applied.operations,
            source=StoredSource(self._source_pointer, self._source.commit),
            origin=origin,
            brought=None if brought is None else tuple(place for place in brought if place is not origin),
        )

    def preview(self, draft: Draft) -> MergePreview:
        """The outcome for every key, conflicts included; nothing is written: a dry run is just this."""
        require_branch(draft)
        check_expected_head(draft, self._expected_head)
        walk, head = draft.walk, draft.head
        target = None if head.entry is None else LogRecord(head.entry_id, head.entry)
        if self._source.commit == EMPTY:
            return MergePreview(None, AppliedChanges([], []), already_merged=True)
        prepared = self._prepared
        if prepared is None or not still_shares(walk, prepared.target, target, prepared.shared):
            prepared = self._prepared = self._prepare(target, shared_history(walk, target, self._source))
        bases = prepared.shared.bases
        base = bases[0] if bases else None
        if base is not None and base.commit == self._source.commit:
            return MergePreview(base, AppliedChanges([], []), already_merged=True)
        return MergePreview(base, check_namespaces(draft, apply_changes(draft, prepared.changes, self._rules)))

    def _prepare(self, target: LogRecord | None, shared: SharedHistory) -> PreparedMerge:
        try:
            return PreparedMerge(target, shared, changes_since(self._kernel, shared.bases, self._source))
        except ObjectNotFound as gone:
            raise MergeBaseExpired(
                "the state that both sides share has been swept.", field="from", remedy="Copy the tables over by a commit."
            ) from gone


DECLARED_REQUESTS.register(MergeRequest, DeclaredRequest("merge", DeclaredMerge, MergeRequest.declare, MergeRequest.of))
