"""Runs one plan and says what came of it."""

from __future__ import annotations

import faulthandler
import gc
import shutil
import time
from collections import Counter

import msgspec

from headwater.producer import random_ids
from tests.simulation.plan import Plan
from tests.simulation.profiles import make_workers
from tests.simulation.promises import PromiseBroken
from tests.simulation.runtime import virtual
from tests.simulation.runtime.scheduler import Process, shown
from tests.simulation.world.environment import Environment

HUNG_SECONDS = 120.0
"""Real ones. A run that comes no hundred steps further in so long waits for something that the simulation does not know: where
it is, is printed."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    plan: Plan
    broken: str = ""
    """Name of the promise; "crash" for an error that nobody expected."""
    facts: str = ""
    error: str = ""
    trace: str = ""
    digest: str = ""
    steps: int = 0
    seconds: float = 0.0
    """Real ones."""
    happened: dict[str, int] = {}


def run(plan: Plan, *, trace_lines: int = 60) -> Outcome:
    began = time.monotonic()
    _watch_for_a_hang()
    gc.collect()  # what the run before left behind ends outside of this one, and nothing ends at a moment of its own within it
    gc.disable()
    env = Environment(plan)
    env.scheduler.each_hundred_steps = _watch_for_a_hang
    virtual.use(env.scheduler, plan.seed)
    random_ids._random.forget()
    env.workers = make_workers(env)
    env.scheduler.spawn(Process("overseer"), "main", env.oversee)
    try:
        env.scheduler.run()
    finally:
        gc.enable()
        faulthandler.cancel_dump_traceback_later()
        virtual.use(None)
        shutil.rmtree(env.folder, ignore_errors=True)
    error = env.scheduler.failure
    happened = Counter(env.happened)
    happened.update({f"fault {kind}": count for kind, count in env.faults.fired.items()})
    happened["floors raised"], happened["objects deleted"] = env.log_checks.floors_raised, env.log_checks.objects_deleted
    return Outcome(
        plan=plan,
        broken="" if error is None else error.name if isinstance(error, PromiseBroken) else "crash",
        facts="" if error is None else error.facts if isinstance(error, PromiseBroken) else repr(error),
        error="" if error is None else shown(error),
        trace="" if error is None else env.trace.text(trace_lines),
        digest=env.trace.digest,
        steps=env.scheduler.steps,
        seconds=time.monotonic() - began,
        happened=dict(happened),
    )


def _watch_for_a_hang() -> None:
    faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
