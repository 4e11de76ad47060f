"""Runs a stream until everything that was committed before is processed.

Spark 4.1 has no `availableNow` for sources in Python: it would run one bounded batch. So a source with `until=start` offers
nothing beyond what was there, and the query is stopped when it asks and gets nothing.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import SparkFailed
from headwater.streaming.spark.spark_errors import typed_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Progress = dict[str, Any]
Report = Callable[[Progress], None]
LOOK_SECONDS = 0.5
RESTARTS_MAX = 3

_log = logging.getLogger(__name__)


def silent(_: Progress) -> None:
    """The progress report of a caller that wants none."""


def run_until_caught_up(writer: DataStreamWriter, *, report: Report = silent, restarts_max: int = RESTARTS_MAX) -> int:
    """Start the stream, process what is there, stop it; returns the number of rows processed. The reader must have the option
    `until`, or end in some other way: writers that continue would keep it busy forever."""

    def process(query: StreamingQuery) -> int:
        reporter = BatchReporter(report)
        with reporter.listening(session_of(writer), str(query.runId)):
            query.processAllAvailable()
        reporter.rest(query)
        return reporter.rows

    return _supervised(writer, process, restarts_max)


def run_until_stopped(
    writer: DataStreamWriter, *, is_stopping: Callable[[], bool], report: Report = silent, restarts_max: int = RESTARTS_MAX
) -> int:
    """Start the stream and run it until `is_stopping` or a failure; raises the error that it failed with."""

    def follow(query: StreamingQuery) -> int:
        reporter = BatchReporter(report)
        with reporter.listening(session_of(writer), str(query.runId)):
            while query.isActive and not is_stopping():
                time.sleep(LOOK_SECONDS)
        failure = query.exception()
        if failure is not None:
            raise failure
        reporter.rest(query)
        return reporter.rows

    return _supervised(writer, follow, restarts_max)


def _supervised(writer: DataStreamWriter, run: Callable[[StreamingQuery], int], restarts_max: int) -> int:
    """Restarts a query from its checkpoint, a few times, if Spark itself failed (a worker that answered too slowly, a fault in
    a connector). Our own errors are not retried: they would only recur."""
    for attempt in range(restarts_max + 1):
        query: StreamingQuery | None = None
        try:
            with typed_errors():
                query = writer.start()
                return run(query)
        except SparkFailed as failure:
            if attempt == restarts_max:
                raise
            _log.warning("a stream is started again at its checkpoint: %s", failure)
        finally:
            if query is not None:
                query.stop()
    raise AssertionError("the last attempt returns or raises")


def session_of(writer: DataStreamWriter) -> SparkSession:
    """The session whose listeners hear of this writer's query. The active session may be another one: a batch runs in a clone
    of the query's session, which becomes active as soon as the batch creates a DataFrame of local rows."""
    return writer._spark


class BatchReporter:
    """Batches of one query, each reported once: during the run by Spark's listener, at the end from Spark's own record."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._batches: set[int] = set()
        self.rows = 0

    def tell(self, progress: Progress) -> None:
        with self._lock:
            if progress["batchId"] in self._batches or not progress["numInputRows"]:
                return
            self._batches.add(progress["batchId"])
            self.rows += progress["numInputRows"]
        self._report(progress)

    def rest(self, query: StreamingQuery) -> None:
        """The listener may be late. Spark remembers the last hundred batches."""
        for progress in query.recentProgress:
            self.tell(dict(progress))

    @contextmanager
    def listening(self, session: SparkSession, run_id: str) -> Iterator[None]:
        listener = _listener(self, run_id)
        session.streams.addListener(listener)
        try:
            yield
        finally:
            session.streams.removeListener(listener)


def _listener(reporter: BatchReporter, run_id: str) -> StreamingQueryListener:
    from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryListener

    class Listener(StreamingQueryListener):
        """Hears of all queries of the session, which may be many."""

        def onQueryStarted(self, event: object) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
            if str(event.progress.runId) == run_id:
                reporter.tell(json.loads(event.progress.json))

        def onQueryIdle(self, event: object) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: object) -> None:  # noqa: N802
            pass

    return Listener()
