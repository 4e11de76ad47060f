"""Copies commits of another branch, oldest first, each as an entry of its own, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import msgspec

from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord, StoredSource
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.catalog_commit import require_branch
from headwater.producer.commits.commit_gate import require_files_stay
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.commits.owned_paths import require_own_merge
from headwater.producer.forgotten_tables import require_none_forgotten
from headwater.producer.merging.apply_changes import (
    AppliedChanges,
    MergeRules,
    apply_changes,
    check_expected_head,
    check_namespaces,
)
from headwater.producer.merging.logged_changes import changes_of
from headwater.producer.references.reference_moves import is_same_history
from headwater.schemas.change import COMMITTING_KINDS, Kind
from headwater.schemas.errors import InvalidInput

COMMITS_MAX = 10_000


class DeclaredTransplant(msgspec.Struct, frozen=True, array_like=True):
    """A transplant as plain data, for another worker."""

    request_id: str
    request_id_is_callers: bool
    fingerprint: bytes
    commits: list[LogRecord]
    meta: CommitMeta
    rules: MergeRules
    expected_head: bytes | None
    history: str


class TransplantRequest:
    """Each commit keeps its author and message, unless the caller gives one message for all."""

    kind = Kind.TRANSPLANT
    keys_to_read: tuple[bytes, ...] = ()

    def __init__(
        self,
        kernel: RealmKernel,
        commits: Sequence[LogRecord],
        meta: CommitMeta,
        *,
        rules: MergeRules | None = None,
        expected_head: bytes | None = None,
        request_id: str | RequestKey | None = None,
        history: str | None = None,
    ) -> None:
        """`history` is that of the store before the commits were looked up."""
        self.request_id, self.request_id_is_callers, self.fingerprint = check_request_id(request_id)
        self._kernel = kernel
        self._history = kernel.store.restores.history if history is None else history
        self._commits = check_commits(commits)
        self._meta = check_meta(meta)
        self._rules = rules or MergeRules()
        self._expected_head = expected_head

    def declare(self) -> DeclaredTransplant:
        return DeclaredTransplant(
            self.request_id,
            self.request_id_is_callers,
            self.fingerprint,
            list(self._commits),
            self._meta,
            self._rules,
            self._expected_head,
            self._history,
        )

    @classmethod
    def of(cls, kernel: RealmKernel, declared: DeclaredTransplant) -> Self:
        rules, expected_head = declared.rules, declared.expected_head
        made = cls(kernel, declared.commits, declared.meta, rules=rules, expected_head=expected_head, history=declared.history)
        made.request_id, made.request_id_is_callers = declared.request_id, declared.request_id_is_callers
        made.fingerprint = declared.fingerprint
        return made

    def plan(self, draft: Draft) -> Iterator[Plan]:
        is_same_history(self._kernel, self._history, self._commits)
        require_branch(draft)
        check_expected_head(draft, self._expected_head)
        for commit in self._commits:
            applied = self._apply(draft, commit)
            applied.raise_conflicts()
            if applied.operations:
                resolved = self._rules.resolved_by_caller(applied.operations)
                require_own_merge(self._kernel, draft, applied.operations, resolved)
                require_files_stay(self._kernel, draft, resolved)
                require_none_forgotten(self._kernel, applied.operations)
                yield self._entry(commit, applied)

    def preview(self, draft: Draft) -> list[AppliedChanges]:
        """The outcome for every key of every commit up to the first with a conflict; the draft is moved on, never written."""
        require_branch(draft)
        check_expected_head(draft, self._expected_head)
        outcomes = []
        for commit in self._commits:
            outcomes.append(applied := self._apply(draft, commit))
            if applied.conflicts:
                break
            if applied.operations:
                draft.add(self._entry(commit, applied), self.request_id)
        return outcomes

    def _apply(self, draft: Draft, commit: LogRecord) -> AppliedChanges:
        operations = draft.walk.whole(commit).entry.operations
        return check_namespaces(draft, apply_changes(draft, changes_of(operations), self._rules))

    def _entry(self, commit: LogRecord, applied: AppliedChanges) -> Plan:
        return Plan(
            kind=Kind.TRANSPLANT,
            author=commit.entry.author,
            message=self._meta.message or commit.entry.message,
            headers=commit.entry.headers | self._meta.headers,
            operations=applied.operations,
            source=StoredSource(commit.entry.pointer, commit.entry_id),
        )


DECLARED_REQUESTS.register(
    TransplantRequest,
    DeclaredRequest("transplant", DeclaredTransplant, TransplantRequest.declare, TransplantRequest.of),
)


def check_commits(commits: Sequence[LogRecord]) -> Sequence[LogRecord]:
    if not 1 <= len(commits) <= COMMITS_MAX:
        raise InvalidInput(f"{len(commits)} commits are given.", field="commits", remedy=f"Name 1 to {COMMITS_MAX}.")
    for commit in commits:
        if commit.entry.kind not in COMMITTING_KINDS:
            raise InvalidInput(
                f"{commit.entry_id.hex()} is a {commit.entry.kind} of {commit.entry.pointer!r}, not a commit.",
                field="commits",
                remedy="Name entries of kind commit, merge or transplant.",
            )
    return commits
