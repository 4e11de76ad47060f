"""Plans the operations that apply another branch's changes to the head of a draft, or lists all conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET

from headwater.persistence.commit.draft import Draft, PlannedOperation
from headwater.persistence.index import IndexValue, decode_key, encode_key
from headwater.persistence.log.log_entry import Content
from headwater.producer.commits.conflicts import (
    ConflictDetail,
    ConflictKind,
    HeadFacts,
    ancestors_to_read,
    conflict_error,
    namespace_conflicts,
    unexpected_hash,
)
from headwater.producer.commits.operations import Prepared
from headwater.producer.content.content_types import NAMESPACE, TypedValue, all_content_types
from headwater.producer.merging.three_way import Behavior, KeyRule, MergeDecision, MergedKey, merge_key
from headwater.schemas.change import KeyPath, Op


class KeyChange(msgspec.Struct, frozen=True):
    """The content of a key where the two lines diverged, and on the line that is merged; None if absent."""

    key: KeyPath
    base: Content | None
    source: Content | None


class MergeRules(msgspec.Struct, frozen=True, kw_only=True):
    default: Behavior = Behavior.NORMAL
    by_key: Mapping[KeyPath, KeyRule] = {}

    def of(self, key: KeyPath) -> KeyRule:
        return self.by_key.get(key) or KeyRule(behavior=self.default)

    def resolved_by_caller(self, operations: Iterable[PlannedOperation]) -> list[PlannedOperation]:
        """Those whose content comes from the caller and not from the other branch."""
        return [operation for operation in operations if self.of(operation.key).resolved is not UNSET]


class KeyOutcome(msgspec.Struct, frozen=True):
    """The outcome for one key, for people who merge."""

    key: KeyPath
    verdict: MergeDecision
    conflict: ConflictDetail | None = None


class AppliedChanges(msgspec.Struct, frozen=True):
    operations: list[PlannedOperation]
    outcomes: list[KeyOutcome]

    @property
    def conflicts(self) -> list[ConflictDetail]:
        return [outcome.conflict for outcome in self.outcomes if outcome.conflict is not None]

    def raise_conflicts(self) -> None:
        if self.conflicts:
            raise conflict_error(self.conflicts)


def apply_changes(draft: Draft, changes: Sequence[KeyChange], rules: MergeRules) -> AppliedChanges:
    """⚠ Contents are copied: a commit references only what its head reaches or what it wrote itself."""
    encoded = {change.key: encode_key(change.key) for change in changes}
    values = draft.index.get_many(encoded.values())
    contents = draft.contents(values.values())
    operations, outcomes = [], []
    for change in changes:
        value = values.get(encoded[change.key])
        target = None if value is None else contents[value.object_id]
        merged = merge_key(change.base, change.source, target, rules.of(change.key))
        if merged.verdict is MergeDecision.TAKE:
            operations += _operations(change.key, merged, target, value)
        outcomes.append(KeyOutcome(change.key, merged.verdict, _conflict(change, target, merged.verdict)))
    return AppliedChanges(operations, outcomes)


def check_namespaces(draft: Draft, applied: AppliedChanges) -> AppliedChanges:
    """The same rules as for any commit: every key of the state after it has its namespaces."""
    if applied.conflicts:
        return applied
    filled = {op.key for op in applied.operations if op.after is not None}
    net = [op for op in applied.operations if op.after is not None or op.key not in filled]
    prepared = [
        Prepared(op=op.op, key=op.key, content=None if op.after is None else TypedValue(op.type, op.tag, op.after))
        for op in net
    ]
    arriving = ancestors_to_read(prepared)
    encoded = {key: encode_key(key) for key in (*arriving, *(op.key for op in net))}
    values = draft.index.get_many(encoded.values())
    tags = {key: values[raw].tag for key, raw in encoded.items() if raw in values}
    removed = {op.key for op in net if op.op is Op.DELETE}
    gone = [op.key for op in net if tags.get(op.key) == NAMESPACE.tag and (op.key in removed or op.tag != NAMESPACE.tag)]
    left = {namespace: key for namespace in gone if (key := _left_below(draft, namespace, removed)) is not None}
    facts = HeadFacts(found={}, ancestor_tags={key: tags[key] for key in arriving - removed if key in tags}, left_below=left)
    conflicts = namespace_conflicts(prepared, facts)
    return AppliedChanges(
        applied.operations, [*applied.outcomes, *(KeyOutcome(one.key, MergeDecision.CONFLICT, one) for one in conflicts)]
    )


def check_expected_head(draft: Draft, expected: bytes | None) -> None:
    if expected is not None and draft.head.commit != expected:
        message = f"{draft.pointer} is at {draft.head.commit.hex()}, not at {expected.hex()}."
        raise conflict_error([unexpected_hash(message)])


def _left_below(draft: Draft, namespace: KeyPath, removed: set[KeyPath]) -> KeyPath | None:
    below = (decode_key(key) for key, _ in draft.index.under(namespace))
    return next((key for key in below if key not in removed), None)


def _operations(key: KeyPath, merged: MergedKey, target: Content | None, value: IndexValue | None) -> list[PlannedOperation]:
    """⚠ What takes the place of another content or type is two operations, as in Git: the old one's end is then an end for
    every reader, also for those who follow it by its type or content id."""
    is_other = (
        target is not None
        and merged.content is not None
        and (target.content_id, target.type) != (merged.content.content_id, merged.content.type)
    )
    if is_other:
        return [_operation(key, None, target, value), _operation(key, merged.content, None, None)]
    return [_operation(key, merged.content, target, value)]


def _operation(key: KeyPath, after: Content | None, before: Content | None, value: IndexValue | None) -> PlannedOperation:
    content = after or before
    if content is None:
        raise ValueError("nothing is taken away from where nothing is")
    return PlannedOperation(
        op=Op.DELETE if after is None else Op.PUT,
        key=key,
        content_id=content.content_id,
        type=content.type,
        tag=all_content_types().tag_of(content.type),
        after=None if after is None else after.value,
        before=None if before is None else before.value,
        before_id=0 if value is None else value.object_id,
    )


def _conflict(change: KeyChange, target: Content | None, verdict: MergeDecision) -> ConflictDetail | None:
    shown = ".".join(change.key)
    if verdict is MergeDecision.UNEXPECTED:
        return ConflictDetail(ConflictKind.VALUE_DIFFERS, change.key, f"'{shown}' is not what the merge expected there.")
    if verdict is MergeDecision.OTHER_CONTENT:
        message = f"'{shown}' would become another content than either side has there."
        return ConflictDetail(ConflictKind.CONTENT_ID_DIFFERS, change.key, message)
    if verdict is not MergeDecision.CONFLICT:
        return None
    if target is None:
        return ConflictDetail(
            ConflictKind.KEY_DOES_NOT_EXIST, change.key, f"'{shown}' was removed here and changed on the other side."
        )
    if change.base is None:
        return ConflictDetail(ConflictKind.KEY_EXISTS, change.key, f"'{shown}' was created on both sides.")
    return ConflictDetail(ConflictKind.VALUE_DIFFERS, change.key, f"'{shown}' was changed on both sides.")
