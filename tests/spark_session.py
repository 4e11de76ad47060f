"""A test process enters; its one SparkSession leaves: a JVM takes long to start, so everything in the process shares it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from headwater.settings import load_settings
from headwater.spark import open_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {
    "spark_master": "local[2]",
    "spark_driver_memory": "1g",
    "spark_conf": "spark.sql.shuffle.partitions=2 spark.ui.enabled=false spark.sql.adaptive.enabled=false "
    "spark.sql.streaming.noDataMicroBatches.enabled=false",
}


@functools.cache
def shared_spark() -> SparkSession:
    return open_spark(load_settings(SMALL), app_name="headwater-tests")
