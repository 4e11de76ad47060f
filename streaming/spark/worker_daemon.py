"""Starts Spark's Python workers on this machine as PySpark's own daemon does, without two costs of each task.

- Spark puts three archives before everything else on the path: PySpark, py4j and the jar of Spark's core. PySpark empties
  Python's caches of the path before each task, and Python up to 3.11 then reads the contents of all archives again. A session
  on this machine has PySpark in a folder too, with modules that are compiled already.
- After each task a worker searches all that it has imported for garbage. What its first task leaves is exempted.

Spark runs it as `python -m headwater.streaming.spark.worker_daemon`, for sessions to which `is_usable_here` applies.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

ARCHIVES = (".zip", ".jar")
MODULE = "headwater.streaming.spark.worker_daemon"


def is_usable_here(conf: Mapping[str, str]) -> bool:
    """Workers must find what this process finds: the same Python, and a PySpark that is not only in Spark's archives."""
    import pyspark

    is_own_python = os.environ.get("PYSPARK_PYTHON", sys.executable) == sys.executable and "spark.pyspark.python" not in conf
    return is_own_python and Path(pyspark.__file__).is_file()


def forget_archives() -> None:
    """Archives of `--py-files` come later, with each task, and stay."""
    sys.path[:] = [place for place in sys.path if not place.endswith(ARCHIVES)]
    for place in list(sys.path_importer_cache):
        if place.endswith(ARCHIVES):
            del sys.path_importer_cache[place]


def main() -> None:
    forget_archives()
    from pyspark import daemon

    run_task = daemon.worker_main

    def run_task_and_keep_its_modules(infile: IO[bytes], outfile: IO[bytes]) -> None:
        run_task(infile, outfile)
        if gc.get_freeze_count() == 0:
            gc.collect()
            gc.freeze()

    daemon.worker_main = run_task_and_keep_its_modules
    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
