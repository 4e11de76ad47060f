"""Resolves a reference spec to a pointer and a log entry.

`name@commit` must be in the history of the reference; a bare commit id may be in the log of any branch or tag of the catalog, a
deleted one's too. What lies below a floor is expired.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.producer.history.lineage import Lineage, empty_state, stored_entry
from headwater.producer.pointer_names import ReferenceType, parse_reference_pointer, reference_pointer
from headwater.producer.references.reference_specs import DEFAULT_BRANCH, ReferenceSpec, Step, StepKind, parse_reference_spec
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import ReferenceNotFound


class ReferenceHead(msgspec.Struct, frozen=True):
    """A branch or tag that is there: its row and newest entry."""

    name: str
    type: ReferenceType
    pointer: str
    row: PointerRow
    newest: LogRecord


class Resolved(msgspec.Struct, frozen=True):
    """Where a spec leads."""

    pointer: str
    """The pointer that the spec names; for a bare commit id the one in whose log it is."""
    logged: LogRecord
    """Its `commit` is what was asked for. It may belong to the log of another pointer that the named one stands on."""

    @property
    def commit_id(self) -> str:
        return self.logged.commit.hex()


class ReferenceResolution:
    """One per catalog. Every answer is read strongly."""

    def __init__(self, kernel: RealmKernel, catalog_id: int, default_branch: str = "main") -> None:
        self._kernel = kernel
        self._catalog_id = catalog_id
        self._default_branch = default_branch
        self._lineage = Lineage(kernel)

    def resolve(self, spec: str | ReferenceSpec, *, type: ReferenceType | None = None, field: str = "reference") -> Resolved:
        parsed = parse_reference_spec(spec, field) if isinstance(spec, str) else spec
        if parsed.name is not None:
            head = self.head(parsed.name, type=type)
            pointer, logged = head.pointer, head.newest
            if parsed.commit is not None:
                logged = self._in_history(head, parsed.commit)
        else:
            logged = self.commit(parsed.commit or EMPTY)
            pointer = logged.entry.pointer
        for step in parsed.steps:
            logged = self._step(logged, step)
        return Resolved(pointer, logged)

    def head(self, name: str, *, type: ReferenceType | None = None) -> ReferenceHead:
        """`ReferenceNotFound` for one that never was or was deleted. Of a branch and a tag of one name the branch is meant."""
        found = self.find(name, type=type)
        if found is None or found.newest.entry.kind is Kind.DELETE:
            what = "branch or tag" if type is None else type.lower()
            raise ReferenceNotFound(
                f"there is no {what} {name!r}.", field="reference", remedy="List the references, or create it."
            )
        return found

    def find(self, name: str, *, type: ReferenceType | None = None) -> ReferenceHead | None:
        """Also one that was deleted; None if there never was one."""
        name = self._default_branch if name == DEFAULT_BRANCH else name
        types = (ReferenceType.BRANCH, ReferenceType.TAG) if type is None else (type,)
        pointers = {reference_pointer(self._catalog_id, wanted, name): wanted for wanted in types}
        rows = self._kernel.store.backend.read_pointers(self._kernel.realm, list(pointers))
        heads = [
            ReferenceHead(name, pointers[pointer], pointer, row, self._kernel.walk.header(row.head))
            for pointer in pointers
            if (row := rows.get(pointer)) is not None and row.head
        ]
        live = [head for head in heads if head.newest.entry.kind is not Kind.DELETE]
        return next(iter(live or heads), None)

    def commit(self, commit: bytes) -> LogRecord:
        """The entry of that id in the log of some branch or tag of the catalog. ⚠ An object alone proves nothing: attempts
        that were lost leave entries behind, so the log is asked."""
        if commit == EMPTY:
            return empty_state(reference_pointer(self._catalog_id, ReferenceType.BRANCH, self._default_branch))
        entry = stored_entry(self._kernel, commit)
        named = None if entry is None else parse_reference_pointer(entry.pointer)
        if entry is None or named is None or named.catalog_id != self._catalog_id:
            raise _no_commit(commit)
        row = self._kernel.read_pointer(entry.pointer)
        if row is None or entry.seq > row.seq:
            raise _no_commit(commit)
        newest = self._kernel.walk.header(row.head)
        if entry.seq < row.floor:
            raise self._lineage.expired(newest, row.floor)
        found = self._kernel.walk.at(newest, entry.seq)
        if found.entry_id != commit:
            raise _no_commit(commit)
        return found

    def _in_history(self, head: ReferenceHead, commit: bytes) -> LogRecord:
        found = self._lineage.find(head.newest, commit)
        if found is None:
            raise ReferenceNotFound(
                f"{commit.hex()} is not in the history of {head.name!r}.",
                field="reference",
                remedy="Name the commit alone to look for it in all branches and tags.",
            )
        return found

    def _step(self, logged: LogRecord, step: Step) -> LogRecord:
        if step.kind is StepKind.TIME:
            return self._lineage.at_time(logged, step.number)
        if step.kind is StepKind.ANCESTOR or step.number in (0, 1):
            return self._lineage.nth(logged, step.number)
        itself = logged if not logged.entry.commit or logged.commit == EMPTY else self.commit(logged.commit)
        if step.number != 2 or itself.entry.source is None:
            raise ReferenceNotFound(
                f"{logged.commit.hex()} has no parent number {step.number}.",
                field="reference",
                remedy="Only merges have a second parent.",
            )
        return self.commit(itself.entry.source.commit)


def _no_commit(commit: bytes) -> ReferenceNotFound:
    return ReferenceNotFound(
        f"there is no commit {commit.hex()} in this catalog.", field="reference", remedy="Look it up in the log of a branch."
    )
