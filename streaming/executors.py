"""Splits of the objects table enter; what became of their rows leaves: on threads of this process, or on Spark's workers.

⚠ The filter is probed where it will be used, after it has travelled: each retained id, before anything is deleted.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from headwater.persistence.backend import Backend
from headwater.persistence.backends import open_backend
from headwater.persistence.rows import Split
from headwater.schemas.errors import InvalidInput, MaintenanceRefused
from headwater.streaming.identified import IdSet
from headwater.streaming.retained_filter import BloomFilter, RetainedFilter, probe
from headwater.streaming.safeguards import ALL_ON, Safeguards
from headwater.streaming.sweep_task import RateLimit, SplitResult, SplitSweep, SweepPlan

THREADS = 4
PROBED_IDS_PER_TASK = 200_000


class SweepExecutor(Protocol):
    def ship(self, retained: RetainedFilter, safeguards: Safeguards = ALL_ON) -> None:
        """Take the filter to where it is used."""

    def probe(self, by_realm: Mapping[str, IdSet]) -> int: ...

    def sweep(
        self,
        splits: Sequence[Split],
        plan: SweepPlan,
        before_delete: Callable[[], None],
        on_rows: Callable[[int], None],
        on_result: Callable[[SplitResult], None],
    ) -> None: ...


class LocalExecutor:
    """Threads of this process on its own store."""

    def __init__(self, backend: Backend, threads: int = THREADS) -> None:
        self._backend = backend
        self._threads = threads
        self._filter: RetainedFilter | None = None

    def ship(self, retained: RetainedFilter, safeguards: Safeguards = ALL_ON) -> None:
        self._filter = shipped(retained, safeguards)

    def probe(self, by_realm: Mapping[str, IdSet]) -> int:
        return sum(probe(self._shipped(), realm, ids) for realm, ids in by_realm.items())

    def sweep(
        self,
        splits: Sequence[Split],
        plan: SweepPlan,
        before_delete: Callable[[], None],
        on_rows: Callable[[int], None],
        on_result: Callable[[SplitResult], None],
    ) -> None:
        task = SplitSweep(
            self._backend,
            plan,
            self._shipped(),
            scanning=RateLimit(plan.rows_per_second),
            deleting=RateLimit(plan.deletes_per_second),
            before_delete=before_delete,
            on_rows=on_rows,
        )
        with ThreadPoolExecutor(self._threads, thread_name_prefix="sweep") as pool:
            for result in pool.map(task.run, splits):
                on_result(result)

    def _shipped(self) -> RetainedFilter:
        if self._filter is None:
            raise MaintenanceRefused("no filter was shipped.", field="filter")
        return self._filter


class SparkExecutor:
    """Spark's workers, each with its own connection to the store. `session` is a SparkSession."""

    def __init__(self, session: Any, store_url: str, backend: Backend) -> None:
        if not backend.abilities.shared_between_processes:
            raise InvalidInput(
                f"{backend.name} cannot be reached by workers.", field="store", remedy="Use --local, or another store."
            )
        self._context = session.sparkContext
        self._store_url = store_url
        self._broadcast: Any = None

    def ship(self, retained: RetainedFilter, safeguards: Safeguards = ALL_ON) -> None:
        self._broadcast = self._context.broadcast(pickle.dumps(shipped(retained, safeguards)))

    def probe(self, by_realm: Mapping[str, IdSet]) -> int:
        broadcast = self._broadcast
        tasks = [(realm, share) for realm, ids in by_realm.items() for share in _shares(ids)]
        if not tasks:
            return 0

        def probed(part: Iterator[tuple[str, bytes]]) -> Iterator[int]:
            retained = pickle.loads(broadcast.value)  # noqa: S301 - our own broadcast
            for realm, share in part:
                ids = array("q")
                ids.frombytes(share)
                yield probe(retained, realm, ids)

        return int(self._context.parallelize(tasks, len(tasks)).mapPartitions(probed).sum())

    def sweep(
        self,
        splits: Sequence[Split],
        plan: SweepPlan,
        before_delete: Callable[[], None],
        on_rows: Callable[[int], None],
        on_result: Callable[[SplitResult], None],
    ) -> None:
        """Limits hold over all tasks together. The lease is checked before each wave of tasks: a run that was superseded
        deletes nothing more than what is under way, which stays right, for what it found unreachable never comes back."""
        broadcast, url = self._broadcast, self._store_url
        wave = max(1, self._context.defaultParallelism)
        share = plan_for_one_of(plan, wave)

        def swept(part: Iterator[Split]) -> Iterator[SplitResult]:
            retained = pickle.loads(broadcast.value)  # noqa: S301 - our own broadcast
            backend = open_backend(url)
            try:
                for split in part:
                    yield SplitSweep(backend, share, retained).run(split)
            finally:
                backend.close()

        for first in range(0, len(splits), wave):
            before_delete()
            some = list(splits[first : first + wave])
            for result in self._context.parallelize(some, len(some)).mapPartitions(swept).collect():
                on_rows(sum(counts.scanned for by_type in result.counts.values() for counts in by_type.values()))
                on_result(result)


def shipped(retained: RetainedFilter, safeguards: Safeguards) -> RetainedFilter:
    """What arrives on the other side."""
    arrived: RetainedFilter = pickle.loads(pickle.dumps(retained))  # noqa: S301 - our own bytes
    if not safeguards.one_salt and isinstance(arrived, BloomFilter):
        arrived.salt = bytes(byte ^ 0xFF for byte in arrived.salt)
    return arrived


def plan_for_one_of(plan: SweepPlan, tasks: int) -> SweepPlan:
    return SweepPlan(
        realms=plan.realms,
        types=plan.types,
        dry_run=plan.dry_run,
        rows_per_second=plan.rows_per_second / tasks,
        deletes_per_second=plan.deletes_per_second / tasks,
    )


def _shares(ids: IdSet) -> Iterator[bytes]:
    share = array("q")
    for object_id in ids:
        share.append(object_id)
        if len(share) == PROBED_IDS_PER_TASK:
            yield share.tobytes()
            share = array("q")
    if share:
        yield share.tobytes()
