"""Sweeps splits of the objects table on threads of this process (on Spark: `spark_executor`).

⚠ The filter is probed where it will be used, after it was transferred: each retained id, before anything is deleted.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from headwater.persistence.backend import Backend
from headwater.persistence.rows import Split
from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.reachability.id_set import IdSet, MarkedIds
from headwater.streaming.reachability.safeguards import ALL_ON, Safeguards
from headwater.streaming.retained.bloom import BloomFilter
from headwater.streaming.retained.retained_filter import (
    ExactFilter,
    FilterChoice,
    RetainedFilter,
    build_bloom,
    probe,
    refuse_overfull,
)
from headwater.streaming.sweep.sweep_task import RateLimit, SplitResult, SplitSweep, SweepPlan

THREADS = 4


class SweepWork(NamedTuple):
    splits: Sequence[Split]
    plan: SweepPlan
    before_delete: Callable[[], None]
    """Called repeatedly; if it raises, the sweep ends."""
    on_rows: Callable[[int], None]
    on_result: Callable[[SplitResult], None]
    """Called for each share of the work, by the thread that called `sweep`."""


class SweepExecutor(Protocol):
    def prepare(self, retained: Mapping[str, MarkedIds], choice: FilterChoice, safeguards: Safeguards = ALL_ON) -> float:
        """Build the filter of ids that must stay and ship it to where it is used; returns its false-positive rate."""

    def probe(self) -> int:
        """How many ids passed the filter, which is all of them; `MaintenanceRefused` if one is lost."""

    def sweep(self, work: SweepWork) -> None: ...

    def release(self) -> None:
        """Discard the filter and what it was built from."""


class LocalExecutor:
    """Threads of this process on its own store."""

    def __init__(self, backend: Backend, threads: int = THREADS) -> None:
        self._backend = backend
        self._threads = threads
        self._marked: dict[str, IdSet] = {}
        self._filter: RetainedFilter | None = None

    def prepare(self, retained: Mapping[str, MarkedIds], choice: FilterChoice, safeguards: Safeguards = ALL_ON) -> float:
        self._marked = {realm: ids.local() for realm, ids in retained.items()}
        if choice.kind == "exact":
            self._filter = ExactFilter(self._marked)
            return 0.0
        bloom = build_bloom(self._marked, choice.capacity)
        measured = refuse_overfull(bloom, choice.capacity, sum(map(len, self._marked.values())))
        self._filter = shipped(bloom, safeguards)
        return measured

    def probe(self) -> int:
        return sum(probe(self._shipped(), realm, ids) for realm, ids in self._marked.items())

    def sweep(self, work: SweepWork) -> None:
        task = SplitSweep(
            self._backend,
            work.plan,
            self._shipped(),
            scanning=RateLimit(work.plan.rows_per_second),
            deleting=RateLimit(work.plan.deletes_per_second),
            before_delete=work.before_delete,
            on_rows=work.on_rows,
        )
        with ThreadPoolExecutor(self._threads, thread_name_prefix="sweep") as pool:
            for result in pool.map(task.run, work.splits):
                work.on_result(result)

    def release(self) -> None:
        self._marked, self._filter = {}, None

    def _shipped(self) -> RetainedFilter:
        if self._filter is None:
            raise MaintenanceRefused("no filter was made.", field="filter")
        return self._filter


def shipped(bloom: BloomFilter, safeguards: Safeguards) -> BloomFilter:
    """What arrives on the receiving side."""
    arrived: BloomFilter = pickle.loads(pickle.dumps(bloom))  # noqa: S301 - our own bytes
    if not safeguards.one_salt:
        arrived.salt = bytes(byte ^ 0xFF for byte in arrived.salt)
    return arrived
