"""The one SparkSession of a test process: a JVM takes long to start, so all tests of the process share it."""

from __future__ import annotations

import functools
import os
import shlex
from typing import TYPE_CHECKING

from headwater.demo.spark_startup import QUICK_FOR_FEW_ROWS
from headwater.settings import load_settings
from headwater.wiring.spark import open_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = {
    "spark.ui.enabled": "false",
    **QUICK_FOR_FEW_ROWS,
    # Branches of tables and views are words that only Iceberg's own parser knows.
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
SMALL = {
    "spark_master": "local[2]",
    "spark_driver_memory": "1g",
    "spark_conf": shlex.join(f"{name}={value}" for name, value in QUICK.items()),
}
"""Settings for little data on a busy machine."""


@functools.cache
def shared_spark() -> SparkSession:
    # Spark starts many Python processes, each of which would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return open_spark(load_settings(SMALL), app_name="headwater-tests")
