"""`python -m tests.simulation PROFILE --seeds 0:100`: runs seeds, prints what came of them, and shrinks what fails."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

import msgspec

if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets must be the same in every run
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])

from tests.simulation import defects
from tests.simulation.mutants import MUTANTS
from tests.simulation.plan import Plan, Profile, make_plan
from tests.simulation.profiles import PROFILES, usual
from tests.simulation.promises import IGNORED, sentence
from tests.simulation.run import Outcome, run
from tests.simulation.shrink import shrunken
from tests.simulation.stand_ins import install

MUTANT_SEEDS = 16
"""From its own on: a change elsewhere lets one seed unfold in another way, not all of them."""


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("profile", nargs="?", default="usual", choices=[*PROFILES, "usual"])
    parser.add_argument("--seeds", default="0:20", metavar="FIRST:BEHIND")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no seed after so long")
    parser.add_argument("--plan", help="replay this plan (JSON) instead")
    parser.add_argument("--trace", type=int, default=60, help="lines to print of a failure")
    parser.add_argument("--keep-going", action="store_true", help="one line for each failure, nothing shrunken")
    parser.add_argument("--shrink-seconds", type=float, default=60.0)
    parser.add_argument("--ignore", default="", help="promises to look past, by comma")
    parser.add_argument("--all-defects", action="store_true", help="meet the defects of defects.py too")
    parser.add_argument("--mutant", choices=list(MUTANTS), help="take a fix out of the product")
    parser.add_argument("--stats", action="store_true", help="how often each thing happened")
    parser.add_argument("--steps", type=int, help="of each run on average, instead of the profile's")
    parser.add_argument("--again", action="store_true", help="run all a second time, last first: each must unfold as before")
    return parser.parse_args()


def plans(options: argparse.Namespace) -> Iterator[Plan]:
    if options.plan:
        yield msgspec.json.decode(options.plan, type=Plan)
        return
    if options.mutant and options.profile == "usual":
        mutant = MUTANTS[options.mutant]
        for seed in range(mutant.seed, mutant.seed + MUTANT_SEEDS):
            yield make_plan(mutant.profile, PROFILES[mutant.profile], seed)
        return
    began = time.monotonic()
    first, behind = map(int, options.seeds.split(":"))
    for seed in range(first, behind):
        for name in usual() if options.profile == "usual" else [options.profile]:
            if time.monotonic() - began < options.seconds:
                yield make_plan(name, _profile(name, options.steps), seed)


def _profile(name: str, steps: int | None) -> Profile:
    return PROFILES[name] if steps is None else msgspec.structs.replace(PROFILES[name], steps=steps)


def unfolded_differently(outcomes: list[Outcome]) -> list[str]:
    """Names of the runs that are another one when others ran before them: something outlives a run in the process."""
    return [
        f"{first.plan.profile}, seed {first.plan.seed}: trace {first.digest}, then {second.digest}"
        for first in reversed(outcomes)
        if (second := run(first.plan)).digest != first.digest
    ]


def report(outcome: Outcome) -> None:
    plan = outcome.plan
    print(f"\nFAILED: {plan.profile}, seed {plan.seed}: {outcome.broken}: {outcome.facts}")
    print(f'promised: "{sentence(outcome.broken)}"')
    print(f"events: {[list(msgspec.structs.astuple(event)) for event in plan.events]}")
    print(outcome.trace, outcome.error, sep="\n")
    print(f"replay: .venv/bin/python -m tests.simulation --plan '{msgspec.json.encode(plan).decode()}'")


def main() -> int:
    options = parsed()
    logging.disable(logging.CRITICAL)
    IGNORED.update(options.ignore.split(","))
    if options.all_defects:
        defects.OPEN.clear()
    install()
    if options.mutant:
        MUTANTS[options.mutant].apply()
    happened, failed, runs, steps, began = Counter[str](), Counter[str](), 0, 0, time.monotonic()
    outcomes: list[Outcome] = []
    for plan in plans(options):
        outcome = run(plan, trace_lines=options.trace)
        runs, steps = runs + 1, steps + outcome.steps
        happened.update(outcome.happened)
        outcomes += [outcome] if options.again else []
        if options.plan or options.stats:
            print(f"{plan.profile} {plan.seed}: trace {outcome.digest}")
        if not outcome.broken:
            continue
        failed[outcome.broken] += 1
        print(f"{plan.profile}, seed {plan.seed}: {outcome.broken}: {outcome.facts}", flush=True)
        if options.mutant and outcome.broken == MUTANTS[options.mutant].promise and options.profile == "usual":
            break  # found
        if not options.keep_going:
            if not options.plan:
                print("shrinking …", flush=True)
                outcome = shrunken(
                    outcome, lambda smaller: run(smaller, trace_lines=options.trace), seconds=options.shrink_seconds
                )
            report(outcome)
            break
    for line in unfolded_differently(outcomes):
        failed["one seed, one trace"] += 1
        print(line)
    seconds = time.monotonic() - began
    print(f"{runs} runs, {steps} steps, {seconds:.1f} s, {steps / seconds:.0f} steps/s, failed: {dict(failed)}")
    for what, count in sorted(happened.items()) if options.stats else ():
        print(f"  {count:8d} {what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
