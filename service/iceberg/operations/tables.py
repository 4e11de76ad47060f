"""Loads, creates, registers, renames and drops tables."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from headwater.persistence.clock import now_millis
from headwater.persistence.coordination.location_reservations import LocationReservations
from headwater.persistence.coordination.registered_tables import RegisteredTables
from headwater.producer.commits.operations import Delete, Put, Rename
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.plans.snapshot_removals import snapshot_removal
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import RequirementFailed
from headwater.service.iceberg.metadata.new_table import new_table
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.table_builder import encoded
from headwater.service.iceberg.operations.lake_branch import (
    TABLE,
    BranchOutcome,
    BranchStep,
    CommitAuthor,
    LakeBranch,
    LakeState,
    shown,
)
from headwater.service.iceberg.operations.metadata_files import MetadataFile
from headwater.service.iceberg.operations.purging import drop_with_task
from headwater.service.iceberg.operations.update_headers import PURGE, creation, headers_of
from headwater.service.storage.locations import LOCATION_PROPERTIES, places_of


class TableCreation(msgspec.Struct, frozen=True, rename="kebab"):
    """As the specification's CreateTableRequest."""

    name: str
    schema: dict[str, Any]
    location: str | None = None
    partition_spec: dict[str, Any] | None = None
    write_order: dict[str, Any] | None = None
    stage_create: bool = False
    properties: dict[str, str] = {}


def load_table(branch: LakeBranch, key: KeyPath) -> MetadataFile:
    return branch.load_metadata(key, branch.state().require_table(key).value["metadata_location"])


def table_exists(branch: LakeBranch, key: KeyPath) -> None:
    branch.state().require_table(key)


def stage_table(branch: LakeBranch, key: KeyPath, creation: TableCreation) -> bytes:
    """The metadata that the table would begin with; no file is written. The engine writes its files next, so the places where
    they will lie are reserved."""
    state = branch.state()
    state.require_free(key, TABLE)
    branch.check_places(state.at, {key: _chosen_places(creation)})
    metadata = _new_metadata(branch, key, creation)
    store = branch.kernel.store
    reservations = LocationReservations(store.backend, store.clock)
    reservations.reserve(branch.kernel.realm, places_of(metadata["location"], metadata["properties"]))
    return encoded(metadata)


def create_table(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, wanted: TableCreation) -> MetadataFile:
    metadata = _new_metadata(branch, key, wanted)

    def judge(state: LakeState) -> BranchStep:
        state.require_free(key, TABLE)
        head = branch.check_places(state.at, {key: _chosen_places(wanted)})
        file = branch.metadata.write(encoded(metadata), metadata["location"], metadata["properties"], table=metadata)
        put = Put(key, table_content(file), must_not_exist=True, content_id=metadata["table-uuid"])
        headers = headers_of("create-table", [(key, creation(file.plain))])
        return BranchStep([put], f"Create table {shown(key)}", headers, [file.location], file, head)

    return metadata_file_response(branch, branch.change(caller, [key], judge))


def register_table(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, location: str, overwrite: bool) -> MetadataFile:
    file = branch.metadata.load_for_commit(location, is_view=False)
    with snapshot_removal(branch.kernel) as removal:

        def judge(state: LakeState) -> BranchStep:
            found = state.get(key)
            headers = headers_of("register-table")
            head = branch.check_places(state.at, {key: list(places_of(file.table["location"], file.table["properties"]))})
            kernel = branch.kernel
            RegisteredTables(kernel.store.backend, kernel.realm, kernel.store.clock).add(file.uuid, location)
            if not overwrite or found is None or found.type != TABLE:
                state.require_free(key, TABLE)
                put = Put(key, table_content(file), must_not_exist=True, content_id=file.uuid)
            elif found.content_id != file.uuid:
                raise RequirementFailed(f"{shown(key)} is another table: drop it first.", field="overwrite")
            else:
                lost = branch.metadata.lost_snapshots(found.value["metadata_location"], file)
                if lost:
                    removal.claim(found.content_id, lost)
                put = Put(key, table_content(file), expected=msgspec.convert(found.value, IcebergTable))
            return BranchStep([put], f"Register table {shown(key)}", headers, [], file, head)

        return metadata_file_response(branch, branch.change(caller, [key], judge))


def drop_table(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, *, purge: bool = False) -> str | None:
    """The metadata location that it had. ⚠ Purging only marks: other branches, tags and readers may still need its files."""

    def judge(state: LakeState) -> BranchStep:
        found = state.require_table(key)
        headers = headers_of("drop-table") | ({PURGE: "true"} if purge else {})
        delete = Delete(key, expected=msgspec.convert(found.value, IcebergTable), expected_content_id=found.content_id)
        return BranchStep([delete], f"Drop table {shown(key)}", headers, answer=found.value["metadata_location"])

    def drop(caller: CommitAuthor) -> BranchOutcome:
        return branch.change(caller, [key], judge)

    done = drop_with_task(branch, caller, key, drop) if purge else drop(caller)
    if done.replayed and done.change is not None:
        return (done.change.operations[0].before or {}).get("metadata_location")
    return str(done.answer)


def rename_table(branch: LakeBranch, caller: CommitAuthor, source: KeyPath, target: KeyPath) -> None:
    def judge(state: LakeState) -> BranchStep:
        found = state.require_table(source)
        state.require_free(target, TABLE, renamed_from=source)
        rename = Rename(source, target, expected_content_id=found.content_id)
        return BranchStep([rename], f"Rename table {shown(source)} to {shown(target)}", headers_of("rename-table"))

    branch.change(caller, [source, target], judge)


# ── metadata ⇄ content ──────────────────────────────────────────────────────────────────────────────────────


def table_content(file: MetadataFile) -> IcebergTable:
    table = file.table
    return IcebergTable(
        metadata_location=file.location,
        snapshot_id=table.get("current-snapshot-id"),
        schema_id=table["current-schema-id"],
        spec_id=table["default-spec-id"],
        sort_order_id=table["default-sort-order-id"],
    )


def metadata_file_response(branch: LakeBranch, done: BranchOutcome) -> MetadataFile:
    """The file that the commit made, also if it was made by an earlier request of the same key."""
    if isinstance(done.answer, MetadataFile):
        return done.answer
    after = done.change.operations[0].after if done.change is not None else None
    return branch.metadata.load((after or {}).get("metadata_location", ""))


def _chosen_places(wanted: TableCreation) -> list[str]:
    """Where the client wants files, not where the server puts them by itself."""
    location = [wanted.location] if wanted.location else []
    return [*location, *(wanted.properties[name] for name in LOCATION_PROPERTIES if name in wanted.properties)]


def _new_metadata(branch: LakeBranch, key: KeyPath, wanted: TableCreation) -> Plain:
    warehouse = branch.metadata.warehouse
    warehouse.check_properties(wanted.properties)
    location = warehouse.new_location(key) if not wanted.location else warehouse.check(wanted.location)
    return new_table(
        str(uuid.uuid4()), location, wanted.schema, wanted.partition_spec, wanted.write_order, wanted.properties, now_millis()
    )
