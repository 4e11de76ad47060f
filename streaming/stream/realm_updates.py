"""Keeps the retained sets of all realms current: from the store's log, or from one query over all topics.

A set that its topics do not continue (there is no set, a gap, an error, another process that moved it) is *lost*: it skips what
the query delivers, and is brought up to date from the log in its next turn. ⚠ That turn clears the loss before it reads the
heads: whatever is skipped after that marks the set as lost again, so nothing is missed.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.retained.retained_store import RetainedState
from headwater.streaming.spark.spark_errors import typed_error
from headwater.streaming.stream.stream_app import Updated

if TYPE_CHECKING:
    from headwater.streaming.spark_jobs.retained_job import RetainedJob
    from headwater.streaming.spark_jobs.topic_query import News

STALLED_SECONDS = 60.0
"""A set that is behind its log and has had no step for this long continues from the log: its publisher is down, or records are
lost."""
LOCK_SECONDS = 2.0
"""How long the other realms of a batch wait for one whose set is being changed, e.g. by a sweep."""


class RealmUpdates:
    """`job_of` makes the job of a realm's set, and may keep its store."""

    def __init__(
        self,
        store: Store,
        job_of: Callable[[str], RetainedJob],
        *,
        changes_per_batch: int,
        on_repaired: Callable[[str], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._job_of = job_of
        self._changes_per_batch = changes_per_batch
        self._on_repaired = on_repaired
        self._now = now
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lost: dict[str, str] = {}
        self._behind_since: dict[str, tuple[int, float]] = {}

    def lock_of(self, instance: str) -> threading.Lock:
        """Keeps rounds, batches of topics, and sweeps that bring a set up to their fence from writing one set at the same
        time."""
        return self._locks[instance]

    def forget(self, instance: str) -> None:
        """Forgets a realm that is purged. Its lock stays if a batch in progress holds it."""
        self._lost.pop(instance, None)
        self._behind_since.pop(instance, None)

    def from_log(self, instance: str) -> Updated:
        with self._locks[instance]:
            return self._caught_up(instance)

    def from_topics(self, instance: str) -> Updated:
        """Counts what the query has added; updates from the log if that does not continue the set."""
        with self._locks[instance]:
            if self._lost.pop(instance, None) is not None:
                return self._repaired(instance)
            job = self._job_of(instance)
            try:
                state = job.state()
                behind = self._lag(state)
            except HeadwaterError:  # there is none yet, or it must not be used
                return self._repaired(instance)
            if behind and self._is_stalled(instance, state):
                return self._repaired(instance)
            if not behind:
                self._behind_since.pop(instance, None)
            return Updated("kafka", state.number, state.rows, behind)

    def add(self, instance: str, news: News) -> bool:
        """A `RealmSink`."""
        lock = self._locks[instance]
        if not lock.acquire(timeout=LOCK_SECONDS):
            self.lose(instance, "its set is being changed")
            return False
        try:
            if instance in self._lost:
                return False
            job = self._job_of(instance)
            if news.frame is not None:
                job.add_batch(news.frame)
            else:
                job.add_changes(news.changes or [])
            return True
        except Exception as error:
            self.lose(instance, str(typed_error(error)))
            return False
        finally:
            lock.release()

    def lose(self, instance: str, why: str) -> None:
        self._lost[instance] = why

    def _repaired(self, instance: str) -> Updated:
        try:
            updated = self._caught_up(instance)
        except BaseException:
            self.lose(instance, "it could not be brought up to date")
            raise
        if instance not in self._lost:  # not again meanwhile
            self._on_repaired(instance)
        return updated

    def _caught_up(self, instance: str) -> Updated:
        state = self._job_of(instance).run(changes_per_batch=self._changes_per_batch)
        self._behind_since.pop(instance, None)
        return Updated("log", state.number, state.rows, self._lag(state))

    def _lag(self, state: RetainedState) -> int:
        from headwater.streaming.spark_jobs.retained_job import lag

        return sum(lag(self._store, state).values())

    def _is_stalled(self, instance: str, state: RetainedState) -> bool:
        step, since = self._behind_since.get(instance, (-1, 0.0))
        if step != state.number:
            self._behind_since[instance] = state.number, self._now()
            return False
        return self._now() - since > STALLED_SECONDS
