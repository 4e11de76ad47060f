"""On every backend: a plan and a removal of what it reads never both succeed, in whatever order their steps come."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from headwater.persistence.backend import Backend
from headwater.producer.plans.plan_rows import Plan, live_plans
from headwater.schemas.errors import SnapshotExpired, SnapshotPinned
from tests.support.fixtures.plan_race import SEQ, PlanRace


def orders(kind: str, plan_steps: int, removal_steps: int) -> Iterator[tuple[int, int]]:
    """Every one where that is cheap; elsewhere those around the steps that decide."""
    every = list(itertools.product(range(plan_steps), range(removal_steps)))
    return iter(every if kind == "memory" else every[::7] if kind == "sqlite" else every[:: max(1, len(every) // 6)])


def test_a_floor_never_rises_past_a_plan(backend: Backend, realm: str, kind: str) -> None:
    outcomes = set()
    for number, steps in enumerate(orders(kind, 8, 16)):
        race = PlanRace(backend, realm, number)
        plan, removal = race.race(race.expire, steps)
        assert isinstance(removal.result, int), removal.result
        began = isinstance(plan.result, Plan)
        assert began or isinstance(plan.result, SnapshotExpired), plan.result
        assert not began or race.floor() <= SEQ, f"the plan's entry is gone: {steps}"
        assert began == bool(list(live_plans(race.kernels[1]))), "a plan that was refused pins nothing"
        outcomes.add((began, race.floor() > SEQ))
    assert {(True, False), (False, True)} <= outcomes, "each of them wins in some order"


def test_a_snapshot_that_a_plan_reads_is_not_removed(backend: Backend, realm: str, kind: str) -> None:
    outcomes = set()
    for number, steps in enumerate(orders(kind, 8, 6)):
        race = PlanRace(backend, realm, 1_000 + number)
        plan, removal = race.race(race.remove_snapshot, steps)
        began, removed = isinstance(plan.result, Plan), removal.result is True
        assert began or isinstance(plan.result, SnapshotExpired), plan.result
        assert removed or isinstance(removal.result, SnapshotPinned), removal.result
        assert not (began and removed), f"both succeeded: {steps}"
        outcomes.add((began, removed))
    assert {(True, False), (False, True)} <= outcomes
