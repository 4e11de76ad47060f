"""A master URL and a store enter as arguments; what executors of a real cluster read of the log leaves as JSON on stdout."""

from __future__ import annotations

import json
import sys
from typing import Any

from headwater.settings import load_settings
from headwater.spark import open_spark


def where_from(_: Any) -> Any:
    import headwater

    yield headwater.__file__


def main(master: str, store: str) -> None:
    conf = (
        "spark.driver.host=127.0.0.1 spark.driver.bindAddress=127.0.0.1 spark.ui.enabled=false spark.executor.memory=512m "
        "spark.sql.shuffle.partitions=2 spark.cores.max=2 spark.executor.cores=1"
    )
    spark = open_spark(load_settings({"spark_master": master, "spark_conf": conf, "spark_driver_memory": "512m"}, {}))
    changes = spark.read.format("headwater").options(store=store, changes_per_split="5").load()
    objects = spark.read.format("headwater_rows").options(store=store, splits="4").load()
    rdd = spark.sparkContext.parallelize(range(4), 4)
    answer = {
        "changes": sorted((row.pointer, row.seq) for row in changes.select("pointer", "seq").collect()),
        "objects": objects.count(),
        "packages": sorted(set(rdd.mapPartitions(where_from).collect())),
        "executors": len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1,
    }
    print("ANSWER " + json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
