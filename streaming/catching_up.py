"""A stream that is about to start enters; it leaves when everything that was committed before is processed, and has ended.

Spark 4.1 has no `availableNow` for sources in Python: it would run one bounded batch. So a source with `until=start` offers
nothing beyond what was there, and the query is stopped when it asks in vain.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.schemas.errors import SparkFailed
from headwater.streaming.failures import plain_failures

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Progress = dict[str, Any]
Report = Callable[[Progress], None]
LOOK_SECONDS = 0.5
RESTARTS_MAX = 3

_log = logging.getLogger(__name__)


def silent(_: Progress) -> None:
    """The report of a caller who does not look."""


def run_until_caught_up(writer: DataStreamWriter, *, report: Report = silent, restarts_max: int = RESTARTS_MAX) -> int:
    """Start the stream, process what is there, stop it; the number of rows that went through leaves. The reader must have the
    option `until`, or come to an end otherwise: writers that go on would keep it busy for ever."""

    def process(query: StreamingQuery) -> int:
        query.processAllAvailable()
        return _report_all(query, report, seen=-1)[1]

    return _supervised(writer, process, restarts_max)


def run_until_stopped(
    writer: DataStreamWriter, *, is_stopping: Callable[[], bool], report: Report = silent, restarts_max: int = RESTARTS_MAX
) -> int:
    """Start the stream and let it run until it is to stop or fails; what it failed with is raised."""

    def follow(query: StreamingQuery) -> int:
        rows, seen = 0, -1
        while query.isActive and not is_stopping():
            seen, new = _report_all(query, report, seen)
            rows += new
            time.sleep(LOOK_SECONDS)
        failure = query.exception()
        if failure is not None:
            raise failure
        return rows + _report_all(query, report, seen)[1]

    return _supervised(writer, follow, restarts_max)


def _supervised(writer: DataStreamWriter, run: Callable[[StreamingQuery], int], restarts_max: int) -> int:
    """A query that Spark itself let down (a worker too slow to answer, a connector's slip) begins again at its checkpoint, a
    few times. What is one of our errors would only come again."""
    for attempt in range(restarts_max + 1):
        query: StreamingQuery | None = None
        try:
            with plain_failures():
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


def _report_all(query: StreamingQuery, report: Report, seen: int) -> tuple[int, int]:
    """Batches behind `seen`, each once; Spark remembers the last hundred."""
    rows = 0
    for progress in query.recentProgress:
        if progress["batchId"] > seen and progress["numInputRows"]:
            seen = progress["batchId"]
            rows += progress["numInputRows"]
            report(dict(progress))
    return seen, rows
