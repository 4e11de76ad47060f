"""A SparkSession with the connectors' jars, or one sentence that says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.dev.jars import fetch_jars
from headwater.dev.java import java_program
from headwater.dev.kind import Report, silent
from headwater.settings import Settings, load_settings
from headwater.streaming.spark.session import SparkOptions, jar_paths, parse_conf, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VERSIONS = (17, 21)
"""What Spark 4.1 runs on."""


def open_spark(settings: Settings | None = None, *, app_name: str = "headwater", report: Report = silent) -> SparkSession:
    """A session by the settings `spark_*`; the one that runs already, if there is one."""
    return spark_session(spark_options(settings or load_settings(), app_name=app_name, report=report))


def spark_options(settings: Settings, *, app_name: str = "headwater", report: Report = silent) -> SparkOptions:
    conf = parse_conf(settings.spark_conf)
    java_program(JAVA_VERSIONS)
    jars = fetch_jars("spark", Path(settings.jar_cache_dir), report)
    return SparkOptions(
        master=settings.spark_master,
        app_name=app_name,
        driver_memory=settings.spark_driver_memory,
        jars=tuple(jar_paths(jars)),
        conf=conf,
    )
