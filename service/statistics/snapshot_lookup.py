"""Finds a snapshot of a table: its id, the columns of its schema, and the totals of its summary."""

from __future__ import annotations

import msgspec

from headwater.persistence.store import RealmKernel
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.producer.statistics.statistics_checks import SnapshotSchema
from headwater.producer.statistics.statistics_records import SetKey
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, SnapshotNotFound
from headwater.schemas.statistics import TableStatistics
from headwater.service.iceberg.metadata.schema_json import field_types
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import as_table
from headwater.service.iceberg.operations.lakes import Lakes

CURRENT = "current"


class FoundSnapshot(msgspec.Struct, frozen=True):
    key: SetKey
    metadata: Plain
    snapshot: Plain

    @property
    def schema(self) -> SnapshotSchema:
        return SnapshotSchema(field_types(schema_of(self.metadata, self.snapshot)))

    @property
    def totals(self) -> TableStatistics | None:
        """What the writer of the snapshot has noted in its summary."""
        summary = self.snapshot.get("summary") or {}
        rows = _number(summary.get("total-records"))
        if rows is None:
            return None
        return TableStatistics(
            row_count=rows,
            file_count=_number(summary.get("total-data-files")),
            size_bytes=_number(summary.get("total-files-size")),
            delete_file_count=_number(summary.get("total-delete-files")),
        )


def find_snapshot(
    kernel: RealmKernel, lakes: Lakes, catalog: Catalog, table: KeyPath, snapshot: str, branch: str | None = None
) -> FoundSnapshot:
    """`snapshot` is an id or `current`. Of the table as the branch has it now."""
    found = table_on(kernel, catalog, table, branch)
    location = found.value["metadata_location"]
    metadata = lakes.metadata_at(kernel, catalog, table, location).load(location).table
    return FoundSnapshot(*_wanted(metadata, snapshot, found.content_id, table))


def table_on(kernel: RealmKernel, catalog: Catalog, table: KeyPath, branch: str | None) -> ContentEntry:
    at = Catalogs(kernel).references(catalog).resolve(branch or catalog.default_branch, field="branch").logged
    return as_table(table, Snapshots(kernel, catalog.id).get(at, [table]).get(table))


def schema_of(metadata: Plain, snapshot: Plain) -> Plain:
    """Snapshots of old writers name no schema: then the current one counts."""
    wanted = snapshot.get("schema-id", metadata["current-schema-id"])
    found: Plain = next(one for one in metadata["schemas"] if one["schema-id"] == wanted)
    return found


def _wanted(metadata: Plain, snapshot: str, content_id: str, table: KeyPath) -> tuple[SetKey, Plain, Plain]:
    wanted = metadata.get("current-snapshot-id") if snapshot == CURRENT else snapshot_id_of(snapshot)
    for one in metadata.get("snapshots") or ():
        if one["snapshot-id"] == wanted:
            return SetKey(content_id, one["snapshot-id"]), metadata, one
    raise SnapshotNotFound(
        f"{'.'.join(table)!r} has no snapshot {snapshot[:40]}.", field="snapshot", remedy="List the table's snapshots."
    )


def snapshot_id_of(text: str) -> int:
    try:
        id = int(text)
    except ValueError:
        id = -(2**63) - 1
    if not -(2**63) <= id < 2**63 or str(id) != text:
        raise InvalidInput(f"{text[:40]!r} is not a snapshot id.", field="snapshot", remedy="Use a number, or current.")
    return id


def _number(text: object) -> int | None:
    """A summary is written by clients: what is not a count is left out."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 18 else None
