"""What makes a demo lake worth a look: rows in a table, a view on it, statistics of its snapshot, a source to follow.

⚠ Each step looks whether it is done: several workers may do it at once, and one may have died in between.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Namespace, Table, TableIdentifier
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate

from headwater.producer.access.writing import WriteMeta
from headwater.producer.connectors.connector_records import Connectors
from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.producer.statistics.statistics_sets import StatisticsSets
from headwater.schemas.change import KeyPath
from headwater.schemas.statistics import ColumnStatistics, DistinctCount, Histogram, PutMode, TableStatistics
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.table_commits import table_change, update_table
from headwater.service.iceberg.operations.tables import load_table
from headwater.service.iceberg.operations.views import ViewCreation, create_view
from headwater.service.reconciling.sources.delta_source import DeltaFactory
from headwater.service.statistics.snapshot_lookup import CURRENT, find_snapshot
from headwater.service.storage.storage_roots import StorageRoots

ORDERS, CUSTOMERS = 12, 4
CONNECTOR, PARTNER = "partner", ("partner",)


class _Body(msgspec.Struct, frozen=True):
    requirements: list[msgspec.Raw]
    updates: list[msgspec.Raw]


class _OneBranch(NoopCatalog):
    """What PyIceberg writes is committed to a branch of this store."""

    def __init__(self, branch: LakeBranch, caller: CommitAuthor, key: KeyPath) -> None:
        super().__init__("seed")
        self._branch, self._caller, self._key = branch, caller, key

    def table(self) -> Table:
        file = load_table(self._branch, self._key)
        metadata = TableMetadataUtil.parse_obj(file.table)
        return Table(self._key, metadata, file.location, PyArrowFileIO(), self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        request = CommitTableRequest(
            identifier=TableIdentifier(namespace=Namespace(["a"]), name="t"), requirements=requirements, updates=updates
        )
        body = msgspec.json.decode(request.model_dump_json(by_alias=True), type=_Body)
        change = table_change(self._branch, self._key, body.requirements, body.updates)
        file = update_table(self._branch, self._caller, change)
        return CommitTableResponse.model_validate({"metadata": file.table, "metadata-location": file.location})


def add_orders(branch: LakeBranch, caller: CommitAuthor, key: KeyPath) -> None:
    """Rows in a file of their own, if the table has none."""
    table = _OneBranch(branch, caller, key).table()
    if table.current_snapshot() is None:
        table.append(_orders(table.schema()))


def _orders(schema: Schema) -> pa.Table:
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    rows = [
        {
            "id": number,
            "customer_id": number % CUSTOMERS,
            "amount": Decimal(number * 250) / 100,
            "placed_at": at + datetime.timedelta(days=number),
        }
        for number in range(1, ORDERS + 1)
    ]
    return pa.Table.from_pylist(rows, schema=schema.as_arrow())


def add_view(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, sql: str, columns: Mapping[str, str]) -> None:
    fields = [
        {"id": number, "name": name, "type": type, "required": False} for number, (name, type) in enumerate(columns.items(), 1)
    ]
    version = {
        "version-id": 1,
        "timestamp-ms": 1_767_225_600_000,
        "schema-id": 0,
        "summary": {},
        "default-namespace": list(key[:-1]),
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    create_view(branch, caller, key, ViewCreation(name=key[-1], schema=schema, view_version=version))


def publish_statistics(branch: LakeBranch, lakes: Lakes, key: KeyPath, meta: WriteMeta) -> None:
    """Counts, distinct values and a histogram of the rows that `add_orders` wrote."""
    found = find_snapshot(branch.kernel, lakes, branch.catalog, key, CURRENT, None)
    write = StatisticsSets(branch.kernel, branch.catalog.id).write(found.key, found.schema, PutMode.UPSERT)
    write.put_table(TableStatistics(row_count=ORDERS, file_count=1))
    ids = Histogram(bounds=[_long(1), _long(ORDERS // 2), _long(ORDERS)], counts=[ORDERS // 2, ORDERS // 2])
    for column, distinct, histogram in ((1, ORDERS, ids), (2, CUSTOMERS, None)):
        write.add_column(
            ColumnStatistics(
                column_id=column,
                value_count=ORDERS,
                null_count=0,
                distinct=DistinctCount(count=distinct, is_exact=True),
                histogram=histogram,
            )
        )
    write.publish(meta)


def add_paused_connector(branch: LakeBranch, folder: Path, meta: WriteMeta) -> None:
    """Add a paused connector to a folder with one Delta table; `headwater connector pause partner --resume` starts it."""
    log = folder / "sales" / "leads" / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(action) for action in _delta_table()))
    spec = ConnectorSpec(source="delta", uri=folder.as_uri(), roots=(f"{folder.as_uri()}/",))
    factories = {"delta": DeltaFactory({}, StorageRoots(anywhere=True))}
    Connectors(branch.kernel, factories).create(
        CONNECTOR,
        spec,
        catalog=branch.catalog.name,
        path=PARTNER,
        description="Demo: a partner's Delta tables. Resume it to follow them.",
        paused=True,
        meta=meta,
    )


def _delta_table() -> Sequence[dict[str, Any]]:
    schema = {"type": "struct", "fields": [{"name": "email", "type": "string", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "7c1f4a52-60d6-4f0e-9a3d-5f8f2f0f7a11",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1_767_225_600_000,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _long(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)
