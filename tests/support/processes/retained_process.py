"""A Spark driver that streams a retained set, and is killed (-9) when its second batch is written but not yet committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from headwater.persistence.store import open_store
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.spark_jobs.retained_job import RetainedJob
from tests.support.servers.spark_session import shared_spark


def main(url: str, folder: str, realm: str) -> None:
    rename, batches = Path.rename, 0

    def dies_at_the_second(self: Path, target: Path) -> Path:
        nonlocal batches
        batches += self.name.startswith("unfinished-")
        if batches == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    Path.rename = dies_at_the_second  # type: ignore[method-assign, assignment]
    with open_store(url) as store:
        RetainedJob(shared_spark(), store, url, RetainedStore(folder, realm)).run(changes_per_batch=10)


def run_and_be_killed(url: str, folder: str, realm: str) -> None:
    """Fails unless the process was really killed."""
    command = [sys.executable, "-m", "tests.support.processes.retained_process", url, folder, realm]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == -signal.SIGKILL, f"{done.returncode}: {done.stdout}{done.stderr}"


if __name__ == "__main__":
    main(*sys.argv[1:])
