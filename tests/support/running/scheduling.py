"""Which process runs which test: one file, one process; all tests that need Spark in one process, because a JVM starts slowly.

Files begin in the order of `WEIGHTS`, longest first, so that no process is left with a long file at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdist.scheduler import LoadScopeScheduling

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
    """Hands out whole files, in the order of collection; a node id that ends in `@spark` belongs to Spark's process."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.endswith(f"@{SPARK}") else nodeid.partition("::")[0]


def order_for_workers(items: list[pytest.Item], *, is_worker: bool) -> None:
    """Sorts files by weight; in a worker, Spark's tests get the suffix by which the scheduler knows them."""
    items.sort(key=_rank)
    if not is_worker:
        return
    for item in items:
        if _needs_spark(item):
            item._nodeid = f"{item.nodeid}@{SPARK}"


def _rank(item: pytest.Item) -> tuple[bool, int]:
    fits: Callable[[str], bool] = item.nodeid.startswith
    weight = next((at for at, folder in enumerate(WEIGHTS) if fits(folder)), len(WEIGHTS))
    return not _needs_spark(item), weight


def _needs_spark(item: pytest.Item) -> bool:
    return SPARK in getattr(item, "fixturenames", ()) or item.get_closest_marker(SPARK) is not None
