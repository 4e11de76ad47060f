"""A store URL, a realm instance and a moment enter; a process leaves that maintains the realm and is killed (-9) then.

`floor`: floors are raised, nothing is deleted. `marked`: everything is marked and probed. `deleting`: some rows are gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from headwater.persistence.store import open_store
from headwater.streaming import sweep_task
from headwater.streaming.executors import LocalExecutor
from headwater.streaming.expire import Expiry
from headwater.streaming.identifiers import Identifiers
from headwater.streaming.policies import parse_retention
from headwater.streaming.retained_sources import WalkedSource
from headwater.streaming.runs import Runs
from headwater.streaming.sweep import Sweep, SweepOptions


def main(url: str, realm: str, moment: str) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    sweep_task.DELETE_BATCH_ROWS = 5
    with open_store(url) as store:
        deletes = 0
        delete_scanned = store.backend.delete_scanned

        def counted(rows: object) -> object:
            nonlocal deletes
            done = delete_scanned(rows)  # type: ignore[arg-type]
            deletes += 1
            if deletes == 3 and moment == "deleting":
                die()
            return done

        store.backend.delete_scanned = counted  # type: ignore[method-assign, assignment]
        runs = Runs(store.backend, store.clock)
        with runs.run("sweep") as run:
            Expiry(store.kernel(realm), parse_retention("*=3n")).run()
            if moment == "floor":
                die()
            known = Identifiers()
            sweep = Sweep(
                store,
                WalkedSource(store.backend, known),
                LocalExecutor(store.backend, 1),
                known,
                SweepOptions(),
                before_delete=die if moment == "marked" else lambda: None,
            )
            sweep.run(runs, run, [realm])


def run_and_be_killed(url: str, realm: str, moment: str) -> None:
    """Fails unless the process was really killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sweep_process", url, realm, moment], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, f"{done.returncode}: {done.stdout}{done.stderr}"


if __name__ == "__main__":
    main(*sys.argv[1:])
