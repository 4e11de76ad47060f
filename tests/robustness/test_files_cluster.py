"""A sweep of files on a real cluster, of which a worker is killed while files are being deleted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fixtures.swept_lake import swept_lake
from tests.support.servers.spark_cluster import CONF, START_SECONDS, cluster

JOB = Path(__file__).resolve().parents[1] / "support" / "processes" / "file_sweep_job.py"
ORPHANS = 600
FILES_PER_SECOND = 20
"""So that there is time to kill."""


@pytest.mark.skipif(os.environ.get("HEADWATER_SOAK") != "1", reason="two more JVMs; set HEADWATER_SOAK=1")
@pytest.mark.timeout(900)
def test_a_worker_that_is_killed_while_it_deletes_is_followed_by_another_and_each_file_counts_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with swept_lake(tmp_path, url=url) as lake:
        kept = lake.table("kept", 2).metadata_location
        lake.put("kept", kept)
        orphans = tmp_path / "lake" / "orphans"
        orphans.mkdir()
        for number in range(ORPHANS):
            (orphans / f"{number:04}.parquet").write_text("PAR1")
        lake.sweep()
        with cluster(tmp_path, 2) as spark, (tmp_path / "job.log").open("wb") as log:
            command = [sys.executable, "-P", str(JOB), spark.url, CONF, url, str(FILES_PER_SECOND)]
            job = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                left = wait_until_some_are_gone(orphans, job)
                spark.kill_a_worker()
                assert left > ORPHANS / 4, "nearly all were gone before the worker was killed"
                out, _ = job.communicate(timeout=480)
            finally:
                job.kill()
                job.wait()
        lines = [line for line in out.splitlines() if line.startswith("ANSWER ")]
        assert lines, (tmp_path / "job.log").read_text(errors="replace")[-3_000:]
        report = json.loads(lines[0].removeprefix("ANSWER "))
        purge = report["purge"]
        assert not report["refusal"] and purge["failed"] == 0 and list(orphans.iterdir()) == []
        assert purge["purged"] + purge["missing"] == ORPHANS and purge["missing"] > 0, "no share was done twice"
        assert lake.files() == lake.needed(kept)


def wait_until_some_are_gone(orphans: Path, job: subprocess.Popen[str]) -> int:
    """How many are left."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and job.poll() is None:
        left = len(list(orphans.iterdir()))
        if left < ORPHANS - 50:
            return left
        time.sleep(0.05)
    raise AssertionError("nothing was deleted")
