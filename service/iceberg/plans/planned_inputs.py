"""What a plan reads: a table or view as a branch has it at one entry, and the planner of a table's files."""

from __future__ import annotations

from typing import Protocol

import msgspec

from headwater.producer.connectors.bridge_plan import version_of
from headwater.producer.content.content_types import DELTA_TABLE
from headwater.producer.content.snapshots import ContentEntry
from headwater.producer.plans.plan_rows import PinnedEntry, PlanInput
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput, SnapshotNotFound, TableNotFound, Unsupported
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.lake_branch import TABLE, VIEW, LakeBranch, LakeState, shown
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.planning.file_planner import FilePlanner
from headwater.service.planning.manifest_reader import ManifestReader
from headwater.service.planning.scan_filter import ScanRequest
from headwater.service.storage.files import files_of

_NONE = (None, -1)
"""The snapshot of a table without rows; old writers say -1."""
DELTA = DELTA_TABLE.name


class BySource(Protocol):
    """Plans tables that a connector owns."""

    def planned(self, one: PlanInput, version: str) -> PlanInput | None:
        """As the connector's source plans it; None where this server does."""


def find_input(
    branch: LakeBranch, state: LakeState, key: KeyPath, snapshot_id: int | None, by_source: BySource | None = None
) -> PlanInput:
    """The current snapshot of a table, unless another one is named; `SnapshotNotFound` if the metadata does not have it."""
    found = state.get(key)
    if found is None or found.type not in (TABLE, VIEW, *((DELTA,) if by_source is not None else ())):
        raise TableNotFound(f"Table does not exist: {shown(key)}", field="inputs", remedy="Name a table or a view.")
    if by_source is not None and found.type != VIEW:
        planned = by_source.planned(_named(branch, found, snapshot_id), version_of(found.value))
        if planned is not None:
            return planned
    if found.type == DELTA:
        raise Unsupported(
            f"{shown(key)} is a Delta table, which only a connector's source plans.", field="inputs", remedy="Leave it out."
        )
    location = str(found.value["metadata_location"])
    if found.type == VIEW and snapshot_id is not None:
        raise InvalidInput(f"{shown(key)} is a view.", field="snapshot_id", remedy="Name snapshots of tables alone.")
    if found.type == TABLE:
        metadata = branch.load_metadata(key, location).table
        wanted = metadata.get("current-snapshot-id") if snapshot_id is None else snapshot_id
        snapshot_id = None if wanted in _NONE else snapshot_of(metadata, wanted, key)["snapshot-id"]
    return msgspec.structs.replace(_named(branch, found, snapshot_id), metadata_location=location)


def _named(branch: LakeBranch, found: ContentEntry, snapshot_id: int | None) -> PlanInput:
    return PlanInput(
        catalog=branch.catalog.name,
        catalog_id=branch.catalog.id,
        key=found.key,
        type=found.type,
        content_id=found.content_id,
        metadata_location="",
        snapshot_id=snapshot_id,
    )


def pin_of(state: LakeState) -> PinnedEntry:
    return PinnedEntry(state.at.entry.pointer, state.at.entry.seq, state.at.entry_id)


def planner_of(branch: LakeBranch, lakes: Lakes, one: PlanInput, request: ScanRequest) -> FilePlanner:
    """The planner for the snapshot that the plan pinned, with the metadata that it pinned. Any branch of the catalog works."""
    files = branch.files_at(one.key, one.metadata_location)
    metadata, warehouse = files.load(one.metadata_location).table, files.warehouse
    reader = ManifestReader(warehouse, files_of(warehouse.root, lakes.storage.server), lakes.manifests)
    return FilePlanner(reader, metadata, snapshot_of(metadata, one.snapshot_id, one.key), request)


def snapshot_of(metadata: Plain, snapshot_id: int | None, key: KeyPath) -> Plain:
    found: Plain
    for found in metadata.get("snapshots") or ():
        if found["snapshot-id"] == snapshot_id and found.get("manifest-list"):
            return found
    raise SnapshotNotFound(
        f"{'.'.join(key)} has no snapshot {snapshot_id}.", field="snapshot-id", remedy="List the table's snapshots."
    )
