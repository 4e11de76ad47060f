"""Branches, tags, commits and cuts in any order, against a model that walks entry by entry and knows no jumps or segments."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from headwater.persistence.store import open_store
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.pointer_names import ReferenceType, reference_pointer
from headwater.schemas.change import KeyPath, Kind, Value
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CommitConflict, CursorExpired, ReferenceExists, ReferenceNotFound
from tests.support.fixtures.catalog_lake import META, Lake

EXAMPLES = 400 if os.environ.get("HEADWATER_SOAK") else 30
STEPS = 40
NAMES = ("main", "dev", "fix", "v1")
KEYS: tuple[KeyPath, ...] = (("a",), ("b",), ("c",))
State = dict[KeyPath, Value]
NOTHING = EMPTY.hex()

fired: Counter[str] = Counter()


class Moved(msgspec.Struct):
    """One entry as the model has it."""

    kind: Kind
    commit: str
    state: State


class ReferenceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = open_store(f"memory://references-{os.urandom(6).hex()}", create=True)
        self.lake = Lake(self.store)
        self.logs: dict[str, list[Moved]] = {}
        self.floors: Counter[str] = Counter()
        self.homes: dict[str, tuple[str, int]] = {}
        self.steps = 0

    @rule(seed=st.integers(0, 2**32))
    def step(self, seed: int) -> None:
        """One of all moves, evenly: left to themselves, rules and seeds come again and again, or never."""
        self.steps += 1
        chance = Random(f"{seed}/{self.steps}")
        moves = (self.commit, self.commit, self.create, self.create, self.assign, self.delete, self.cut, self.look_back)
        chance.choice(moves)(chance)

    def teardown(self) -> None:
        entries = sum(len(log) - max(self.floors[pointer], 1) + 1 for pointer, log in self.logs.items())
        assert len(self.lake.moves(limit=50)) == entries
        self.store.close()

    @initialize()
    def begin(self) -> None:
        self.logs[self.pointer("main")] = [Moved(Kind.CREATE, NOTHING, {})]

    # ── the model ───────────────────────────────────────────────────────────────────────────────────────────

    def pointer(self, name: str) -> str:
        type_ = ReferenceType.TAG if name.startswith("v") else ReferenceType.BRANCH
        return reference_pointer(self.lake.catalog.id, type_, name)

    def live(self, name: str) -> Moved | None:
        log = self.logs.get(self.pointer(name), [])
        return log[-1] if log and log[-1].kind is not Kind.DELETE else None

    def line(self, pointer: str, seq: int) -> tuple[list[str], bool]:
        """The commits from an entry on back, one by one, and whether they end in a cut."""
        commits: list[str] = []
        while seq >= max(self.floors[pointer], 1):
            moved = self.logs[pointer][seq - 1]
            if not commits or commits[-1] != moved.commit:
                commits.append(moved.commit)
            if moved.kind is Kind.COMMIT:
                seq -= 1
            elif moved.commit == NOTHING:
                return commits, False
            else:
                pointer, seq = self.homes[moved.commit]
        return commits, True

    def head_line(self, name: str) -> tuple[list[str], bool]:
        return self.line(self.pointer(name), len(self.logs[self.pointer(name)]))

    def state_of(self, commit: str) -> State:
        if commit == NOTHING:
            return {}
        pointer, seq = self.homes[commit]
        return self.logs[pointer][seq - 1].state

    def add(self, name: str, kind: Kind, commit: str, state: State) -> None:
        log = self.logs.setdefault(self.pointer(name), [])
        log.append(Moved(kind, commit, state))
        if kind is Kind.COMMIT:
            self.homes[commit] = (self.pointer(name), len(log))
        fired[kind] += 1

    # ── moves ───────────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, chance: Random) -> None:
        name = self.some_name(chance, NAMES[:3])
        for _ in range(chance.choice([1, 2, 3, 30])):
            held = self.live(name)
            operation = self.some_operation(chance, {} if held is None else held.state)
            if held is None:
                self.expect(ReferenceNotFound, lambda operation=operation: self.lake.commit(operation, on=name))
                return
            result = self.lake.commit(operation, on=name)
            self.add(name, Kind.COMMIT, result.commit_id, applied(held.state, operation))

    def some_name(self, chance: Random, names: Sequence[str], *, live: bool = True) -> str:
        """Mostly one that is there, or mostly one that is not."""
        fitting = [name for name in names if (self.live(name) is not None) == live]
        return chance.choice(fitting if fitting and chance.random() < 0.85 else list(names))

    def some_source(self, chance: Random) -> tuple[str, str | None]:
        """A spec, and where it leads; None when it leads nowhere, which the engine must say in the same words."""
        source = self.some_name(chance, NAMES)
        if self.live(source) is None:
            self.expect(ReferenceNotFound, lambda: self.lake.refs.resolve(f"{source}~1"))
            return source, None
        commits, is_cut = self.head_line(source)
        back = chance.randrange(len(commits) + 2) if chance.random() < 0.9 else len(commits)
        if back < len(commits):
            return f"{source}~{back}", commits[back]
        error = CursorExpired if is_cut else ReferenceNotFound
        self.expect(error, lambda: self.lake.refs.resolve(f"{source}~{back}"))
        return source, None

    def some_operation(self, chance: Random, state: State) -> CatalogOperation:
        free = [key for key in KEYS if key not in state]
        if state and free and chance.random() < 0.2:
            return Rename(chance.choice(sorted(state)), chance.choice(free))
        if state and chance.random() < 0.2:
            return Delete(chance.choice(sorted(state)))
        return Put(chance.choice(KEYS), IcebergTable(f"s3://{chance.random()}"))

    def create(self, chance: Random) -> None:
        name = self.some_name(chance, NAMES[1:], live=False)
        spec, target = self.some_source(chance)
        if target is None:
            return
        type_ = ReferenceType.TAG if name.startswith("v") else ReferenceType.BRANCH
        if self.live(name) is not None:
            self.expect(ReferenceExists, lambda: self.lake.refs.create(name, spec, type=type_, meta=META))
            return
        self.lake.refs.create(name, spec, type=type_, meta=META)
        self.add(name, Kind.CREATE, target, self.state_of(target))

    def assign(self, chance: Random) -> None:
        name = self.some_name(chance, NAMES)
        spec, target = self.some_source(chance)
        held = self.live(name)
        if target is None or held is None:
            return
        if chance.random() < 0.2:
            self.expect(CommitConflict, lambda: self.lake.refs.assign(name, spec, expected_head="0" * 64, meta=META))
            return
        result = self.lake.refs.assign(name, spec, expected_head=held.commit, meta=META)
        assert (result.change is None) == (target == held.commit)
        if result.change is not None:
            self.add(name, Kind.ASSIGN, target, self.state_of(target))

    def delete(self, chance: Random) -> None:
        name = self.some_name(chance, NAMES[1:])
        if self.live(name) is None:
            self.expect(ReferenceNotFound, lambda: self.lake.refs.delete(name, meta=META))
            return
        self.lake.refs.delete(name, meta=META)
        self.add(name, Kind.DELETE, NOTHING, {})

    def cut(self, chance: Random) -> None:
        pointer = self.pointer(self.some_name(chance, NAMES))
        length = len(self.logs.get(pointer, []))
        floor = max(self.floors[pointer], round(chance.random() * length))
        if floor > max(self.floors[pointer], 1):
            self.lake.raise_floor(pointer, floor)
            self.floors[pointer] = floor
            fired["cut"] += 1

    def expect(self, error: type[Exception], call: object) -> None:
        assert callable(call)
        try:
            call()
        except error:
            fired[error.__name__] += 1
            return
        raise AssertionError(f"{error.__name__} was not raised")

    # ── what must always hold ───────────────────────────────────────────────────────────────────────────────

    def look_back(self, chance: Random) -> None:
        name = self.some_name(chance, NAMES)
        if self.live(name) is None or not self.homes:
            return
        commits, is_cut = self.head_line(name)
        back = chance.randrange(len(commits))
        assert self.lake.refs.resolve(f"{name}~{back}").commit_id == commits[back]
        assert {entry.key: entry.value for entry in self.lake.entries(f"{name}~{back}")} == self.state_of(commits[back])
        wanted = chance.choice([*self.homes, commits[back]])
        if wanted in commits:
            assert self.lake.refs.resolve(f"{name}@{wanted}").commit_id == wanted
            fired["found in history"] += 1
        else:
            self.expect(ReferenceNotFound, lambda: self.lake.refs.resolve(f"{name}@{wanted}"))
        own = [commit for commit in commits if commit != NOTHING and self.is_above_floor(commit)]
        assert self.lake.kept_history(name) == (own, is_cut)
        fired["cut log" if is_cut else "whole log"] += 1

    def is_above_floor(self, commit: str) -> bool:
        pointer, seq = self.homes[commit]
        return seq >= self.floors[pointer]

    @invariant()
    def heads_agree(self) -> None:
        found = {reference.name: reference.commit_id for reference in self.lake.refs.list().references}
        wanted = {name: held.commit for name in NAMES if (held := self.live(name)) is not None}
        assert found == wanted


def applied(state: State, operation: CatalogOperation) -> State:
    after = dict(state)
    match operation:
        case Put(key=key, content=IcebergTable(metadata_location=location)):
            after[key] = {"metadata_location": location}
        case Delete(key=key):
            del after[key]
        case Rename(from_key=from_key, key=key):
            after[key] = after.pop(from_key)
    return after


def test_references_agree_with_a_model_that_walks_entry_by_entry() -> None:
    fired.clear()
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        ReferenceMachine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None)
    )
    wanted = {Kind.COMMIT, Kind.CREATE, Kind.ASSIGN, Kind.DELETE, "cut", "cut log", "whole log", "found in history"}
    wanted |= {"ReferenceNotFound", "ReferenceExists", "CommitConflict", "CursorExpired"}
    assert wanted <= set(fired), fired
