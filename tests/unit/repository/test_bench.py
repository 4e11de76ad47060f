"""The measurements run and write what they found; what the numbers are is nobody's assertion here."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from bench.bulk_load import load_commits, load_tables, table_key
from bench.goals import missed
from bench.measures import Measure
from headwater.schemas.entry_ids import recomputed_entry_id

ROOT = Path(__file__).parents[3]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("suite", ["ids", "persistence", "commit"])
def test_a_suite_prints_a_table_and_writes_its_numbers(suite: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    done = bench(suite, "--backend", "memory", "--seconds", "0.02", "--json", str(file))
    assert done.returncode == 0, done.stderr
    assert "/s" in done.stdout
    measures = json.loads(file.read_text())["measures"]
    assert {measure["suite"] for measure in measures} == {suite}
    assert all(measure["value"] > 0 for measure in measures)


def test_large_stores_are_loaded_and_measured_at_the_size_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    done = bench("scale", "--tables", "1200", "--entries", "500", "--seconds", "0.02", "--json", str(file))
    assert done.returncode == 0, done.stderr
    subjects = {measure["subject"] for measure in json.loads(file.read_text())["measures"]}
    assert subjects == {"1,000 tables", "1,200 tables", "500 entries"}


def test_goals_that_are_missed_are_named() -> None:
    slow = Measure("commit", "sqlite", "8 callers", 10.0, "commits/s")
    fast = Measure("commit", "sqlite", "64 callers", 20_000.0, "commits/s")
    late = Measure("commit", "postgresql", "8 callers", 51.0, "ms, p99")
    without_goal = Measure("commit", "memory", "8 callers", 1.0, "commits/s")
    assert [measure for measure, _ in missed([slow, fast, late, without_goal])] == [slow, late]


def test_a_catalog_loaded_in_bulk_is_one_that_commits_could_have_made() -> None:
    with headwater.open("memory://", create=True) as engine:
        branch = engine.ensure_realm("bench").create_catalog("lake").branch()
        kernel = engine.realm("bench").kernel
        load_tables(kernel, branch.pointer, 700)
        load_commits(kernel, branch.pointer, 60)
        branch.commit([headwater.Put(table_key(3), headwater.IcebergTable("s3://lake/again"))])
        changes = list(branch.changes())
        for before, change in itertools.pairwise(changes):
            assert recomputed_entry_id(change, before.entry_id) == change.entry_id
        assert changes[-1].operations[0].before is not None
        assert sum(1 for _ in branch.snapshot()) == 700 + 100 + 60


def test_an_unknown_suite_is_refused_with_the_list_of_suites() -> None:
    done = bench("nosuch")
    assert done.returncode == 2
    assert "persistence" in done.stderr
