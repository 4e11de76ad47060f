"""Measures the peak memory of a Spark driver, and the CPU time of all its processes."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def driver_megabytes(spark: Any) -> float:
    """The most that was resident. With a local master the executors' share is in it, but not their Python workers."""
    jvm = int(spark.sparkContext._gateway.jvm.java.lang.ProcessHandle.current().pid())
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{jvm}/status").read_text())
    jvm_kilobytes = int(found.group(1)) if found else 0
    return (jvm_kilobytes + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1024


def core_seconds() -> float:
    """Of this process and all that it has started, the JVM and its workers among them: other programs cannot take it away."""
    return sum(_ticks(pid) for pid in _family(os.getpid())) / _TICKS


def _family(root: int) -> Iterator[int]:
    yield root
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        for child in _read(task).split():
            yield from _family(int(child))


def _ticks(pid: int) -> int:
    """Its own, and of those of its children that have ended."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _read(file: Path) -> str:
    """Empty for a process that has just ended."""
    try:
        return file.read_text()
    except OSError:
        return ""
