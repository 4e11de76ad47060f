"""The examples of docs/spark.md run as they stand, in order, in one session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater
from tests.support.fixtures.spark_lakes import fill, logged_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark.md"


def test_every_example_of_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) >= 6
    store = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(store, create=True) as engine:
        fill(engine, tables=3)
        changes = logged_changes(engine.realm().kernel)
    names: dict[str, Any] = {"STORE": store, "FOLDER": str(tmp_path / "out")}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)
    assert names["spark"] is spark
    assert names["rows"] == len(changes)
    assert spark.read.parquet(f"{tmp_path}/out/batch=*").count() == len(changes)
