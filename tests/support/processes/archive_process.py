"""A Spark driver that archives, and is killed (-9) when the files of its second batch are written but not yet in the
archive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from headwater.streaming.archive.archive import archive_log
from headwater.streaming.archive.archive_targets import ParquetArchive
from headwater.streaming.spark.hadoop_files import HadoopFiles
from tests.support.servers.spark_session import shared_spark

LEASE_SECONDS = 2.0


def main(url: str, folder: str) -> None:
    write_new, batches = HadoopFiles.write_new, 0

    def dies_at_the_second(self: HadoopFiles, name: str, content: bytes) -> None:
        nonlocal batches
        batches += 1
        if batches == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        write_new(self, name, content)

    HadoopFiles.write_new = dies_at_the_second  # type: ignore[method-assign]
    spark = shared_spark()
    archive_log(spark, ParquetArchive(spark, folder), store=url, changes_per_batch=20, lease_seconds=LEASE_SECONDS)


def run_and_be_killed(url: str, folder: str) -> None:
    """Fails unless the process was really killed."""
    command = [sys.executable, "-m", "tests.support.processes.archive_process", url, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == -signal.SIGKILL, f"{done.returncode}: {done.stdout}{done.stderr}"


if __name__ == "__main__":
    main(*sys.argv[1:])
