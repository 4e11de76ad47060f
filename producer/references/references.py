"""Looks up, lists, creates, assigns and deletes branches and tags; each move is one entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import ENTRY, Entry
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.catalog_commit import CommitResult, commit_result
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.owned_paths import require_movable
from headwater.producer.pointer_names import (
    ReferenceType,
    catalog_prefix,
    check_reference_name,
    parse_reference_pointer,
    reference_pointer,
    references_prefix,
)
from headwater.producer.references.reference_moves import AssignReference, CreateReference, DeleteReference
from headwater.producer.references.reference_resolution import ReferenceHead, ReferenceResolution, Resolved
from headwater.producer.references.reference_specs import DEFAULT_BRANCH
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY, object_id_of, time_text
from headwater.schemas.errors import InvalidInput, ReferenceProtected

PAGE_REFERENCES_MAX = 1_000
NAMES_SCANNED_MAX = 10_000
"""For one page: deleted references keep their names."""

_OTHER_TYPE = {ReferenceType.BRANCH: ReferenceType.TAG, ReferenceType.TAG: ReferenceType.BRANCH}


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A branch or tag as its row and newest entry describe it."""

    name: str
    type: ReferenceType
    pointer: str
    commit_id: str
    seq: int
    oldest_seq: int
    time: str
    """Of the newest entry."""
    deleted: bool


class ReferencePage(msgspec.Struct, frozen=True):
    references: list[Reference]
    next_token: str | None
    """Where the next page continues; None after the last."""


class References:
    """The branches and tags of one catalog."""

    def __init__(self, kernel: RealmKernel, catalog_id: int, default_branch: str = "main") -> None:
        self.default_branch = default_branch
        self._kernel = kernel
        self._catalog_id = catalog_id
        self._resolution = ReferenceResolution(kernel, catalog_id, default_branch)

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def resolve(self, spec: str, *, type: ReferenceType | None = None, field: str = "reference") -> Resolved:
        """Where `name`, `name@commit`, `name~n`, `name^n`, `name*time`, a commit id or a chain of those leads."""
        return self._resolution.resolve(spec, type=type, field=field)

    def get(self, name: str, *, type: ReferenceType | None = None, deleted_ok: bool = False) -> Reference:
        head = self._resolution.find(name, type=type) if deleted_ok else None
        return _reference_of(head or self._resolution.head(name, type=type))

    def list(
        self, *, type: ReferenceType | None = None, token: str | None = None, limit: int = 100, deleted: bool = False
    ) -> ReferencePage:
        """Branches by name, then tags by name. `deleted` shows those that are gone too: their logs can still be read."""
        if not 1 <= limit <= PAGE_REFERENCES_MAX:
            raise InvalidInput(f"a page of {limit}.", field="limit", remedy=f"Use 1 to {PAGE_REFERENCES_MAX}.")
        prefix = catalog_prefix(self._catalog_id) if type is None else references_prefix(self._catalog_id, type)
        found: list[Reference] = []
        after, scanned = token or "", 0
        while scanned < NAMES_SCANNED_MAX:
            names = self._kernel.store.backend.list_names(self._kernel.realm, prefix=prefix, after=after, limit=limit + 1)
            for reference in self._read(names):
                if reference.deleted and not deleted:
                    continue
                if len(found) == limit:
                    return ReferencePage(found, found[-1].pointer)
                found.append(reference)
            if len(names) <= limit:
                return ReferencePage(found, None)
            after, scanned = names[-1], scanned + len(names)
        return ReferencePage(found, after)

    def all(self, *, type: ReferenceType | None = None, deleted: bool = False) -> Iterator[Reference]:
        """Every branch by name, then every tag."""
        token: str | None = None
        while True:
            page = self.list(type=type, token=token, limit=PAGE_REFERENCES_MAX, deleted=deleted)
            yield from page.references
            token = page.next_token
            if token is None:
                return

    def _read(self, names: Sequence[str]) -> Sequence[Reference]:
        rows = self._kernel.store.backend.read_pointers(self._kernel.realm, names)
        started = [(name, rows[name]) for name in names if name in rows and rows[name].head]
        entries = self._kernel.objects.fetch_many(ENTRY, [object_id_of(row.head) for _, row in started])
        read = (_reference(name, row, entries[object_id_of(row.head)]) for name, row in started)
        return [reference for reference in read if reference is not None]

    # ── moving ──────────────────────────────────────────────────────────────────────────────────────────────

    def create(
        self,
        name: str,
        source: str | Resolved | None = DEFAULT_BRANCH,
        *,
        type: ReferenceType = ReferenceType.BRANCH,
        meta: CommitMeta,
        request_id: str | RequestKey | None = None,
    ) -> CommitResult:
        """A branch or tag at the source; `None` begins with the empty state. Costs the same for any number of tables. A
        name that was deleted may be used again: its log continues counting."""
        check_reference_name(name)
        target = self._target(source)
        request = CreateReference(
            self._kernel,
            target.logged,
            _with_message(meta, f"Create {type.lower()} {name} at {target.commit_id}"),
            request_id=request_id,
            name_taken=lambda: self._is_live(name, _OTHER_TYPE[type]),
        )
        return self._commit(reference_pointer(self._catalog_id, type, name), request)

    def assign(
        self,
        name: str,
        target: str | Resolved | None,
        *,
        expected_head: str | None = None,
        type: ReferenceType | None = None,
        meta: CommitMeta,
        request_id: str | RequestKey | None = None,
    ) -> CommitResult:
        """Move a branch or tag to any commit of the catalog; nothing is written if it is there already."""
        pointer = self._pointer_of(name, type)
        require_movable(self._kernel, pointer)
        to = self._target(target)
        meta = _with_message(meta, f"Assign {name} to {to.commit_id}")
        request = AssignReference(self._kernel, to.logged, meta, expected_head=expected_head, request_id=request_id)
        return self._commit(pointer, request)

    def delete(
        self,
        name: str,
        *,
        expected_head: str | None = None,
        type: ReferenceType | None = None,
        meta: CommitMeta,
        request_id: str | RequestKey | None = None,
    ) -> CommitResult:
        """The default branch stays. The log of what is deleted can still be read."""
        pointer = self._pointer_of(name, type)
        if pointer == reference_pointer(self._catalog_id, ReferenceType.BRANCH, self.default_branch):
            raise ReferenceProtected(
                f"{self.default_branch!r} is the default branch of its catalog.",
                field="reference",
                remedy="Drop the catalog, or assign the branch to another commit.",
            )
        require_movable(self._kernel, pointer)
        meta = _with_message(meta, f"Delete {name}")
        return self._commit(pointer, DeleteReference(meta, expected_head=expected_head, request_id=request_id))

    def _commit(self, pointer: str, request: CommitRequest) -> CommitResult:
        return commit_result(self._kernel, self._kernel.committer.commit(pointer, request))

    def _target(self, target: str | Resolved | None) -> Resolved:
        if isinstance(target, Resolved):
            return target
        return self._resolution.resolve(EMPTY.hex() if target is None else target, field="target")

    def _pointer_of(self, name: str, type: ReferenceType | None) -> str:
        """Of one that is or was there; whether it still is, its lane says."""
        if type is not None:
            return reference_pointer(self._catalog_id, type, self.default_branch if name == DEFAULT_BRANCH else name)
        found = self._resolution.find(name)
        return (found or self._resolution.head(name)).pointer

    def _is_live(self, name: str, type: ReferenceType) -> bool:
        found = self._resolution.find(name, type=type)
        return found is not None and found.newest.entry.kind is not Kind.DELETE


def _with_message(meta: CommitMeta, message: str) -> CommitMeta:
    return meta if meta.message else msgspec.structs.replace(meta, message=message)


def _reference_of(head: ReferenceHead) -> Reference:
    reference = _reference(head.pointer, head.row, head.newest.entry)
    if reference is None:
        raise ValueError(f"{head.pointer} is not a reference")
    return reference


def _reference(pointer: str, row: PointerRow, entry: Entry) -> Reference | None:
    """None for a pointer of the catalog that is neither branch nor tag."""
    named = parse_reference_pointer(pointer)
    if named is None:
        return None
    return Reference(
        name=named.name,
        type=named.type,
        pointer=pointer,
        commit_id=(entry.commit or row.head).hex(),
        seq=row.seq,
        oldest_seq=row.floor,
        time=time_text(entry.time),
        deleted=entry.kind is Kind.DELETE,
    )
