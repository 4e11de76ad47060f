"""A plan that fails enters; a smaller one that breaks the same promise leaves: fewer events, faults, workers and steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from tests.simulation.plan import Plan
from tests.simulation.run import Outcome
from tests.simulation.world.store_faults import KINDS

Run = Callable[[Plan], Outcome]


def shrunken(outcome: Outcome, run: Run, *, seconds: float = 60.0) -> Outcome:
    """The smallest that was found in the time."""
    deadline = time.monotonic() + seconds
    smallest = outcome
    progress = True
    while progress:
        progress = False
        for plan in _smaller(smallest):
            if time.monotonic() > deadline:
                return smallest
            tried = run(plan)
            if tried.broken == outcome.broken and tried.steps <= smallest.steps * 1.2:
                smallest, progress = tried, True
                break
    return smallest


def _smaller(outcome: Outcome) -> Iterator[Plan]:
    plan = outcome.plan
    replace = msgspec.structs.replace
    count = len(plan.events)
    if count > 3:
        yield replace(plan, events=plan.events[: count // 2])
        yield replace(plan, events=plan.events[count // 2 :])
    for number in range(count):
        yield replace(plan, events=plan.events[:number] + plan.events[number + 1 :])
    for kind in KINDS:
        if getattr(plan.rates, kind):
            yield replace(plan, rates=replace(plan.rates, **{kind: 0.0}))
    for worker in plan.workers:
        if len(plan.workers) > 1:
            yield replace(plan, workers=tuple(name for name in plan.workers if name != worker))
    if outcome.steps + 50 < plan.steps:
        yield replace(plan, steps=outcome.steps + 50)
    if plan.steps > 400:
        yield replace(plan, steps=plan.steps * 2 // 3)
