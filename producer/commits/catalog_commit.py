"""Plans prepared operations against the head of a branch: a commit, all conflicts together, or nothing to do.

`expected_head` is strict: the branch must stand at just that commit. `base_commit` is what the caller has read: commits that
came since are no conflict unless they touched the same keys. Both may be given; neither means "whatever is there".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest
from headwater.persistence.index import Index, decode_key, encode_key
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.commit_gate import require_files_stay
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.commits.conflicts import (
    ConflictDetail,
    HeadContent,
    HeadFacts,
    ancestors_of,
    check_conflicts,
    conflict_error,
    namespaces_removed,
    removed_keys,
    unexpected_hash,
)
from headwater.producer.commits.operations import (
    CatalogOperation,
    Prepared,
    PreparedOperations,
    encoded_keys,
    operations_fingerprint,
    prepare,
)
from headwater.producer.commits.owned_paths import require_own_paths
from headwater.producer.history.lineage import Lineage
from headwater.producer.pointer_names import ReferenceType, parse_reference_pointer
from headwater.schemas.change import COMMITTING_KINDS, Change, KeyPath, Kind, Op
from headwater.schemas.entry_ids import EMPTY, parse_id
from headwater.schemas.errors import CursorExpired, InvalidInput, ObjectNotFound, ReferenceNotFound, ReferenceProtected


class CommitResult(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The result of a commit or a reference move."""

    commit_id: str
    """The reference's commit after it."""
    seq: int
    replayed: bool = False
    """The same request id had been committed before: this is that commit."""
    returned: Change | None = None
    """The Change as a server returned it …"""
    logged: LogRecord | None = None
    """… or its entry as this process committed it …"""
    realm: str = ""
    """… in the realm of this name."""

    @functools.cached_property
    def change(self) -> Change | None:
        """None when there was nothing to do. Made when it is asked for: most callers want the commit id alone."""
        return self.returned if self.logged is None else change_of(self.logged, self.realm)

    def outcome(self, pointer: str) -> CommitOutcome:
        """As the engine gave it."""
        return CommitOutcome(pointer, self.logged, self.seq, parse_id(self.commit_id), self.replayed)


class DeclaredCommit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A commit as plain data, for another worker."""

    request_id: str
    request_id_is_callers: bool
    fingerprint: bytes
    operations: tuple[Prepared, ...]
    meta: CommitMeta
    expected_head: bytes | None
    base_commit: bytes | None
    skip_equal_puts: bool
    connector_id: str = ""


class CatalogCommit:
    """One commit to one branch. Everything that needs no head is checked when it is made."""

    kind = Kind.COMMIT

    def __init__(
        self,
        kernel: RealmKernel,
        operations: Sequence[CatalogOperation] | PreparedOperations,
        meta: CommitMeta,
        *,
        request_id: str | RequestKey | None = None,
        expected_head: str | None = None,
        base_commit: str | None = None,
        skip_equal_puts: bool = False,
        connector_id: str = "",
    ) -> None:
        """`connector_id` is given by a connector alone: what lies below its destination is its own to write."""
        self.request_id, self.request_id_is_callers, self.fingerprint = check_request_id(request_id)
        self._kernel = kernel
        self._prepared = operations if isinstance(operations, PreparedOperations) else prepare(operations)
        self._meta = check_meta(meta)
        self._expected_head = None if expected_head is None else parse_id(expected_head, field="expected_head")
        self._base_commit = None if base_commit is None else parse_id(base_commit, field="base_commit")
        self._skip_equal_puts = skip_equal_puts
        self._connector_id = connector_id
        self._base: Mapping[KeyPath, HeadContent] | None = None
        if base_commit is None:
            _refuse_empty_reads(self._prepared)
        if isinstance(request_id, str):
            self.fingerprint = operations_fingerprint(self._prepared, meta.message)

    def declare(self) -> DeclaredCommit:
        return DeclaredCommit(
            self.request_id,
            self.request_id_is_callers,
            self.fingerprint,
            self._prepared.operations,
            self._meta,
            self._expected_head,
            self._base_commit,
            self._skip_equal_puts,
            self._connector_id,
        )

    @classmethod
    def of(cls, kernel: RealmKernel, declared: DeclaredCommit) -> CatalogCommit:
        expected, base = declared.expected_head, declared.base_commit
        made = cls(
            kernel,
            PreparedOperations(declared.operations, encoded_keys(declared.operations)),
            declared.meta,
            expected_head=None if expected is None else expected.hex(),
            base_commit=None if base is None else base.hex(),
            skip_equal_puts=declared.skip_equal_puts,
            connector_id=declared.connector_id,
        )
        made.request_id, made.request_id_is_callers = declared.request_id, declared.request_id_is_callers
        made.fingerprint = declared.fingerprint
        return made

    @property
    def keys_to_read(self) -> Iterable[bytes]:
        return self._prepared.encoded.values()

    def plan(self, draft: Draft) -> Plan | None:
        require_branch(draft)
        hash_conflicts, base = self._check_hashes(draft)
        facts = read_facts(draft, self._prepared, base)
        verdict = check_conflicts(self._prepared.operations, facts, skip_equal_puts=self._skip_equal_puts)
        if hash_conflicts or verdict.conflicts:
            raise conflict_error([*hash_conflicts, *verdict.conflicts])
        if not verdict.planned:
            return None
        require_own_paths(self._kernel, draft, verdict.planned, self._connector_id)
        require_files_stay(self._kernel, draft, verdict.planned)
        meta = self._meta
        return Plan(
            kind=Kind.COMMIT, author=meta.author, message=meta.message, headers=meta.headers, operations=verdict.planned
        )

    def _check_hashes(self, draft: Draft) -> tuple[list[ConflictDetail], Mapping[KeyPath, HeadContent] | None]:
        conflicts = []
        if self._expected_head is not None and self._expected_head != draft.head.commit:
            conflicts.append(_not_at(draft, self._expected_head))
        if self._base_commit is None or self._base_commit == draft.head.commit:
            return conflicts, None
        try:
            if not self._descends(draft, self._base_commit):
                conflicts.append(unexpected_hash(f"{self._base_commit.hex()} is not in the history of {draft.pointer}."))
                return conflicts, None
            return conflicts, self._base_facts(self._base_commit)
        except (CursorExpired, ObjectNotFound):
            conflicts.append(unexpected_hash(f"the history after {self._base_commit.hex()} has expired."))
            return conflicts, None

    def _descends(self, draft: Draft, base: bytes) -> bool:
        if any(made.commit == base for made in draft.entries):
            return True
        stored = _newest_stored(self._kernel, draft)
        row = draft.head.row
        if stored is None or row is None:
            return base == EMPTY
        return Lineage(self._kernel, {draft.pointer: row.floor}).find(stored, base) is not None

    def _base_facts(self, base: bytes) -> Mapping[KeyPath, HeadContent]:
        """Facts of an immutable state: read once, however often the commit is applied."""
        if self._base is None:
            self._base = {} if base == EMPTY else _state_facts(self._kernel, base, self._prepared)
        return self._base


DECLARED_REQUESTS.register(CatalogCommit, DeclaredRequest("commit", DeclaredCommit, CatalogCommit.declare, CatalogCommit.of))


# ── what a plan reads ───────────────────────────────────────────────────────────────────────────────────────


def require_live(draft: Draft) -> None:
    """⚠ Nothing is committed to a branch that is not there."""
    entry = draft.head.entry
    if entry is None or entry.kind is Kind.DELETE:
        raise reference_not_found(draft.pointer)


def require_branch(draft: Draft) -> None:
    """⚠ A tag takes no commits: it is created, assigned and deleted."""
    require_live(draft)
    named = parse_reference_pointer(draft.pointer)
    if named is not None and named.type is ReferenceType.TAG:
        raise ReferenceProtected(
            f"{named.name!r} is a tag.", field="reference", remedy="Commit to a branch, or assign the tag."
        )


def read_facts(draft: Draft, prepared: PreparedOperations, base: Mapping[KeyPath, HeadContent] | None = None) -> HeadFacts:
    """Two index lookups and one bulk read of contents, however many operations there are."""
    index = draft.index
    at_keys = index.get_many(prepared.encoded.values())
    one = next(iter(at_keys.values())) if len(at_keys) == 1 else None
    contents = draft.contents(at_keys.values()) if one is None else {one.object_id: draft.content(one)}
    found = {
        key: HeadContent(contents[value.object_id], value.object_id, value.tag)
        for key, encoded in prepared.encoded.items()
        if (value := at_keys.get(encoded)) is not None
    }
    return HeadFacts(
        found=found,
        ancestor_tags=_ancestor_tags(index, prepared, found),
        left_below=_left_below(index, prepared, found),
        base=base,
    )


def _ancestor_tags(index: Index, prepared: PreparedOperations, found: Mapping[KeyPath, HeadContent]) -> dict[KeyPath, int]:
    wanted: dict[KeyPath, bytes] = {}
    for operation in prepared.operations:
        if (operation.op is Op.PUT or operation.op is Op.RENAME) and operation.key not in found:
            for ancestor in ancestors_of(operation.key):
                if ancestor not in prepared.encoded and ancestor not in wanted:
                    wanted[ancestor] = encode_key(ancestor)
    if not wanted:
        return {}
    values = index.get_many(wanted.values())
    return {ancestor: values[encoded].tag for ancestor, encoded in wanted.items() if encoded in values}


def _left_below(index: Index, prepared: PreparedOperations, found: Mapping[KeyPath, HeadContent]) -> dict[KeyPath, KeyPath]:
    """For each removed namespace, a key below it that the commit does not remove, if there is one."""
    namespaces = namespaces_removed(prepared.operations, found)
    if not namespaces:
        return {}
    going = {prepared.encoded[key] for key in removed_keys(prepared.operations)}
    left: dict[KeyPath, KeyPath] = {}
    for namespace in namespaces:
        staying = next((key for key, _ in index.under(namespace) if key not in going), None)
        if staying is not None:
            left[namespace] = decode_key(staying)
    return left


def _state_facts(kernel: RealmKernel, commit: bytes, prepared: PreparedOperations) -> dict[KeyPath, HeadContent]:
    state = State(kernel, kernel.walk.verified_header(commit))
    values = state.index.get_many(prepared.encoded.values())
    contents = state.contents(values.values())
    return {
        key: HeadContent(contents[value.object_id], value.object_id, value.tag)
        for key, encoded in prepared.encoded.items()
        if (value := values.get(encoded)) is not None
    }


def _newest_stored(kernel: RealmKernel, draft: Draft) -> LogRecord | None:
    """The newest commit below the draft's own that the store has."""
    for made in reversed(draft.entries):
        if made.entry.kind not in COMMITTING_KINDS:
            return None if made.commit == EMPTY else kernel.walk.header(made.commit)
    row = draft.head.row
    return kernel.walk.header(row.head) if row is not None and row.head else None


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


def commit_result(kernel: RealmKernel, answer: CommitOutcome) -> CommitResult:
    return CommitResult(
        logged=answer.logged,
        realm=kernel.realm_name,
        commit_id=answer.head_commit.hex(),
        seq=answer.head_seq,
        replayed=answer.replayed,
    )


def reference_not_found(pointer: str) -> ReferenceNotFound:
    named = parse_reference_pointer(pointer)
    what = f"pointer {pointer!r}" if named is None else f"{named.type.lower()} {named.name!r}"
    return ReferenceNotFound(
        f"there is no {what}.", field="reference", remedy="List the references, or create it.", pointer=pointer
    )


def _not_at(draft: Draft, expected: bytes) -> ConflictDetail:
    return unexpected_hash(f"{draft.pointer} is at {draft.head.commit.hex()}, not at {expected.hex()}.")


def _refuse_empty_reads(prepared: PreparedOperations) -> None:
    for position, operation in enumerate(prepared.operations):
        if operation.op is None and not operation.expects_something:
            raise InvalidInput(
                f"'{'.'.join(operation.key)}' must be unchanged, but it is not said since when.",
                field=f"operations[{position}]",
                remedy="Say what is expected there, or give base_commit.",
            )
