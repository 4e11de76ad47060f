"""Checks operations against what the head holds at their keys: planned operations, or every conflict together. Pure.

The caller reads for the rules in two steps: `keys_to_read` says which keys matter, `namespaces_removed` below which of them it
must look for a key that would be left behind. The rules judge the state that the whole commit would leave, so the order of the
operations means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from headwater.persistence.commit.draft import PlannedOperation
from headwater.persistence.log.log_entry import Content
from headwater.producer.commits.operations import Prepared
from headwater.producer.content.content_types import NAMESPACE
from headwater.producer.json_safety import same_value
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.errors import CommitConflict

CONFLICTS_SHOWN_MAX = 3


class ConflictKind(StrEnum):
    KEY_EXISTS = "KEY_EXISTS"
    KEY_DOES_NOT_EXIST = "KEY_DOES_NOT_EXIST"
    VALUE_DIFFERS = "VALUE_DIFFERS"
    CONTENT_ID_DIFFERS = "CONTENT_ID_DIFFERS"
    PAYLOAD_DIFFERS = "PAYLOAD_DIFFERS"
    """Another content type."""
    NAMESPACE_ABSENT = "NAMESPACE_ABSENT"
    NAMESPACE_NOT_EMPTY = "NAMESPACE_NOT_EMPTY"
    NOT_A_NAMESPACE = "NOT_A_NAMESPACE"
    UNEXPECTED_HASH = "UNEXPECTED_HASH"
    """The reference is not where the caller thinks; of no single key."""


class ConflictDetail(msgspec.Struct, frozen=True):
    kind: ConflictKind
    key: KeyPath
    """Empty for UNEXPECTED_HASH."""
    message: str


class HeadContent(msgspec.Struct, frozen=True, gc=False):
    """The content at a key, with its object id and tag."""

    content: Content
    object_id: int
    tag: int


class HeadFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that the rules need to know of the head."""

    found: Mapping[KeyPath, HeadContent]
    """At the keys that operations name; a free key is left out."""
    ancestor_tags: Mapping[KeyPath, int]
    """Content type tags at the ancestors of keys that are new; an absent one is left out."""
    left_below: Mapping[KeyPath, KeyPath] = {}
    """For each namespace that is removed: a key below it that is at the head and is not removed."""
    base: Mapping[KeyPath, HeadContent] | None = None
    """What the keys held at the commit that the caller has read; None if the caller gave none."""


class ConflictResult(msgspec.Struct, frozen=True, gc=False):
    """Either operations or conflicts; both are empty when nothing is to be done."""

    planned: list[PlannedOperation]
    conflicts: list[ConflictDetail]


# ── what the caller must read ───────────────────────────────────────────────────────────────────────────────


def ancestors_of(key: KeyPath) -> Iterator[KeyPath]:
    """The namespaces that a key needs, outermost first."""
    return (key[:length] for length in range(1, len(key)))


def ancestors_to_read(operations: Iterable[Prepared]) -> set[KeyPath]:
    """Keys beside those that the operations name whose content type matters."""
    return {
        ancestor
        for operation in operations
        if operation.op is Op.PUT or operation.op is Op.RENAME
        for ancestor in ancestors_of(operation.key)
    }


def removed_keys(operations: Iterable[Prepared]) -> set[KeyPath]:
    return {operation.source for operation in operations if operation.op is Op.DELETE or operation.op is Op.RENAME}


def namespaces_removed(operations: Iterable[Prepared], found: Mapping[KeyPath, HeadContent]) -> list[KeyPath]:
    """Deleted or renamed namespaces: what stays below them would have no namespace."""
    removed = removed_keys(operations)
    if not removed:  # the usual commit only puts
        return []
    return [key for key in removed if key in found and found[key].content.type == NAMESPACE.name]


# ── the rules ───────────────────────────────────────────────────────────────────────────────────────────────


def check_conflicts(operations: Sequence[Prepared], facts: HeadFacts, *, skip_equal_puts: bool = False) -> ConflictResult:
    """`skip_equal_puts` leaves out puts of what is there already."""
    conflicts = _Conflicts()
    for operation in operations:
        _check_expectation(operation, facts, conflicts)
        _check_own_key(operation, facts, conflicts)
    _check_namespaces(operations, facts, conflicts)
    if conflicts.details:
        return ConflictResult([], list(conflicts.details.values()))
    planned = [
        _planned(operation, facts)
        for operation in operations
        if operation.op is not None and not (skip_equal_puts and _puts_what_is_there(operation, facts))
    ]
    return ConflictResult(planned, [])


def namespace_conflicts(operations: Sequence[Prepared], facts: HeadFacts) -> list[ConflictDetail]:
    """Only what is wrong with the namespaces: for operations that come from elsewhere and were judged there."""
    conflicts = _Conflicts()
    _check_namespaces(operations, facts, conflicts)
    return list(conflicts.details.values())


class _Conflicts:
    """Each kind once for a key, in the order in which they are met."""

    def __init__(self) -> None:
        self.details: dict[tuple[ConflictKind, KeyPath], ConflictDetail] = {}

    def add(self, kind: ConflictKind, key: KeyPath, message: str) -> None:
        self.details.setdefault((kind, key), ConflictDetail(kind, key, message))


def _check_expectation(operation: Prepared, facts: HeadFacts, conflicts: _Conflicts) -> None:
    """What the caller said the key holds, and what it held when the caller read it."""
    key = operation.source
    found = facts.found.get(key)
    if operation.must_not_exist and found is not None:
        conflicts.add(ConflictKind.KEY_EXISTS, key, f"{_shown(key)} exists already.")
    if operation.expected is not None or operation.expected_content_id:
        if found is None:
            conflicts.add(ConflictKind.KEY_DOES_NOT_EXIST, key, f"{_shown(key)} does not exist.")
        else:
            _check_content(operation, found.content, conflicts)
    if facts.base is not None:
        for touched in dict.fromkeys((key, operation.key)):
            _check_against_base(touched, facts.base.get(touched), facts.found.get(touched), conflicts)


def _check_content(operation: Prepared, now: Content, conflicts: _Conflicts) -> None:
    key, expected = operation.source, operation.expected
    if operation.expected_content_id and operation.expected_content_id != now.content_id:
        conflicts.add(ConflictKind.CONTENT_ID_DIFFERS, key, f"{_shown(key)} is another content than the expected one.")
    if expected is not None and expected.type != now.type:
        conflicts.add(ConflictKind.PAYLOAD_DIFFERS, key, f"{_shown(key)} is a {now.type}, not a {expected.type}.")
    elif expected is not None and not same_value(expected.value, now.value):
        conflicts.add(ConflictKind.VALUE_DIFFERS, key, f"{_shown(key)} has changed: it is not the expected value.")


def _check_against_base(key: KeyPath, base: HeadContent | None, now: HeadContent | None, conflicts: _Conflicts) -> None:
    """By value: a key that was changed and changed back reads as it did."""
    if base is None and now is not None:
        conflicts.add(ConflictKind.KEY_EXISTS, key, f"{_shown(key)} has been created since the base commit.")
    elif base is not None and now is None:
        conflicts.add(ConflictKind.KEY_DOES_NOT_EXIST, key, f"{_shown(key)} has been removed since the base commit.")
    elif base is not None and now is not None and base.object_id != now.object_id:
        if base.content.content_id != now.content.content_id:
            conflicts.add(ConflictKind.CONTENT_ID_DIFFERS, key, f"{_shown(key)} is another content than at the base commit.")
        if base.content.type != now.content.type:
            conflicts.add(ConflictKind.PAYLOAD_DIFFERS, key, f"{_shown(key)} was a {base.content.type} at the base commit.")
        elif not same_value(base.content.value, now.content.value):
            conflicts.add(ConflictKind.VALUE_DIFFERS, key, f"{_shown(key)} has changed since the base commit.")


def _check_own_key(operation: Prepared, facts: HeadFacts, conflicts: _Conflicts) -> None:
    """What the operation requires regardless of the caller's expectations."""
    key = operation.source
    found = facts.found.get(key)
    if operation.op is Op.PUT:
        if found is None or operation.content is None:
            return
        if found.content.type != operation.content.type:
            message = f"{_shown(key)} is a {found.content.type}, which a put of a {operation.content.type} cannot replace."
            conflicts.add(ConflictKind.PAYLOAD_DIFFERS, key, message)
        if operation.content_id_is_callers and operation.content_id != found.content.content_id:
            conflicts.add(ConflictKind.CONTENT_ID_DIFFERS, key, f"{_shown(key)} has another content id than the given one.")
    elif operation.op is not None:
        if found is None:
            conflicts.add(ConflictKind.KEY_DOES_NOT_EXIST, key, f"{_shown(key)} does not exist.")
        if operation.op is Op.RENAME and operation.key in facts.found:
            conflicts.add(ConflictKind.KEY_EXISTS, operation.key, f"{_shown(operation.key)} exists already.")


def _check_namespaces(operations: Sequence[Prepared], facts: HeadFacts, conflicts: _Conflicts) -> None:
    """Every key of the state after the commit has its namespaces."""
    for namespace, left in facts.left_below.items():
        conflicts.add(ConflictKind.NAMESPACE_NOT_EMPTY, namespace, f"{_shown(namespace)} still holds {_shown(left)}.")
    arriving = {op.key: op for op in operations if op.op is Op.PUT or op.op is Op.RENAME}
    new_below = [key for key in arriving if len(key) > 1 and key not in facts.found]
    leaving = removed_keys(operations) if new_below else set()
    for key in new_below:
        for ancestor in ancestors_of(key):
            _check_ancestor(ancestor, key, arriving.get(ancestor), ancestor in leaving, facts, conflicts)


def _check_ancestor(
    ancestor: KeyPath, key: KeyPath, arrives: Prepared | None, leaves: bool, facts: HeadFacts, conflicts: _Conflicts
) -> None:
    if arrives is not None:
        is_namespace = _type_after(arrives, facts) in (NAMESPACE.name, None)
    elif ancestor in facts.found:
        is_namespace = facts.found[ancestor].content.type == NAMESPACE.name
        if is_namespace and leaves:
            message = f"{_shown(ancestor)} cannot go: this commit adds {_shown(key)}."
            conflicts.add(ConflictKind.NAMESPACE_NOT_EMPTY, ancestor, message)
    elif ancestor in facts.ancestor_tags:
        is_namespace = facts.ancestor_tags[ancestor] == NAMESPACE.tag
    else:
        conflicts.add(ConflictKind.NAMESPACE_ABSENT, ancestor, f"{_shown(key)} needs the namespace {_shown(ancestor)}.")
        return
    if not is_namespace:
        conflicts.add(
            ConflictKind.NOT_A_NAMESPACE, ancestor, f"{_shown(ancestor)} is not a namespace, so it cannot hold {_shown(key)}."
        )


def _type_after(arrives: Prepared, facts: HeadFacts) -> str | None:
    """None for a rename of a key that does not exist, which is a conflict of its own."""
    if arrives.content is not None:
        return arrives.content.type
    found = facts.found.get(arrives.source)
    return None if found is None else found.content.type


# ── what the rules allow ────────────────────────────────────────────────────────────────────────────────────


def _planned(operation: Prepared, facts: HeadFacts) -> PlannedOperation:
    found = facts.found.get(operation.source)
    before = None if found is None else found.content.value
    before_id = 0 if found is None else found.object_id
    if operation.op is Op.PUT and operation.content is not None:
        return PlannedOperation(
            op=Op.PUT,
            key=operation.key,
            content_id=operation.content_id if found is None else found.content.content_id,
            type=operation.content.type,
            tag=operation.content.tag,
            after=operation.content.value,
            before=before,
            before_id=before_id,
        )
    if found is None or operation.op is None:
        raise ValueError("a conflict went unseen")
    return PlannedOperation(
        op=operation.op,
        key=operation.key,
        content_id=found.content.content_id,
        type=found.content.type,
        tag=found.tag,
        after=before if operation.op is Op.RENAME else None,
        before=before,
        before_id=before_id,
        from_key=operation.from_key,
    )


def _puts_what_is_there(operation: Prepared, facts: HeadFacts) -> bool:
    found = facts.found.get(operation.key)
    return operation.content is not None and found is not None and same_value(found.content.value, operation.content.value)


def conflict_error(conflicts: Sequence[ConflictDetail]) -> CommitConflict:
    """All of them in the facts, the first few in words."""
    more = len(conflicts) - CONFLICTS_SHOWN_MAX
    shown = " ".join(f"{conflict.kind}: {conflict.message}" for conflict in conflicts[:CONFLICTS_SHOWN_MAX])
    return CommitConflict(
        shown + (f" And {more} more." if more > 0 else ""),
        remedy="Read the branch again and adapt the commit.",
        conflicts=[{"kind": str(one.kind), "key": list(one.key), "message": one.message} for one in conflicts],
    )


def unexpected_hash(message: str) -> ConflictDetail:
    return ConflictDetail(ConflictKind.UNEXPECTED_HASH, (), message)


def _shown(key: KeyPath) -> str:
    return f"'{'.'.join(key)}'"
