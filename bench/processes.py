"""A Spark session enters; how much memory its driver ever took leaves: the JVM and this process."""

from __future__ import annotations

import re
import resource
from pathlib import Path
from typing import Any


def driver_megabytes(spark: Any) -> float:
    """The most that was resident. With a local master the executors' share is in it, but not their Python workers."""
    jvm = int(spark.sparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid())
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{jvm}/status").read_text())
    jvm_kilobytes = int(found.group(1)) if found else 0
    return (jvm_kilobytes + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024
