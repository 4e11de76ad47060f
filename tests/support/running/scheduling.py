"""Which process runs which test: one file, one process; all tests that need Spark in one process, because a JVM starts slowly.

Files begin in the order of `WEIGHTS`, longest first, so that no process is left with a long file at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.support.running.test_run import run_folder

SPARK = "spark"
WEIGHTS = (
    "tests/e2e/spark",
    "tests/robustness",
    "tests/conformance",
    "tests/simulation",
    "tests/stateful",
    "tests/e2e",
    "tests/contract",
    "tests/unit",
)
"""Folders by the time that their longest files take, the longest first."""


class FileScheduling(LoadScopeScheduling):
    """Hands out whole files, in the order of collection, and the tests that need Spark as if they were one file."""

    @cached_property
    def _spark_tests(self) -> frozenset[str]:
        return read_spark_tests(run_folder())

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid in self._spark_tests else nodeid.partition("::")[0]


def order_for_workers(items: list[pytest.Item], *, is_worker: bool) -> None:
    """Sorts files by weight; a worker also says which tests need Spark, which the scheduler cannot know from their names."""
    items.sort(key=_rank)
    if is_worker:
        write_spark_tests(run_folder(), (item.nodeid for item in items if _needs_spark(item)))


def write_spark_tests(folder: Path, nodeids: Iterable[str]) -> None:
    """Every worker writes the same, whole."""
    mine = folder / f"{SPARK}-tests.{os.getpid()}"
    mine.write_text("\0".join(nodeids))
    mine.replace(folder / f"{SPARK}-tests")


def read_spark_tests(folder: Path) -> frozenset[str]:
    return frozenset((folder / f"{SPARK}-tests").read_text().split("\0"))


def _rank(item: pytest.Item) -> tuple[bool, int]:
    fits: Callable[[str], bool] = item.nodeid.startswith
    weight = next((at for at, folder in enumerate(WEIGHTS) if fits(folder)), len(WEIGHTS))
    return not _needs_spark(item), weight


def _needs_spark(item: pytest.Item) -> bool:
    return SPARK in getattr(item, "fixturenames", ()) or item.get_closest_marker(SPARK) is not None
