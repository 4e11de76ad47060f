"""Scans planned by the server list the very files, and the delete files of each, that Iceberg's planner in Spark lists."""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.support.fixtures.feed_branch import FeedBranch
from tests.support.fixtures.iceberg_lake import IcebergLake
from tests.support.fixtures.planned_scans import ScannedTable, metrics_json, planned_here
from tests.support.fixtures.random_tables import RandomTable, table_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = date(2026, 1, 1)
DAYS, REGIONS, IDS_MAX = 3, ("a", "b"), 60
ID, REGION, AT = 1, 2, 3
EXAMPLES = 40 if os.environ.get("HEADWATER_SOAK") else 3
TABLES, FILTERS_EACH = (100, 40) if os.environ.get("HEADWATER_SOAK") else (2, 15)
SIZE_BYTES = 1_000
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"type": "eq", "term": "id", "value": 15},
    {"type": "gt", "term": "id", "value": 40},
    {"type": "eq", "term": "region", "value": "a"},
    {"type": "not-null", "term": "region"},
    {"type": "lt", "term": "at", "value": "2026-01-02T00:00:00+00:00"},
    {
        "type": "and",
        "left": {"type": "gt-eq", "term": "at", "value": "2026-01-02T06:00:00+00:00"},
        "right": {"type": "not", "child": {"type": "in", "term": "region", "values": ["b", "c"]}},
    },
]


class Step(NamedTuple):
    """One commit. `kind` says of what; numbers choose values."""

    kind: str
    day: int
    region: int
    first_id: int
    has_bounds: bool


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["append", "append", "equality", "global-equality", "position", "row-delta", "evolve", "remove"]),
        day=st.integers(0, DAYS - 1),
        region=st.integers(0, 1),
        first_id=st.integers(0, IDS_MAX),
        has_bounds=st.booleans(),
    ),
    min_size=3,
    max_size=6,
)
FIRST = [Step("append", 0, 0, 0, True), Step("append", 1, 1, 30, True)]
"""What every table begins with."""


class JavaTable(ScannedTable):
    def __init__(self, spark: SparkSession, name: str) -> None:
        super().__init__(spark, name)
        self._data: dict[str, Any] = {}
        self._with_vector: set[str] = set()
        self.format: int = self._table.operations().current().formatVersion()

    def take(self, step: Step) -> None:
        match step.kind:
            case "append":
                self._commit(self._table.newAppend().appendFile(self._data_file(step)))
            case "evolve":
                self._evolve()
            case "remove" if self._data:
                described = self._data.pop(next(iter(self._data)))
                self._commit(self._table.newDelete().deleteFile(self._made(described)))
            case "row-delta":
                delete, row = self._delete(step), self._data_file(step)
                self._commit(self._table.newRowDelta().addRows(row).addDeletes(delete))
            case "position" if self._data:
                self._commit(self._table.newRowDelta().addDeletes(self._position(step)))
            case "equality" | "global-equality":
                self._commit(self._table.newRowDelta().addDeletes(self._delete(step)))

    def _evolve(self) -> None:
        """To partitions by region, and from then on to none."""
        update = self._table.updateSpec()
        fields = [one.name() for one in self._table.spec().fields()]
        if "at_day" in fields:
            self._commit(update.removeField("at_day").addField("region"))
        elif "region" in fields:
            self._commit(update.removeField("region"))

    def _data_file(self, step: Step) -> Any:
        described = self._described(step, "data", "parquet", {ID, REGION, AT})
        made = self._made(described)
        self._data[described["file-path"]] = described
        return made

    def _delete(self, step: Step) -> Any:
        ids = [ID] if step.first_id % 2 else [REGION]
        described = self._described(step, "equality-deletes", "parquet", set(ids) if step.has_bounds else set())
        if step.kind == "global-equality":
            unpartitioned = [id for id, spec in self._table.specs().items() if spec.isUnpartitioned()]
            if unpartitioned:
                described |= {"spec-id": unpartitioned[0], "partition": []}
        return self._made({**described, "equality-ids": ids})

    def _position(self, step: Step) -> Any:
        """Of one file, or of a whole partition; in format 3 always a deletion vector."""
        free = [path for path in self._data if path not in self._with_vector]
        if self.format >= 3 and not free:
            return self._delete(step)
        path = (free if self.format >= 3 else list(self._data))[0]
        of = {name: self._data[path][name] for name in ("spec-id", "partition")}
        described = {**self._described(step, "position-deletes", "parquet", set()), **of}
        if self.format >= 3:
            self._with_vector.add(path)
            described |= {"file-format": "puffin", "file-path": described["file-path"].replace("parquet", "puffin")}
            described |= {"content-offset": 4, "content-size-in-bytes": 40}
        return self._made(described | ({"referenced-data-file": path} if step.has_bounds or self.format >= 3 else {}))

    def _described(self, step: Step, content: str, format: str, bounded: set[int]) -> dict[str, Any]:
        """As the Iceberg REST specification writes a file."""
        spec = self._table.spec()
        values = {"at_day": str(DAY + timedelta(days=step.day)), "region": REGIONS[step.region]}
        start = ((DAY - date(1970, 1, 1)).days + step.day) * 86_400_000_000
        lower = {ID: step.first_id, REGION: REGIONS[step.region].encode(), AT: start + 3_600_000_000}
        upper = {ID: step.first_id + 9, REGION: REGIONS[step.region].encode(), AT: start + 7_200_000_000}
        metrics = metrics_json(
            dict.fromkeys(sorted(bounded), 10),
            dict.fromkeys(sorted(bounded), 0),
            {id: _binary(lower[id]) for id in sorted(bounded)},
            {id: _binary(upper[id]) for id in sorted(bounded)},
        )
        return {
            "spec-id": spec.specId(),
            "content": content,
            "file-path": f"{self._table.location()}/data/{content}-{next(self._numbers):03d}.{format}",
            "file-format": format,
            "partition": [values[one.name()] for one in spec.fields() if one.name() in values],
            "file-size-in-bytes": SIZE_BYTES,
            "record-count": 10,
        } | (metrics if bounded else {})


def _binary(value: int | bytes) -> str:
    return (value if isinstance(value, bytes) else struct.pack("<q", value)).hex().upper()


@pytest.fixture
def catalog(spark: SparkSession, lake: IcebergLake, branch: FeedBranch) -> Iterator[str]:
    name = f"planned_{branch.name}"
    conf = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": lake.url,
        ".warehouse": lake.warehouse,
        ".cache-enabled": "false",
    }
    for key, value in conf.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    yield name
    for key in conf:
        spark.conf.unset(f"spark.sql.catalog.{name}{key}")


def test_a_planned_scan_lists_the_files_and_deletes_that_spark_lists(
    spark: SparkSession, catalog: str, lake: IcebergLake
) -> None:
    numbers = itertools.count()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(format=st.sampled_from([2, 3]), steps=STEPS)
    def check(format: int, steps: list[Step]) -> None:
        name = f"t{next(numbers)}"
        spark.sql(
            f"CREATE TABLE {catalog}.db.{name} (id BIGINT, region STRING, at TIMESTAMP) USING iceberg "
            f"PARTITIONED BY (days(at)) TBLPROPERTIES ('format-version' = '{format}')"
        )
        table = JavaTable(spark, f"{catalog}.db.{name}")
        for step in [*FIRST, *steps]:
            table.take(step)
        snapshots = table.snapshots()
        for filter, snapshot_id in [*((one, snapshots[-1]) for one in FILTERS), (None, snapshots[len(snapshots) // 2])]:
            there = table.planned(filter, snapshot_id)
            assert planned_here(lake, name, filter, snapshot_id) == there, (filter, snapshot_id)

    check()
    everything(spark, catalog, lake)


def test_every_filter_on_every_type_and_transform_keeps_the_files_that_spark_keeps(
    spark: SparkSession, catalog: str, lake: IcebergLake
) -> None:
    numbers = itertools.count()
    pruned = 0

    @settings(
        max_examples=TABLES, deadline=None, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    @given(seed=st.integers(0, 2**32))
    def check(seed: int) -> None:
        nonlocal pruned
        random, name = Random(seed), f"wide{next(numbers)}"
        made = lake.http.post("namespaces/db/tables", json={"name": name, **table_json(random)})
        assert made.status_code == 200, made.text
        table = RandomTable(spark, f"{catalog}.db.{name}", random)
        for _ in range(random.randint(5, 8)):
            table.grow()
        assume(table.snapshots())
        newest = table.snapshots()[-1]
        everything = len(table.planned(None, newest))
        for _ in range(FILTERS_EACH):
            case_sensitive = random.random() < 0.8
            filter = table.filter(case_sensitive=case_sensitive)
            there = table.planned(filter, newest, case_sensitive=case_sensitive)
            pruned += everything > len(there)
            here = planned_here(lake, name, filter, newest, case_sensitive=case_sensitive)
            assert here == there, (filter, {"missing": there - here, "more": here - there})

    check()
    assert pruned > TABLES, "filters prune"


def everything(spark: SparkSession, catalog: str, lake: IcebergLake) -> None:
    """What chance may have left out: all kinds of deletes, on evolved partitions, in both formats."""
    steps = [*FIRST, *(Step(kind, 0, 0, 3, True) for kind in ("position", "equality", "evolve", "append", "row-delta"))]
    steps += [Step(kind, 0, 0, 4, False) for kind in ("position", "equality", "evolve", "append", "global-equality")]
    for format in (2, 3):
        name = f"all{format}"
        spark.sql(
            f"CREATE TABLE {catalog}.db.{name} (id BIGINT, region STRING, at TIMESTAMP) USING iceberg "
            f"PARTITIONED BY (days(at)) TBLPROPERTIES ('format-version' = '{format}')"
        )
        table = JavaTable(spark, f"{catalog}.db.{name}")
        for step in steps:
            table.take(step)
        kinds: set[tuple[str, bool]] = set()
        *older, newest = table.snapshots()
        numbers = set()
        for filter, snapshot_id in [*((one, newest) for one in FILTERS), *((None, one) for one in older[::4])]:
            there = table.planned(filter, snapshot_id)
            numbers.add(len(there))
            assert planned_here(lake, name, filter, snapshot_id) == there, (format, filter, snapshot_id)
            kinds |= {("equality" if "equality" in path else "position", at is not None) for _, of in there for path, at in of}
        assert kinds == {("equality", False), ("position", format == 3)}
        assert len(numbers) > 2, "filters prune"
