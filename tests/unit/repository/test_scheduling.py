"""Two processes share a run: each file runs in one of them, and all tests that need Spark run in the same one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.support.running.test_run import FOLDER

ROOT = Path(__file__).resolve().parents[3]
PROJECT = """
import pytest
from tests.support.running.scheduling import FileScheduling, order_for_workers

def pytest_xdist_make_scheduler(config, log):
    return FileScheduling(config, log)

def pytest_collection_modifyitems(config, items):
    order_for_workers(items, is_worker=hasattr(config, "workerinput"))
"""
A_FILE = """
import pytest

@pytest.fixture
def spark():
    pass

def test_without(worker_id, record_property):
    record_property("worker", worker_id)

def test_with(spark, worker_id, record_property):
    record_property("worker", worker_id)

@pytest.mark.spark
def test_marked(worker_id, record_property):
    record_property("worker", worker_id)
"""
TOLD = """
def pytest_runtest_logreport(report):
    if report.when == "call":
        print("\\nran", report.nodeid, dict(report.user_properties)["worker"])
"""


def test_every_test_that_needs_spark_runs_in_the_same_process(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = spark\n")
    (tmp_path / "conftest.py").write_text(PROJECT)
    (tmp_path / "told.py").write_text(TOLD)
    for number in range(8):
        (tmp_path / f"test_{number}.py").write_text(A_FILE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "told", "--numprocesses", "2", "--no-loadscope-reorder"],
        env={**os.environ, FOLDER: str(tmp_path), "PYTHONPATH": f"{ROOT}:{tmp_path}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    workers: dict[str, set[str]] = defaultdict(set)
    for _, nodeid, worker in (line.split() for line in done.stdout.splitlines() if line.startswith("ran ")):
        file, _, name = nodeid.partition("::")
        workers[file if name == "test_without" else "spark"].add(worker)
    assert len(workers) == 9
    assert all(len(used) == 1 for used in workers.values()), workers
    assert len(set.union(*workers.values())) == 2
