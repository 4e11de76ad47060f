"""The pure conflict rules against a model that simply applies the operations and looks at what is left."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.persistence.commit.draft import PlannedOperation
from headwater.persistence.log.log_entry import Content
from headwater.producer.commits.conflicts import (
    ConflictKind,
    ConflictResult,
    HeadContent,
    HeadFacts,
    ancestors_of,
    ancestors_to_read,
    check_conflicts,
    conflict_error,
    namespaces_removed,
    removed_keys,
)
from headwater.producer.commits.operations import CatalogOperation, Delete, Prepared, Put, Rename, Unchanged, prepare
from headwater.producer.content.content_types import AnyContent, IcebergTable, IcebergView, Namespace, from_value, to_value
from headwater.schemas.change import KeyPath, Op
from headwater.schemas.entry_ids import content_id_text

State = dict[KeyPath, Content]
Conflicts = set[tuple[ConflictKind, KeyPath]]

KEYS: list[KeyPath] = [
    ("a",), ("b",), ("a", "x"), ("a", "y"), ("b", "x"), ("a", "x", "m"), ("a", "x", "n"), ("b", "x", "m"), ("t",),
]  # fmt: skip
CONTENTS: list[AnyContent] = [
    Namespace(),
    Namespace({"owner": "ada"}),
    IcebergTable("s3://1"),
    IcebergTable("s3://2", 7),
    IcebergView("s3://v"),
]
IDS = [bytes([number]) * 16 for number in range(1, 5)]


def content(of: AnyContent, content_id: bytes) -> Content:
    typed = to_value(of)
    return Content(content_id, typed.type, typed.value)


def facts_of(state: Mapping[KeyPath, Content], prepared: tuple[Prepared, ...], base: State | None) -> HeadFacts:
    """What a committer would read, in the same two steps."""
    object_ids = {key: number for number, key in enumerate(sorted(state), start=1)}
    named = {key for operation in prepared for key in (operation.key, operation.source)}
    found = {key: HeadContent(state[key], object_ids[key], 9) for key in named if key in state}
    going = removed_keys(prepared)
    left = {}
    for namespace in namespaces_removed(prepared, found):
        staying = [key for key in sorted(state) if key[: len(namespace)] == namespace != key and key not in going]
        if staying:
            left[namespace] = staying[0]
    tags = {key: 1 if state[key].type == "NAMESPACE" else 2 for key in ancestors_to_read(prepared) if key in state}
    of_base = None
    if base is not None:
        of_base = {key: HeadContent(base[key], 100 + number, 9) for number, key in enumerate(sorted(base)) if key in named}
    return HeadFacts(found=found, ancestor_tags=tags, left_below=left, base=of_base)


# ── the model ───────────────────────────────────────────────────────────────────────────────────────────────


def after(state: State, prepared: tuple[Prepared, ...]) -> dict[KeyPath, Content | None]:
    """The state as if nothing were refused; None where a rename brings what is not there."""
    final: dict[KeyPath, Content | None] = dict(state)
    for operation in prepared:
        if operation.op in (Op.DELETE, Op.RENAME):
            final.pop(operation.source, None)
    for operation in prepared:
        old = state.get(operation.source)
        if operation.op is Op.PUT and operation.content is not None:
            content_id = operation.content_id if old is None else old.content_id
            final[operation.key] = Content(content_id, operation.content.type, operation.content.value)
        elif operation.op is Op.RENAME:
            final[operation.key] = old
    return final


def model_conflicts(state: State, prepared: tuple[Prepared, ...], base: State | None) -> Conflicts:
    conflicts: Conflicts = set()
    for operation in prepared:
        conflicts |= own_conflicts(operation, state, base)
    final = after(state, prepared)
    going = {operation.source for operation in prepared if operation.op in (Op.DELETE, Op.RENAME)}
    for key in going:
        below = [other for other in state if other[: len(key)] == key and other != key and other not in going]
        if key in state and state[key].type == "NAMESPACE" and below:
            conflicts.add((ConflictKind.NAMESPACE_NOT_EMPTY, key))
    for key in final.keys() - state.keys():
        for ancestor in (key[:length] for length in range(1, len(key))):
            if ancestor in final:
                there = final[ancestor]
                if there is not None and there.type != "NAMESPACE":
                    conflicts.add((ConflictKind.NOT_A_NAMESPACE, ancestor))
            elif ancestor not in state:
                conflicts.add((ConflictKind.NAMESPACE_ABSENT, ancestor))
            elif state[ancestor].type == "NAMESPACE":
                conflicts.add((ConflictKind.NAMESPACE_NOT_EMPTY, ancestor))
            else:
                conflicts.add((ConflictKind.NOT_A_NAMESPACE, ancestor))
    return conflicts


def own_conflicts(operation: Prepared, state: State, base: State | None) -> Conflicts:
    key, now = operation.source, state.get(operation.source)
    conflicts: Conflicts = set()
    if operation.must_not_exist and now is not None:
        conflicts.add((ConflictKind.KEY_EXISTS, key))
    expects = operation.expected is not None or operation.expected_content_id != b""
    if now is None and (expects or operation.op in (Op.DELETE, Op.RENAME)):
        conflicts.add((ConflictKind.KEY_DOES_NOT_EXIST, key))
    if now is not None and operation.expected_content_id not in (b"", now.content_id):
        conflicts.add((ConflictKind.CONTENT_ID_DIFFERS, key))
    if now is not None and operation.expected is not None:
        conflicts |= different(key, operation.expected.type, operation.expected.value, now)
    if now is not None and operation.content is not None:
        if operation.content.type != now.type:
            conflicts.add((ConflictKind.PAYLOAD_DIFFERS, key))
        if operation.content_id_is_callers and operation.content_id != now.content_id:
            conflicts.add((ConflictKind.CONTENT_ID_DIFFERS, key))
    if operation.op is Op.RENAME and operation.key in state:
        conflicts.add((ConflictKind.KEY_EXISTS, operation.key))
    if base is not None:
        for touched in {key, operation.key}:
            conflicts |= since_base(touched, base.get(touched), state.get(touched))
    return conflicts


def since_base(key: KeyPath, then: Content | None, now: Content | None) -> Conflicts:
    if then is None and now is None:
        return set()
    if then is None or now is None:
        return {(ConflictKind.KEY_EXISTS if then is None else ConflictKind.KEY_DOES_NOT_EXIST, key)}
    conflicts = different(key, then.type, then.value, now)
    return conflicts if then.content_id == now.content_id else {*conflicts, (ConflictKind.CONTENT_ID_DIFFERS, key)}


def different(key: KeyPath, type_name: str, value: object, now: Content) -> Conflicts:
    if type_name != now.type:
        return {(ConflictKind.PAYLOAD_DIFFERS, key)}
    return set() if value == now.value else {(ConflictKind.VALUE_DIFFERS, key)}


# ── generating ──────────────────────────────────────────────────────────────────────────────────────────────


def random_state(chance: Random) -> State:
    """Every key has its namespaces."""
    state: State = {}
    for key in chance.sample(KEYS, chance.randint(0, len(KEYS))):
        if all(state.get(ancestor, content(Namespace(), IDS[0])).type == "NAMESPACE" for ancestor in ancestors_of(key)):
            for ancestor in ancestors_of(key):
                state.setdefault(ancestor, content(Namespace(), chance.choice(IDS)))
            if key not in state:
                state[key] = content(chance.choice(CONTENTS), chance.choice(IDS))
    return state


def random_operations(chance: Random, state: State) -> list[CatalogOperation]:
    keys = chance.sample(KEYS, len(KEYS))
    operations: list[CatalogOperation] = []
    for _ in range(chance.randint(1, 4)):
        key = keys.pop()
        right = from_value(state[key].type, state[key].value) if key in state else None
        right_id = content_id_text(state[key].content_id) if key in state else None
        expected = chance.choice([None, None, None, right, right, *CONTENTS])
        expected_id = chance.choice([None, None, None, right_id, right_id, *map(content_id_text, IDS)])
        match chance.choice(["put", "put", "create", "delete", "rename", "unchanged", "absent"]):
            case "put":
                given_id = chance.choice([None, None, right_id, *map(content_id_text, IDS)])
                operations.append(Put(key, chance.choice(CONTENTS), expected, expected_id, False, given_id))
            case "create":
                operations.append(Put(key, chance.choice(CONTENTS), must_not_exist=True))
            case "delete":
                operations.append(Delete(key, expected, expected_id))
            case "rename":
                operations.append(Rename(key, keys.pop(), expected, expected_id))
            case "unchanged":
                operations.append(Unchanged(key, expected, expected_id))
            case _:
                operations.append(Unchanged(key, must_not_exist=True))
    return operations


FRESH_ID = b"\xff" * 16
EXAMPLES = 2_000 if os.environ.get("HEADWATER_SOAK") else 100
CASES_PER_EXAMPLE = 50


# ── tests ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_rules_agree_with_a_model_and_every_conflict_kind_fires() -> None:
    fired: Counter[ConflictKind] = Counter()
    allowed: Counter[Op] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.integers(0, 2**63))
    def run(seed: int) -> None:
        for step in range(CASES_PER_EXAMPLE):
            one_case(Random(seed + step))

    def one_case(chance: Random) -> None:
        state = random_state(chance)
        operations = random_operations(chance, state)
        base = chance.choice([None, None, dict(state), random_state(chance)])
        prepared = prepare(operations, lambda: FRESH_ID).operations
        verdict = check_conflicts(prepared, facts_of(state, prepared, base))
        found = {(conflict.kind, conflict.key) for conflict in verdict.conflicts}
        assert found == model_conflicts(state, prepared, base)
        assert len(found) == len(verdict.conflicts)
        fired.update(kind for kind, _ in found)
        if not found:
            check_outcome(state, prepared, verdict)
            allowed.update(operation.op for operation in verdict.planned)

    run()
    assert set(fired) == set(ConflictKind) - {ConflictKind.UNEXPECTED_HASH}
    assert set(allowed) == set(Op)


def check_outcome(state: State, prepared: tuple[Prepared, ...], verdict: ConflictResult) -> None:
    """Planned operations, applied, leave what the model leaves; every key has its namespaces."""
    final = dict(state)
    for operation in verdict.planned:
        final.pop(operation.from_key or operation.key, None)
    for operation in verdict.planned:
        assert operation.before == (state[source].value if (source := operation.from_key or operation.key) in state else None)
        if operation.after is not None:
            final[operation.key] = Content(operation.content_id, operation.type, operation.after)
    assert final == after(state, prepared)
    assert all(final[ancestor].type == "NAMESPACE" for key in final for ancestor in ancestors_of(key))


def verdict_of(
    state: dict[KeyPath, AnyContent], *operations: CatalogOperation, skip_equal_puts: bool = False
) -> ConflictResult:
    held = {key: content(of, bytes([number]) * 16) for number, (key, of) in enumerate(state.items(), start=1)}
    prepared = prepare(operations, lambda: FRESH_ID).operations
    return check_conflicts(prepared, facts_of(held, prepared, None), skip_equal_puts=skip_equal_puts)


def kinds(verdict: ConflictResult) -> list[tuple[str, KeyPath]]:
    return [(conflict.kind, conflict.key) for conflict in verdict.conflicts]


TREE: dict[KeyPath, AnyContent] = {("a",): Namespace(), ("a", "t"): IcebergTable("s3://1")}


def test_a_namespace_of_the_same_commit_counts_whatever_the_order() -> None:
    table, namespace = Put(("n", "m", "t"), IcebergTable("s3://1")), [Put(("n", "m"), Namespace()), Put(("n",), Namespace())]
    assert not verdict_of({}, table, *namespace).conflicts
    assert not verdict_of({}, *namespace, table).conflicts


def test_every_missing_namespace_is_named_once() -> None:
    tables = [Put(("n", "m", name), IcebergTable("s3://1")) for name in "tuv"]
    assert kinds(verdict_of({}, *tables)) == [("NAMESPACE_ABSENT", ("n",)), ("NAMESPACE_ABSENT", ("n", "m"))]


def test_a_namespace_is_deleted_together_with_its_contents() -> None:
    assert kinds(verdict_of(TREE, Delete(("a",)))) == [("NAMESPACE_NOT_EMPTY", ("a",))]
    assert not verdict_of(TREE, Delete(("a",)), Delete(("a", "t"))).conflicts
    assert not verdict_of({**TREE, ("b",): Namespace()}, Delete(("a",)), Rename(("a", "t"), ("b", "t"))).conflicts


def test_a_namespace_cannot_go_while_the_commit_adds_below_it() -> None:
    verdict = verdict_of({("a",): Namespace()}, Delete(("a",)), Put(("a", "new"), IcebergTable("s3://1")))
    assert kinds(verdict) == [("NAMESPACE_NOT_EMPTY", ("a",))]


def test_a_namespace_is_renamed_when_nothing_is_left_below_it() -> None:
    assert kinds(verdict_of(TREE, Rename(("a",), ("b",)))) == [("NAMESPACE_NOT_EMPTY", ("a",))]
    moved = verdict_of(TREE, Rename(("a",), ("b",)), Rename(("a", "t"), ("b", "t")))
    assert [operation.key for operation in moved.planned] == [("b",), ("b", "t")]
    assert kinds(verdict_of({("a",): Namespace()}, Rename(("a",), ("a", "b")))) == [("NAMESPACE_NOT_EMPTY", ("a",))]


def test_a_rename_keeps_content_id_and_value() -> None:
    planned = verdict_of(TREE, Rename(("a", "t"), ("a", "u"))).planned
    expected = PlannedOperation(
        op=Op.RENAME,
        key=("a", "u"),
        from_key=("a", "t"),
        content_id=b"\x02" * 16,
        type="ICEBERG_TABLE",
        tag=9,
        before={"metadata_location": "s3://1"},
        after={"metadata_location": "s3://1"},
        before_id=2,
    )
    assert planned == [expected]


def test_a_put_that_changes_nothing_is_planned_unless_the_caller_wants_it_skipped() -> None:
    same = Put(("a", "t"), IcebergTable("s3://1"))
    assert len(verdict_of(TREE, same).planned) == 1
    assert verdict_of(TREE, same, skip_equal_puts=True).planned == []
    assert len(verdict_of(TREE, same, Put(("a",), Namespace({"x": "y"})), skip_equal_puts=True).planned) == 1


def test_only_reads_are_nothing_to_do() -> None:
    verdict = verdict_of(TREE, Unchanged(("a", "t"), IcebergTable("s3://1")), Unchanged(("z",), must_not_exist=True))
    assert verdict == ConflictResult([], [])


def test_the_error_contains_all_conflicts_and_its_message_names_the_first() -> None:
    conflicts = verdict_of({}, *[Delete((name,)) for name in "pqrst"]).conflicts
    error = conflict_error(conflicts)
    assert isinstance(error.facts["conflicts"], list) and len(error.facts["conflicts"]) == 5
    assert error.facts["conflicts"][0] == {"kind": "KEY_DOES_NOT_EXIST", "key": ["p"], "message": "'p' does not exist."}
    assert "'r' does not exist." in str(error) and "And 2 more." in str(error)
    with pytest.raises(type(error)):
        raise error
