"""Any sequence of steps: realms move as the drawn life cycle says, keep what was acknowledged, and show nothing of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from headwater.persistence.realms.realm_purge import rows_of
from headwater.persistence.store import RealmKernel, open_store
from headwater.schemas.errors import RealmExists, RealmNotActive, RealmNotFound, RealmStateConflict
from tests.support.models.realm_cases import notes, realms_of, write_note

NAMES = st.sampled_from(["a", "b"])
POINTERS = st.sampled_from(["catalogs", "cat/1/heads/main"])
LIKELY: dict[str | None, list[str]] = {
    None: ["create"],
    "CREATED": ["init", "init", "start_loading", "delete"],
    "LOADING": ["finish_loading", "purge"],
    "ACTIVE": ["deactivate"],
    "INACTIVE": ["activate", "purge"],
    "PURGING": ["finish_purge"],
    "PURGED": ["delete"],
}
STEPS = sorted({step for steps in LIKELY.values() for step in steps})
LONG = bool(os.environ.get("HEADWATER_SOAK"))


class Model:
    """One realm as it ought to be."""

    def __init__(self) -> None:
        self.status = "CREATED"
        self.description = ""
        self.notes: dict[str, set[str]] = {}


class RealmMachine(RuleBasedStateMachine):
    """Two names beside a dictionary; old kernels are kept, as servers that have not noticed anything."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.store = open_store(url, create=True)
        self.realms = realms_of(self.store)
        self.model: dict[str, Model] = {}
        self.stale: list[RealmKernel] = []
        self.written = 0

    def teardown(self) -> None:
        self.store.close()

    def _step(self, name: str, allowed: set[str], step: Callable[[str], Any], becomes: str | None) -> bool:
        """Take the step if the model has it, else see it refused."""
        model = self.model.get(name)
        if model is not None and model.status in allowed:
            step(name)
            if becomes is not None:
                model.status = becomes
            return True
        with pytest.raises(RealmNotFound if model is None else RealmStateConflict):
            step(name)
        return False

    def create(self, name: str) -> None:
        if name in self.model:
            with pytest.raises(RealmExists):
                self.realms.create(name)
            return
        instance = self.realms.create(name).instance
        assert instance not in {kernel.realm for kernel in self.stale}
        self.model[name] = Model()

    def init(self, name: str, active: bool = True) -> None:
        becomes = "ACTIVE" if active else "INACTIVE"
        self._step(name, {"CREATED"}, lambda it: self.realms.init(it, active=active), becomes)

    def start_loading(self, name: str) -> None:
        self._step(name, {"CREATED"}, self.realms.start_loading, "LOADING")

    def finish_loading(self, name: str, active: bool = True) -> None:
        becomes = "ACTIVE" if active else "INACTIVE"
        self._step(name, {"LOADING"}, lambda it: self.realms.finish_loading(it, active=active), becomes)

    def activate(self, name: str) -> None:
        self._step(name, {"INACTIVE"}, self.realms.activate, "ACTIVE")

    def deactivate(self, name: str) -> None:
        self._step(name, {"ACTIVE"}, self.realms.deactivate, "INACTIVE")

    def purge(self, name: str) -> None:
        self._step(name, {"INACTIVE", "LOADING"}, self.realms.purge, "PURGING")

    def finish_purge(self, name: str) -> None:
        if self._step(name, {"PURGING"}, self.realms.finish_purge, "PURGED"):
            self.model[name].notes.clear()
            assert next(rows_of(self.store.backend, self.realms.get(name).instance), None) is None

    def delete(self, name: str) -> None:
        if self._step(name, {"CREATED", "PURGED"}, self.realms.delete, None):
            del self.model[name]

    @rule(name=NAMES, choice=st.integers(0, 5))
    def go_on(self, name: str, choice: int) -> None:
        """A step that the life cycle has: without this rule most random steps would be refused."""
        model = self.model.get(name)
        steps = LIKELY[model.status if model else None]
        getattr(self, steps[choice % len(steps)])(name)

    @rule(name=NAMES, choice=st.integers(0, 5))
    def go_on_too(self, name: str, choice: int) -> None:
        self.go_on(name, choice)

    @rule(name=NAMES, step=st.sampled_from(STEPS))
    def try_anything(self, name: str, step: str) -> None:
        getattr(self, step)(name)

    @rule(name=NAMES, description=st.sampled_from(["", "one", "two"]))
    def describe(self, name: str, description: str) -> None:
        model = self.model.get(name)
        if model is None:
            with pytest.raises(RealmNotFound):
                self.realms.describe(name, description)
            return
        before = self.realms.get(name)
        assert self.realms.describe(name, description).changed_at > before.changed_at
        model.description = description

    @rule(name=NAMES)
    def fill_but_stay_closed(self, name: str) -> None:
        self.init(name, active=False)

    @rule(name=NAMES)
    def load_but_stay_closed(self, name: str) -> None:
        self.finish_loading(name, active=False)

    @rule(name=NAMES, pointer=POINTERS)
    def write(self, name: str, pointer: str) -> None:
        model = self.model.get(name)
        if model is None or model.status != "ACTIVE":
            with pytest.raises(RealmNotFound if model is None else RealmNotActive):
                self.realms.require_active(name)
            return
        kernel = self.realms.require_active(name)
        self.written += 1
        write_note(kernel, pointer, f"n{self.written}")
        model.notes.setdefault(pointer, set()).add(f"n{self.written}")
        if kernel not in self.stale:
            self.stale.append(kernel)

    @precondition(lambda self: self.stale)
    @rule(data=st.data(), pointer=POINTERS)
    def write_without_asking(self, data: st.DataObject, pointer: str) -> None:
        """A server that holds an instance from earlier: it may write if and only if that instance is active now."""
        kernel = data.draw(st.sampled_from(self.stale))
        name = kernel.realm.partition("#")[0]
        model = self.model.get(name)
        is_this_one = model is not None and self.realms.get(name).instance == kernel.realm
        self.written += 1
        if model is not None and is_this_one and model.status == "ACTIVE":
            write_note(kernel, pointer, f"n{self.written}")
            model.notes.setdefault(pointer, set()).add(f"n{self.written}")
            return
        with pytest.raises(RealmNotActive):
            write_note(kernel, pointer, f"n{self.written}")

    @invariant()
    def reads_like_the_model(self) -> None:
        listed = {realm.name: realm for realm in self.realms.list()}
        assert {name: realm.status for name, realm in listed.items()} == {name: it.status for name, it in self.model.items()}
        for name, realm in listed.items():
            assert realm.description == self.model[name].description
            kernel = self.store.kernel(realm.instance)
            for pointer in ("catalogs", "cat/1/heads/main"):
                if self.model[name].status != "PURGING":
                    assert set(notes(kernel, pointer)) == self.model[name].notes.get(pointer, set())


@pytest.mark.parametrize(("database", "examples"), [("memory", 60), ("sqlite", 8)])
def test_realms_move_like_the_model(database: str, examples: int, tmp_path: Path) -> None:
    files = iter(range(1_000_000))

    def machine() -> RealmMachine:
        return RealmMachine("memory://" if database == "memory" else f"sqlite:///{tmp_path}/{next(files)}.db")

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples * (20 if LONG else 1),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
