"""Plans the entry that creates, assigns or deletes a branch or tag.

⚠ create and assign name a base at or above the floor of the pointer that it was found through: the floor is read strongly
within the plan, so after the pointer's own row, and a fence that comes in between makes the CAS fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Self

import msgspec

from headwater.persistence.commit.draft import BaseState, Draft, Plan
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import has_entry
from headwater.persistence.reading.state import base_state
from headwater.persistence.store import RealmKernel
from headwater.producer.commits.catalog_commit import require_live
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.commits.conflicts import conflict_error, unexpected_hash
from headwater.producer.forgotten_tables import require_remembered
from headwater.producer.history.lineage import FLOOR_OF_NOTHING, Lineage
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY, parse_id
from headwater.schemas.errors import ReferenceExists, ReferenceNotFound


class DeclaredMove(msgspec.Struct, frozen=True, array_like=True):
    """An assign or delete as plain data, for another worker. A create is always of a pointer that no worker holds yet."""

    request_id: str
    request_id_is_callers: bool
    fingerprint: bytes
    meta: CommitMeta
    expected_head: bytes | None
    target: LogRecord | None = None


class ReferenceMove:
    """What all three have in common: who, why, once, and where the caller thinks the reference is."""

    keys_to_read: tuple[bytes, ...] = ()

    def __init__(self, meta: CommitMeta, request_id: str | RequestKey | None, expected_head: str | None = None) -> None:
        self.request_id, self.request_id_is_callers, self.fingerprint = check_request_id(request_id)
        self._meta = check_meta(meta)
        self._expected_head = None if expected_head is None else parse_id(expected_head, field="expected_head")

    def _declare(self, target: LogRecord | None = None) -> DeclaredMove:
        return DeclaredMove(
            self.request_id, self.request_id_is_callers, self.fingerprint, self._meta, self._expected_head, target
        )

    def _as_declared(self, declared: DeclaredMove) -> Self:
        self.request_id, self.request_id_is_callers = declared.request_id, declared.request_id_is_callers
        self.fingerprint, self._expected_head = declared.fingerprint, declared.expected_head
        return self

    def _plan(self, kind: Kind, base: BaseState | None = None) -> Plan:
        meta = self._meta
        return Plan(kind=kind, author=meta.author, message=meta.message, headers=meta.headers, base=base)

    def _check_expected(self, draft: Draft) -> None:
        if self._expected_head is not None and self._expected_head != draft.head.commit:
            message = f"{draft.pointer} is at {draft.head.commit.hex()}, not at {self._expected_head.hex()}."
            raise conflict_error([unexpected_hash(message)])


class CreateReference(ReferenceMove):
    kind = Kind.CREATE

    def __init__(
        self,
        kernel: RealmKernel,
        target: LogRecord,
        meta: CommitMeta,
        *,
        request_id: str | RequestKey | None = None,
        name_taken: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(meta, request_id)
        self._kernel = kernel
        self._target = target
        self._name_taken = name_taken

    def plan(self, draft: Draft) -> Plan | None:
        entry = draft.head.entry
        if (entry is not None and entry.kind is not Kind.DELETE) or self._name_taken():
            raise ReferenceExists(
                f"{draft.pointer} cannot be created: a branch or tag of that name exists.",
                field="reference",
                remedy="Choose another name, or assign the one that is there.",
                pointer=draft.pointer,
            )
        return self._plan(Kind.CREATE, checked_base(self._kernel, self._target))


class AssignReference(ReferenceMove):
    kind = Kind.ASSIGN

    def __init__(
        self,
        kernel: RealmKernel,
        target: LogRecord,
        meta: CommitMeta,
        *,
        expected_head: str | None = None,
        request_id: str | RequestKey | None = None,
    ) -> None:
        super().__init__(meta, request_id, expected_head)
        self._kernel = kernel
        self._target = target

    def declare(self) -> DeclaredMove:
        return self._declare(self._target)

    @classmethod
    def of(cls, kernel: RealmKernel, declared: DeclaredMove) -> AssignReference:
        if declared.target is None:
            raise ValueError("an assign has no target")
        return cls(kernel, declared.target, declared.meta)._as_declared(declared)

    def plan(self, draft: Draft) -> Plan | None:
        require_live(draft)
        self._check_expected(draft)
        if draft.head.commit == self._target.commit:
            return None
        return self._plan(Kind.ASSIGN, checked_base(self._kernel, self._target))


class DeleteReference(ReferenceMove):
    kind = Kind.DELETE

    def __init__(
        self, meta: CommitMeta, *, expected_head: str | None = None, request_id: str | RequestKey | None = None
    ) -> None:
        super().__init__(meta, request_id, expected_head)

    def declare(self) -> DeclaredMove:
        return self._declare()

    @classmethod
    def of(cls, _: RealmKernel, declared: DeclaredMove) -> DeleteReference:
        return cls(declared.meta)._as_declared(declared)

    def plan(self, draft: Draft) -> Plan | None:
        require_live(draft)
        self._check_expected(draft)
        return self._plan(Kind.DELETE)


DECLARED_REQUESTS.register(
    AssignReference, DeclaredRequest("assign", DeclaredMove, AssignReference.declare, AssignReference.of)
)
DECLARED_REQUESTS.register(
    DeleteReference, DeclaredRequest("delete", DeclaredMove, DeleteReference.declare, DeleteReference.of)
)


def checked_base(kernel: RealmKernel, target: LogRecord) -> BaseState | None:
    """The state to start from, None for the empty one; `CursorExpired` if its history has been cut meanwhile."""
    if target.commit == EMPTY:
        return None
    row = kernel.read_pointer(target.entry.pointer)
    floor = FLOOR_OF_NOTHING if row is None else row.floor
    if row is None or target.entry.seq < floor:
        raise Lineage(kernel).expired(target, floor)
    if not has_entry(kernel.walk, row, target.entry.seq, target.entry_id):
        raise lost_base(target)
    if row.seq != target.entry.seq:  # what a head holds is in use
        require_remembered(kernel, target)
    return base_state(target)


def is_same_history(kernel: RealmKernel, history: str, targets: Iterable[LogRecord]) -> bool:
    """Whether the store is still of the history in which the targets were looked up; if not, they are in their logs all the
    same, or `ReferenceNotFound`. ⚠ Neither the CAS nor the copy of the data that a commit names would notice, for both are
    read after the restore."""
    if kernel.store.restores.history == history:
        return True
    for target in targets:
        checked_base(kernel, target)
    return False


def lost_base(target: LogRecord) -> ReferenceNotFound:
    """⚠ The store was restored from a backup after the target was read: the own row's CAS would not notice."""
    return ReferenceNotFound(
        f"entry {target.entry.seq} of {target.entry.pointer} is not in its log any more.",
        field="at",
        remedy="The store was restored from a backup. Look the target up again.",
        pointer=target.entry.pointer,
        seq=target.entry.seq,
    )
