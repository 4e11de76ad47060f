"""A process that maintains a realm and is killed (-9) at a given point.

`floor`: floors are raised, nothing is deleted. `marked`: everything is marked and probed. `deleting`: some rows are gone.
`on-spark`: the driver of a sweep on Spark's workers, when the first of them has told what it did.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from headwater.persistence.backend import Backend, DeleteResult
from headwater.persistence.rows import ScannedRow
from headwater.persistence.store import open_store
from headwater.streaming.expire.expire import Expiry
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.runs import Runs
from headwater.streaming.sweep import sweep_task
from headwater.streaming.sweep.executors import LocalExecutor, SweepExecutor
from headwater.streaming.sweep.sweep import Sweep, SweepOptions

SLOWLY = SweepOptions(filter="bloom", splits=8, deletes_per_second=50)
"""So that the first tasks have ended, and others have not."""


def main(url: str, realm: str, moment: str) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    sweep_task.DELETE_BATCH_ROWS = 5
    with open_store(url) as store:
        deletes = 0
        delete_scanned = store.backend.delete_scanned

        def counted(rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
            nonlocal deletes
            done = delete_scanned(rows, of=of)
            deletes += 1
            if deletes == 3 and moment == "deleting":
                die()
            return done

        store.backend.delete_scanned = counted  # type: ignore[method-assign]
        runs = Runs(store.backend, store.clock)
        with runs.run("sweep") as run:
            Expiry(store.kernel(realm), parse_retention("*=3n")).run()
            if moment == "floor":
                die()
            known = Identifiers()
            sweep = Sweep(
                store,
                WalkedSource(store.backend, known),
                on_spark(url, store.backend) if moment == "on-spark" else LocalExecutor(store.backend, 1),
                known,
                SLOWLY if moment == "on-spark" else SweepOptions(),
                before_delete=die if moment == "marked" else lambda: None,
                on_progress=lambda what, _count: die() if (what, moment) == ("scanned", "on-spark") else None,
            )
            sweep.run(runs, run, [realm])


def on_spark(url: str, backend: Backend) -> SweepExecutor:
    from headwater.streaming.spark_jobs.spark_executor import SparkExecutor
    from tests.support.servers.spark_session import shared_spark

    return SparkExecutor(shared_spark(), url, backend)


def run_and_be_killed(url: str, realm: str, moment: str) -> None:
    """Fails unless the process was really killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.processes.sweep_process", url, realm, moment],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == -signal.SIGKILL, f"{done.returncode}: {done.stdout}{done.stderr}"


if __name__ == "__main__":
    main(*sys.argv[1:])
