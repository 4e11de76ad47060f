"""A real standalone cluster, a master and workers as processes: executors that got the package shipped read the log, keep the
retained set and sweep, and workers are killed while they are at it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.persistence.store import Store, open_store
from headwater.streaming.retained.retained_seed import seed
from headwater.streaming.retained.retained_store import RetainedStore
from tests.support.fixtures.maintained import Maintained
from tests.support.servers.spark_cluster import CONF, START_SECONDS, cluster

JOB = Path(__file__).resolve().parents[1] / "support" / "processes" / "spark_cluster_job.py"
INSTANCE = "lake#0000000000000001"
SOAK = os.environ.get("HEADWATER_SOAK") == "1"
KILLS = ("retained", "sweep") if SOAK else ("sweep",)
"""When a worker dies; another one is left for what follows. Each costs two JVMs more."""


@pytest.mark.timeout(900)
def test_a_real_cluster_reads_retains_and_sweeps_while_its_workers_are_killed(tmp_path: Path) -> None:
    """Started in a folder that is not the checkout, and that would break whoever imports from it."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "headwater").mkdir(parents=True)
    (elsewhere / "headwater" / "__init__.py").write_text("raise RuntimeError('the working folder was imported')")
    url = f"sqlite:///{tmp_path}/lake.db"
    with open_store(url, create=True) as store:
        realm = old_realm(store, tmp_path / "retained")
        before, reachable = realm.ids(), realm.reachable()
        with cluster(tmp_path, len(KILLS) + 1) as spark, (tmp_path / "job.log").open("wb") as log:
            command = [
                sys.executable,
                "-P",
                str(JOB),
                spark.url,
                CONF,
                url,
                INSTANCE,
                str(tmp_path),
                *KILLS,
                "read" if SOAK else "",
            ]
            job = subprocess.Popen(command, cwd=elsewhere, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                for number, moment in enumerate(KILLS):
                    wait_for_tasks(tmp_path, moment, len(KILLS) + 1 - number, job)
                    gone = before - realm.ids()
                    assert bool(gone) == (moment == "sweep"), "workers have not begun, or have begun too early"
                    assert realm.ids() != reachable, "the sweep was over before a worker was killed"
                    spark.kill_a_worker()
                    (tmp_path / f"go-{moment}").touch()
                out, _ = job.communicate(timeout=480)
            finally:
                job.kill()
                job.wait()
        lines = [line for line in out.splitlines() if line.startswith("ANSWER ")]
        assert lines, (tmp_path / "job.log").read_text(errors="replace")[-3_000:]
        answer = json.loads(lines[0].removeprefix("ANSWER "))
        assert realm.ids() == reachable
        realm.check_states()
        logged = sorted([name, seq] for name, log_of in realm.logs.items() for seq in range(realm.floor(name), len(log_of) + 1))
    assert not SOAK or (answer["changes"] == logged and answer["objects"] == len(before))
    assert all("headwater-package.zip" in place for place in answer["packages"]), "executors read the checkout"
    assert (answer["executors"], answer["executors_left"]) == (len(KILLS) + 1, 1), "no executor was lost"
    assert answer["same"] and answer["steps"] >= 2 and answer["failures"] == [] and answer["purged"] > 0


def old_realm(store: Store, folder: Path) -> Maintained:
    """Of last winter, with garbage; its retained set was seeded when it was young."""
    realm = Maintained(store.backend, seed=3, realm=INSTANCE)
    realm.clock.micros = store.clock.now_micros() - 60 * 86_400 * 1_000_000
    for number in range(90):
        if number == 60:
            seed(store.backend, RetainedStore(folder, INSTANCE))
        realm.step()
    realm.expire("*=12n")
    return realm


def wait_for_tasks(folder: Path, moment: str, executors: int, job: subprocess.Popen[str]) -> None:
    """Until all executors are in the middle of a task."""
    deadline = time.monotonic() + START_SECONDS
    while len(list(folder.glob(f"in-{moment}-*"))) < executors:
        assert job.poll() is None and time.monotonic() < deadline, (folder / "job.log").read_text(errors="replace")[-3_000:]
        time.sleep(0.05)
