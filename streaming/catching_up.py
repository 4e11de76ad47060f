"""A stream that is about to start enters; it leaves when everything that was committed before is processed, and has ended.

Spark 4.1 has no `availableNow` for sources in Python: it would run one bounded batch. So a source with `until=start` offers
nothing beyond what was there, and the query is stopped when it asks in vain.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.streaming.failures import meant_by, plain_failures

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Progress = dict[str, Any]
Report = Callable[[Progress], None]
LOOK_SECONDS = 0.5


def silent(_: Progress) -> None:
    """The report of a caller who does not look."""


def run_until_caught_up(writer: DataStreamWriter, *, report: Report = silent) -> int:
    """Start the stream, process what is there, stop it; the number of rows that went through leaves. The reader must have the
    option `until`, or come to an end otherwise: writers that go on would keep it busy for ever."""
    with plain_failures():
        query = writer.start()
    try:
        with plain_failures():
            query.processAllAvailable()
        return _report_all(query, report, seen=-1)[1]
    finally:
        query.stop()


def run_until_stopped(writer: DataStreamWriter, *, is_stopping: Callable[[], bool], report: Report = silent) -> int:
    """Start the stream and let it run until it is to stop or fails; what it failed with is raised."""
    with plain_failures():
        query = writer.start()
    rows, seen = 0, -1
    try:
        while query.isActive and not is_stopping():
            seen, new = _report_all(query, report, seen)
            rows += new
            time.sleep(LOOK_SECONDS)
        failure = query.exception()
        if failure is not None:
            raise meant_by(failure) from failure
        return rows + _report_all(query, report, seen)[1]
    finally:
        query.stop()


def _report_all(query: StreamingQuery, report: Report, seen: int) -> tuple[int, int]:
    """Batches behind `seen`, each once; Spark remembers the last hundred."""
    rows = 0
    for progress in query.recentProgress:
        if progress["batchId"] > seen and progress["numInputRows"]:
            seen = progress["batchId"]
            rows += progress["numInputRows"]
            report(dict(progress))
    return seen, rows
