"""Loads, creates, replaces, registers, renames and drops views."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from headwater.producer.commits.operations import Delete, Put, Rename
from headwater.producer.content.content_types import IcebergView
from headwater.schemas.change import KeyPath
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.view_updates import (
    VIEW_REQUIREMENTS,
    VIEW_UPDATES,
    check_names,
    check_view_requirements,
    new_view,
    updated_view,
)
from headwater.service.iceberg.operations.lake_branch import VIEW, BranchStep, CommitAuthor, LakeBranch, LakeState, shown
from headwater.service.iceberg.operations.metadata_files import MetadataFile
from headwater.service.iceberg.operations.tables import metadata_file_response
from headwater.service.iceberg.operations.update_headers import Updates, headers_of, view_creation


class ViewCreation(msgspec.Struct, frozen=True, rename="kebab"):
    """As the specification's CreateViewRequest."""

    name: str
    schema: dict[str, Any]
    view_version: dict[str, Any]
    location: str | None = None
    properties: dict[str, str] = {}


def create_view(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, wanted: ViewCreation) -> MetadataFile:
    warehouse = branch.metadata.warehouse
    warehouse.check_properties(wanted.properties)
    location = warehouse.new_location(key) if not wanted.location else warehouse.check(wanted.location)
    metadata = new_view(str(uuid.uuid4()), location, wanted.schema, wanted.view_version, wanted.properties)

    def judge(state: LakeState) -> BranchStep:
        state.require_free(key, VIEW)
        file = branch.metadata.write(msgspec.json.encode(metadata), location, metadata["properties"])
        put = Put(key, view_content(file), must_not_exist=True, content_id=metadata["view-uuid"])
        headers = headers_of("create-view", [(key, view_creation(metadata))])
        return BranchStep([put], f"Create view {shown(key)}", headers, [file.location], file)

    return metadata_file_response(branch, branch.change(caller, [key], judge))


def register_view(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, location: str) -> MetadataFile:
    file = branch.metadata.load_for_commit(location, is_view=True)

    def judge(state: LakeState) -> BranchStep:
        state.require_free(key, VIEW)
        put = Put(key, view_content(file), must_not_exist=True, content_id=file.uuid)
        headers = headers_of("create-view", [(key, view_creation(file.view))])
        return BranchStep([put], f"Register view {shown(key)}", headers, [], file)

    return metadata_file_response(branch, branch.change(caller, [key], judge))


def replace_view(
    branch: LakeBranch, caller: CommitAuthor, key: KeyPath, requirements: list[dict[str, Any]], updates: Updates
) -> MetadataFile:
    check_names(requirements, "type", VIEW_REQUIREMENTS)
    _check_updates(branch, updates)

    def choose(view: Plain) -> Updates:
        check_view_requirements(requirements, view)
        return updates

    return _change_view(branch, caller, key, choose)


def change_view(
    branch: LakeBranch, caller: CommitAuthor, key: KeyPath, choose_updates: Callable[[Plain], Updates]
) -> MetadataFile:
    """⚠ The updates are chosen again for every attempt, by the very metadata that the commit replaces."""

    def choose(view: Plain) -> Updates:
        updates = choose_updates(view)
        _check_updates(branch, updates)
        return updates

    return _change_view(branch, caller, key, choose)


def _change_view(branch: LakeBranch, caller: CommitAuthor, key: KeyPath, choose: Callable[[Plain], Updates]) -> MetadataFile:
    def judge(state: LakeState) -> BranchStep:
        found = state.require_view(key)
        base = branch.load_metadata(key, found.value["metadata_location"])
        updates = choose(base.plain)
        metadata = updated_view(base.plain, updates)
        json = msgspec.json.encode(metadata)
        file = branch.metadata.write(json, metadata["location"], metadata.get("properties", {}), base.location)
        put = Put(key, view_content(file), expected=msgspec.convert(found.value, IcebergView))
        return BranchStep(
            [put], f"Replace view {shown(key)}", headers_of("update-view", [(key, updates)]), [file.location], file
        )

    return metadata_file_response(branch, branch.change(caller, [key], judge))


def drop_view(branch: LakeBranch, caller: CommitAuthor, key: KeyPath) -> None:
    def judge(state: LakeState) -> BranchStep:
        found = state.require_view(key)
        delete = Delete(key, expected_content_id=found.content_id)
        return BranchStep([delete], f"Drop view {shown(key)}", headers_of("drop-view"))

    branch.change(caller, [key], judge)


def rename_view(branch: LakeBranch, caller: CommitAuthor, source: KeyPath, target: KeyPath) -> None:
    def judge(state: LakeState) -> BranchStep:
        found = state.require_view(source)
        state.require_free(target, VIEW, renamed_from=source)
        rename = Rename(source, target, expected_content_id=found.content_id)
        return BranchStep([rename], f"Rename view {shown(source)} to {shown(target)}", headers_of("rename-view"))

    branch.change(caller, [source, target], judge)


def view_content(file: MetadataFile) -> IcebergView:
    view = file.plain
    current = next(one for one in view["versions"] if one["version-id"] == view["current-version-id"])
    return IcebergView(file.location, version_id=view["current-version-id"], schema_id=current["schema-id"])


def _check_updates(branch: LakeBranch, updates: Updates) -> None:
    check_names(updates, "action", VIEW_UPDATES)
    for update in updates:
        if update["action"] == "set-location":
            branch.metadata.warehouse.check(update.get("location", ""))
        elif update["action"] == "set-properties" and isinstance(update.get("updates"), dict):
            branch.metadata.warehouse.check_properties(update["updates"])
