"""A process that deletes files is killed with SIGKILL at each step: the next one ends its work, and nothing in use is lost.

The killed run holds its lease, until that ends or an operator supersedes it; what it announced to commits stands until then.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.persistence.coordination.removal_intents import read_intents
from headwater.producer.immediate_tasks import TaskState
from headwater.schemas.errors import FilesCondemned, MaintenanceRunning
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.purged_lake import drop_with_purge, forget_history, purge_tasks, task_of
from tests.support.fixtures.swept_lake import SweptLake, swept_lake

JOB = Path(__file__).resolve().parents[1] / "support" / "processes" / "killed_files_job.py"
IS_SOAK = os.environ.get("HEADWATER_SOAK") == "1"
SWEEP_STEPS = ("claim", "mark", "list", "prove", "intent", "second fence", "delete", "file") if IS_SOAK else ("intent", "file")
PURGE_STEPS = ("mark", "intent", "second fence", "delete", "batch", "file", "record") if IS_SOAK else ("file", "record")
ANNOUNCED = ("second fence", "delete", "batch", "file", "record")
"""Steps at which commits see the removal."""


def killed(lake: SweptLake, what: str, step: str) -> None:
    command = [sys.executable, "-P", str(JOB), lake.url, what, step]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, f"the fault never fired: {done.stderr[-2_000:].decode()}"


def supersede(lake: SweptLake, what: str) -> None:
    """As an operator does, who knows that the process is dead."""
    runs = Runs(lake.store.backend, lake.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
    with pytest.raises(MaintenanceRunning) as running, runs.run(f"files-{what}"):
        pass
    dead = re.search(r"--supersede (\S+?)\.?$", str(running.value))
    assert dead is not None, running.value
    with runs.run(f"files-{what}", supersede=dead[1]) as run:
        assert run.record.id != dead[1]


@pytest.mark.parametrize("step", SWEEP_STEPS)
def test_a_killed_sweep_is_completed_by_the_next_and_concurrent_commits_are_safe(tmp_path: Path, step: str) -> None:
    with swept_lake(tmp_path, url=f"sqlite:///{tmp_path}/store.db") as lake:
        kept = lake.table("kept", 2).metadata_location
        lake.put("kept", kept)
        orphan = lake.table("orphan", 2).metadata_location
        late = lake.table("late").metadata_location
        lake.sweep()
        killed(lake, "sweep", step)
        needed = lake.needed(late) if Path(late.removeprefix("file://")).exists() else {late}
        is_announced = step in ANNOUNCED
        assert any(not one.is_done for one in read_intents(lake.store.backend)) is is_announced
        if is_announced:
            with pytest.raises(FilesCondemned):
                lake.put("late", late)
        else:
            lake.put("late", late)
        supersede(lake, "sweep")
        lake.sweep()
        lake.sweep()
        assert lake.files() == lake.needed(kept) | (set() if is_announced else needed), step
        assert orphan not in lake.files()


@pytest.mark.parametrize("step", PURGE_STEPS)
def test_a_purge_that_is_killed_is_ended_by_the_next(tmp_path: Path, step: str) -> None:
    with swept_lake(tmp_path, url=f"sqlite:///{tmp_path}/store.db") as lake:
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        location = lake.table("t", 3).metadata_location
        lake.put("t", location)
        id = drop_with_purge(lake, "t", location)
        forget_history(lake)
        killed(lake, "purge", step)
        assert task_of(lake, id).state in (TaskState.HELD, TaskState.DELETING)
        supersede(lake, "purge")
        purge_tasks(lake)
        assert task_of(lake, id).state is TaskState.DONE and lake.files() == lake.needed(kept)
