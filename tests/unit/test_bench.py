"""The measurements run and write what they found; what the numbers are is nobody's assertion here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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


def test_an_unknown_suite_is_refused_with_the_list_of_suites() -> None:
    done = bench("nosuch")
    assert done.returncode == 2
    assert "persistence" in done.stderr
