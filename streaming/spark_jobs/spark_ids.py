"""Ids that must stay as a DataFrame, counted and kept on executors, not collected in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import StorageLevel

from headwater.streaming.reachability.id_set import IdCollector, IdSet, MarkedIds
from headwater.streaming.spark.spark_errors import typed_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ID_DDL = "id bigint"
ID_ARROW = pa.schema([("id", pa.int64())])
IDS_PER_BATCH = 50_000


class FrameIds:
    """The ids of one realm, each once."""

    def __init__(self, ids: DataFrame) -> None:
        """Errors in finding the ids are raised here."""
        self.frame = ids.distinct().persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with typed_errors():
                self._count = int(self.frame.count())
        except BaseException:
            self.release()
            raise

    def __len__(self) -> int:
        return self._count

    def local(self) -> IdSet:
        """⚠ In this process, eight bytes each: for threads, and for comparing with a walk."""
        collector = IdCollector()
        with typed_errors():
            for batch in self.frame.toArrow().to_batches():
                collector.add(batch.column(0).to_pylist())
        return collector.finish()

    def release(self) -> None:
        self.frame.unpersist()


def frame_ids(spark: SparkSession, ids: MarkedIds) -> FrameIds:
    """Ids that were found in this process are sent to the executors."""
    if isinstance(ids, FrameIds):
        return ids
    column = pa.array(memoryview(ids.local().packed()).cast("q"), pa.int64())
    return FrameIds(spark.createDataFrame(pa.Table.from_arrays([column], schema=ID_ARROW)))
