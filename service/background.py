"""A store enters; while a server runs, expired keys go and usage is measured: by one worker at a time, in short slices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable

from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError
from headwater.service.config import ServeConfig
from headwater.service.idempotency.cleaning import Cleaning
from headwater.service.usage.measuring import Measuring
from headwater.streaming.work_leases import HeldLease, WorkLeases

PAUSE_SECONDS = 0.2
"""Between two slices that have more to do."""

_log = logging.getLogger(__name__)


class Background:
    """Of one worker."""

    def __init__(self, store: Store, config: ServeConfig) -> None:
        self._leases = WorkLeases(store.backend, store.clock)
        self._holder = secrets.token_hex(8)
        self._store = store
        self._config = config
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        cleaning, usage = self._config.idempotency_cleaning, self._config.usage
        clean = Cleaning(self._store, cleaning)
        works = [self._repeat("idempotency-keys", lambda: clean.slice()[1], cleaning.every_seconds, PAUSE_SECONDS)]
        if usage.every_seconds:
            measure = Measuring(self._store, usage)
            works.append(self._repeat("usage", measure.slice, usage.every_seconds, usage.rest_seconds))
        self._tasks = [asyncio.ensure_future(work) for work in works]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _repeat(self, key: str, slice: Callable[[], bool], every_seconds: float, rest_seconds: float) -> None:
        """Slice after slice until a round is complete, then again after a while."""
        held: HeldLease | None = None
        while True:
            rest = every_seconds
            try:
                held = await asyncio.to_thread(self._mine, key, held)
                if held is not None and not await asyncio.shield(asyncio.to_thread(slice)):
                    rest = rest_seconds
            except HeadwaterError as error:
                _log.warning("%s: %s", key, error)
            await asyncio.sleep(rest)

    def _mine(self, key: str, held: HeldLease | None) -> HeldLease | None:
        """The turn, kept as long as this worker lives; None while another one has it."""
        if held is not None:
            held.renew()
            return None if held.is_lost() else held
        seen = self._leases.look(key)
        return None if seen.is_held else self._leases.take(key, self._holder, seen)
