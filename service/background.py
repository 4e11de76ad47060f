"""Background work of a server: deletes what has expired and measures usage, in one worker at a time, in short slices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from headwater.persistence.coordination.claimed_removals import clean_claims
from headwater.persistence.coordination.work_leases import HeldLease, WorkLeases
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.plans.plans import clean_plans
from headwater.producer.statistics.statistics_sets import clean_statistics
from headwater.schemas.errors import HeadwaterError
from headwater.service.config import ServeConfig
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.idempotency.expiry import Cleaning
from headwater.service.statistics.unlisted_statistics import UnlistedStatistics
from headwater.service.usage.measurement import Measuring

PAUSE_SECONDS = 0.2
"""Between two slices that have more to do."""
STATISTICS_SECONDS = 3_600.0
"""Between two looks for statistics of snapshots that are gone: each walks the branches of catalogs that have statistics."""

_log = logging.getLogger(__name__)


class Background:
    """One per worker."""

    def __init__(self, store: Store, config: ServeConfig, lakes: Lakes | None = None) -> None:
        """Without lakes nothing is done that needs metadata of tables."""
        self._lakes = lakes
        self._leases = WorkLeases(store.backend, store.clock)
        self._holder = secrets.token_hex(8)
        self._store = store
        self._config = config
        self._tasks: list[asyncio.Task[None]] = []
        self._slices: set[asyncio.Future[bool]] = set()
        self._held: dict[str, HeldLease] = {}

    def start(self) -> None:
        cleaning, usage = self._config.idempotency_cleaning, self._config.usage
        clean = self.cleaning()
        works = [self._repeat("idempotency-keys", lambda: clean.slice()[1], cleaning.every_seconds, PAUSE_SECONDS)]
        if usage.every_seconds:
            measure = Measuring(self._store, usage)
            works.append(self._repeat("usage", measure.slice, usage.every_seconds, usage.rest_seconds))
        if self._lakes is not None:
            unlisted = UnlistedStatistics(self._store, self._lakes)
            works.append(self._repeat("statistics", unlisted.slice, STATISTICS_SECONDS, PAUSE_SECONDS))
        self._tasks = [asyncio.ensure_future(work) for work in works]

    def cleaning(self) -> Cleaning:
        """Cleans up everything that expires by its own time."""
        also = [clean_plans, _clean_claims, _clean_chunks]
        return Cleaning(self._store, self._config.idempotency_cleaning, also=also)

    async def stop(self) -> None:
        """⚠ Waits for a running slice: after this the store is closed."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await asyncio.gather(*self._slices, return_exceptions=True)
        for held in self._held.values():
            with contextlib.suppress(HeadwaterError):  # else it runs out by itself
                await asyncio.to_thread(held.release)

    async def _repeat(self, key: str, slice: Callable[[], bool], every_seconds: float, rest_seconds: float) -> None:
        """Slice after slice until a round is complete, then again after a while."""
        while True:
            rest = every_seconds
            try:
                if await asyncio.to_thread(self._is_mine, key) and not await self._run(slice):
                    rest = rest_seconds
            except HeadwaterError as error:
                _log.warning("%s: %s", key, error)
            await asyncio.sleep(rest)

    async def _run(self, slice: Callable[[], bool]) -> bool:
        running = asyncio.ensure_future(asyncio.to_thread(slice))
        self._slices.add(running)
        running.add_done_callback(self._slices.discard)
        return await asyncio.shield(running)

    def _is_mine(self, key: str) -> bool:
        """Whether the turn is ours; it is kept as long as this worker lives."""
        held = self._held.get(key)
        if held is not None:
            held.renew()
            if held.is_lost():
                del self._held[key]
                return False
            return True
        seen = self._leases.look(key)
        taken = None if seen.is_held else self._leases.take(key, self._holder, seen)
        if taken is not None:
            self._held[key] = taken
        return taken is not None


def _clean_claims(kernel: RealmKernel, rows_max: int) -> tuple[int, bool]:
    return clean_claims(kernel.store.backend, kernel.realm, kernel.store.clock, rows_max)


def _clean_chunks(kernel: RealmKernel, _: int) -> tuple[int, bool]:
    """Bounded by writes, not by rows."""
    return clean_statistics(kernel)
