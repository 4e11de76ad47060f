"""Starts Spark in the background, or says in one sentence why it cannot."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.dev.java import java_program
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.spark.session import SparkOptions, spark_session
from headwater.wiring.spark import JAVA_VERSIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_FILE = "spark.log"
QUICK_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A few hundred rows are not worth a compiler's time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class SparkStartup:
    """Starts a session on a thread of its own; it uses only our own log sources, so that no jar has to be fetched."""

    def __init__(self, folder: Path, *, wanted: bool = True) -> None:
        self._log = folder / LOG_FILE
        self._session: SparkSession | None = None
        self._why_not = "" if wanted else "it is not wanted."
        self._is_ours = wanted and not _runs_already()
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        if self._is_ours:
            self._thread.start()
        elif wanted:
            self._start()  # there is nothing to wait for

    @property
    def why_not(self) -> str:
        """Why Spark is missing, in one sentence; empty if it is there."""
        return self._why_not

    def session(self) -> SparkSession | None:
        """Waits for it."""
        if self._thread.ident is not None:
            self._thread.join()
        return self._session

    def stop(self) -> None:
        session = self.session()
        if session is not None and self._is_ours:
            with _stderr_in(self._log):
                session.stop()

    def _start(self) -> None:
        try:
            java_program(JAVA_VERSIONS)
            with _stderr_in(self._log):
                options = SparkOptions(master="local[2]", driver_memory="1g", log_level="OFF", conf=QUICK_FOR_FEW_ROWS)
                self._session = spark_session(options)
        except HeadwaterError as error:
            self._why_not = " ".join(str(error).split())


def _runs_already() -> bool:
    """Checked on the thread that may have created it: Spark does not tell others."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return False
    return SparkSession.getActiveSession() is not None


@contextmanager
def _stderr_in(log: Path) -> Iterator[None]:
    """Hides what a JVM prints while it starts and ends, except from those who look for it: the JVM has no other way to be
    quiet."""
    kept = os.dup(2)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(file)
        os.close(kept)
