"""Seeds enter a process of its own; no promise is broken in any of them. See README.md for what is simulated."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tests.simulation.promises import PROMISES, sentence

SOAK = bool(os.environ.get("HEADWATER_SOAK"))
ROOT = Path(__file__).parents[2]
FAILED_PLANS = Path(__file__).parent / "failed_plans"
FIXED_SEEDS = 2 if not SOAK else 100_000
FIXED_SECONDS = 240 if not SOAK else 600
"""A bound for slow machines: the number of seeds is what ends a usual run."""
NEW_SEEDS = 1 if not SOAK else 100_000
NEW_SECONDS = 240 if not SOAK else 2_400
MUTANT_PROMISES = {
    "h1": "merge",
    "h2": "notice",
    "h4": "request-once",
    "n1": "state",
    "n3": "same-log",
    "n4": "same-log",
    "n6": "pins",
    "n7": "acknowledged",
    "n8": "same-log",
    "n9": "superseded",
    "n10": "webhook",
    "n11": "archive",
    "n18": "same-log",
}


def simulate(*arguments: str, timeout_seconds: float = 280.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_seconds)


def test_every_promise_that_is_checked_is_one_of_the_guarantees() -> None:
    assert [name for name, begin in PROMISES.items() if begin and not sentence(name)] == []


@pytest.mark.timeout(3_600)
def test_no_promise_is_broken_by_the_fixed_seeds() -> None:
    seeds = f"0:{FIXED_SEEDS}"
    done = simulate("--seeds", seeds, "--seconds", str(FIXED_SECONDS), timeout_seconds=FIXED_SECONDS + 250)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


@pytest.mark.timeout(3_600)
def test_no_promise_is_broken_by_new_seeds() -> None:
    """The plan of what fails is printed, shrunken, and replays anywhere. What it finds may be older than the change that is
    tested, and is a finding all the same."""
    first = random.SystemRandom().randrange(10**8, 10**9) if SOAK else seed_of_the_day()
    seeds = f"{first}:{first + NEW_SEEDS}"
    done = simulate("--seeds", seeds, "--seconds", str(NEW_SECONDS), timeout_seconds=NEW_SECONDS + 250)
    assert done.returncode == 0, f"seeds from {first}\n" + done.stdout[-20_000:] + done.stderr[-2_000:]


def seed_of_the_day() -> int:
    """New every day, and the same for everybody on that day: who repeats the test meets what failed."""
    return 10_000_000 + 100 * (datetime.now(UTC).date() - date(2026, 1, 1)).days


@pytest.mark.parametrize("name", sorted(file.stem for file in FAILED_PLANS.glob("*.json")))
def test_a_plan_that_has_shown_a_defect_passes(name: str) -> None:
    """It shows the defect as long as nothing else lets the plan unfold in another way."""
    done = simulate("--plan", (FAILED_PLANS / f"{name}.json").read_text())
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]


def test_one_seed_gives_one_trace() -> None:
    one, two = (simulate("kafka", "--seeds", "7:8", "--stats").stdout.splitlines()[0] for _ in range(2))
    assert one == two and "trace" in one


def test_a_run_is_the_same_whatever_ran_before_it_in_the_process() -> None:
    """Every profile, forwards and then backwards: a chance, a clock or a cache that outlives a run changes its trace."""
    done = simulate("--seeds", "7:8", "--steps", "1500", "--again")
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]


@pytest.mark.parametrize("name", list(MUTANT_PROMISES))
def test_without_its_fix_a_seed_breaks_the_promise(name: str) -> None:
    """The seeds are those of mutants.py. What changes how a seed unfolds may need another one: look for it by hand."""
    found = simulate("--mutant", name, "--keep-going").stdout
    assert f": {MUTANT_PROMISES[name]}: " in found, found[-5_000:]
