"""Follows the log into a SQLite file, exactly once, until this process is killed.

The sink keeps rows and batch id in one transaction, as any exactly-once sink must.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.streaming.spark.stream_runner import run_until_caught_up, run_until_stopped
from tests.support.servers.spark_session import shared_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(store: str, folder: Path, mode: str) -> None:
    sink = sqlite3.connect(folder / "sink.db", check_same_thread=False)
    sink.execute("CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY)")
    sink.execute("CREATE TABLE IF NOT EXISTS rows (pointer TEXT, seq INTEGER)")
    sink.commit()

    def take(batch: DataFrame, batch_id: int) -> None:
        rows = [(row.pointer, row.seq) for row in batch.select("pointer", "seq").collect()]
        with sink:
            if sink.execute("SELECT 1 FROM batches WHERE id = ?", [batch_id]).fetchone():
                return
            sink.execute("INSERT INTO batches VALUES (?)", [batch_id])
            sink.executemany("INSERT INTO rows VALUES (?, ?)", rows)
        if mode == "follow":
            time.sleep(0.5)  # committed here, and not yet in Spark's checkpoint: the place to be killed at

    options = {"changes_per_batch": "4"} if mode == "follow" else {"changes_per_batch": "20", "until": "start"}
    stream = shared_spark().readStream.format("headwater").options(store=store, **options).load()
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    if mode == "follow":
        run_until_stopped(writer, is_stopping=lambda: False)
    else:
        run_until_caught_up(writer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
