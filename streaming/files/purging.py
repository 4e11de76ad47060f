"""Deletes files in batches and continues after errors: back-off, then halves, then single files.

⚠ A file counts as purged only if the storage confirmed its deletion. A container (manifest, list, metadata) is deleted only
after the files that it names, and is spared if one of them failed: through it the next run finds the rest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

import msgspec

from headwater.persistence.clock import MICROS, Clock
from headwater.schemas.errors import HeadwaterError, InvalidInput
from headwater.streaming.files.batches import Stored, batches, distinct
from headwater.streaming.files.kinds import FileRef
from headwater.streaming.files.limits import Rate
from headwater.streaming.files.stats import PurgeStats, StatsCollector
from headwater.streaming.files.stores.object_store import ObjectStore
from headwater.streaming.files.stores.storages import Storages

BATCH_FILES = 250
"""Retrying a throttled request of a thousand files makes the storage repeat a thousand deletions."""
TRIES = 3
"""Attempts per request, before it is halved."""
FIRST_SLEEP_SECONDS, LONGEST_SLEEP_SECONDS = 0.2, 20.0
OUTAGE_FAILURES = 20
"""After this many failed requests in a row the storage is taken to be down: the rest of the batch is left for the next run."""


class PurgeSpec(msgspec.Struct, frozen=True, kw_only=True):
    batch_size: int = BATCH_FILES
    files_per_second: float = 0
    """0 for no limit."""
    batches_per_second: float = 10
    dry_run: bool = False
    may_delete: Callable[[FileRef], bool] | None = None
    """Files for which it returns false are spared."""
    before_request: Callable[[], None] | None = None
    """Raises if nothing may be deleted any more, for example because a lease has ended. ⚠ Called before each request, including
    retries and requests that waited for their turn: back-off and rate limits may outlast the lease."""
    on_batch: Callable[[PurgeStats], None] | None = None
    """Called after each batch, for progress."""


class Purge:
    """One purge."""

    def __init__(self, storages: Storages, spec: PurgeSpec, clock: Clock, jitter: random.Random | None = None) -> None:
        self._storages = storages
        self._spec = spec
        self._clock = clock
        self._jitter = jitter or random.Random()  # noqa: S311 - spreads retries, decides nothing
        self._file_rate = Rate(spec.files_per_second, clock)
        self._batch_rate = Rate(spec.batches_per_second, clock)
        self._collector = StatsCollector()
        self._failures_in_a_row = 0
        self._unfinished: set[str] = set()
        """Containers that name a file which could not be deleted."""

    def run(self, files: Iterable[FileRef]) -> PurgeStats:
        started = self._clock.now_micros()
        stats = self._collector.stats
        for store, batch in batches(self._chosen(distinct(files)), self._spec.batch_size):
            chosen = [file for file in batch if not self._is_unfinished(file)]
            if chosen and not self._spec.dry_run:
                self._delete(store, chosen)
            stats.seconds = (self._clock.now_micros() - started) / MICROS
            if self._spec.on_batch is not None:
                self._spec.on_batch(stats)
        return stats

    def _chosen(self, files: Iterable[FileRef]) -> Iterator[Stored]:
        stats = self._collector.stats
        for file in files:
            stats.requested += 1  # by this thread alone
            if self._spec.may_delete is not None and not self._spec.may_delete(file):
                self._collector.add(spared=1)
                continue
            if not file.complete:
                self._unfinished.add(file.location)
            try:
                yield self._storages.of(file.location), file
            except InvalidInput as error:
                self._fail(file, str(error))

    def _is_unfinished(self, file: FileRef) -> bool:
        if file.location not in self._unfinished:
            return False
        self._collector.add(spared=1)
        self._unfinished.add(file.referrer)
        return True

    def _fail(self, file: FileRef, reason: str) -> None:
        self._collector.fail(file.location, reason)
        self._unfinished.add(file.referrer)

    # ── one batch ───────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self, store: ObjectStore, files: list[FileRef]) -> None:
        fault = self._try(store, files, TRIES)
        if fault is not None:
            self._delete_halves(store, files, fault)

    def _delete_halves(self, store: ObjectStore, files: list[FileRef], fault: HeadwaterError) -> None:
        """One failing file fails the request that contains it, and the response need not name it."""
        if len(files) == 1:
            self._fail(files[0], str(fault))
            return
        middle = len(files) // 2
        for half in (files[:middle], files[middle:]):
            if self._failures_in_a_row < OUTAGE_FAILURES:
                half_fault = self._try(store, half, TRIES if len(half) == 1 else 1)
                if half_fault is not None:
                    self._delete_halves(store, half, half_fault)
            else:
                for file in half:
                    self._fail(file, str(fault))

    def _try(self, store: ObjectStore, files: list[FileRef], tries: int) -> HeadwaterError | None:
        fault: HeadwaterError | None = None
        for attempt in range(tries):
            if attempt:
                self._collector.add(retries=1)
                self._clock.sleep(self._sleep_seconds(attempt))
            fault = self._request(store, files)
            if fault is None or not fault.retriable or self._failures_in_a_row >= OUTAGE_FAILURES:
                return fault
        return fault

    def _request(self, store: ObjectStore, files: list[FileRef]) -> HeadwaterError | None:
        self._batch_rate.take()
        self._file_rate.take(len(files))
        if self._spec.before_request is not None:
            self._spec.before_request()
        self._collector.add(batches=1)
        try:
            deleted = store.delete([file.location for file in files])
        except HeadwaterError as error:
            self._failures_in_a_row += 1
            if _is_throttling(error):
                self._batch_rate.slow_down()
                self._file_rate.slow_down()
            return error
        self._failures_in_a_row = 0
        known_bytes = sum(file.size or 0 for file in files) if deleted.purged else 0
        self._collector.add(purged=deleted.purged, missing=deleted.missing, bytes=known_bytes)
        return None

    def _sleep_seconds(self, attempt: int) -> float:
        longest = min(LONGEST_SLEEP_SECONDS, FIRST_SLEEP_SECONDS * 4.0**attempt)
        return float(longest * (0.5 + self._jitter.random() / 2))


def _is_throttling(error: HeadwaterError) -> bool:
    return any(word in error.message for word in ("SlowDown", "503", "429", "ServerBusy", "rateLimitExceeded"))
