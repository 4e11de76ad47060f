"""Applies updates of snapshots, branches and tags to the table that is being built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas.errors import RequirementFailed
from headwater.service.iceberg.metadata import table_requests as ask
from headwater.service.iceberg.metadata.shapes import Plain, ReferenceShape, SnapshotShape, malformed, shaped
from headwater.service.iceberg.metadata.table_snapshots import MAIN

if TYPE_CHECKING:
    from headwater.service.iceberg.metadata.table_builder import TableBuilder


def apply(builder: TableBuilder, update: ask.TableUpdate) -> None:
    match update:
        case ask.AddSnapshot():
            _add(builder, update.snapshot)
        case ask.SetSnapshotRef():
            _set_ref(builder, update)
        case ask.RemoveSnapshots():
            _remove(builder, set(update.snapshot_ids))
        case ask.RemoveSnapshotRef():
            _remove_ref(builder, update.ref_name)
        case _:
            raise NotImplementedError(f"an unknown update: {type(update).__name__}")


def _add(builder: TableBuilder, given: Plain) -> None:
    made = builder.made
    snapshot = shaped(given, SnapshotShape, "snapshot")
    if not builder.has_schema:
        raise malformed("A snapshot needs a schema first.", "add-snapshot")
    if snapshot.snapshot_id in builder.snapshots.by_id:
        raise malformed(f"There is a snapshot {snapshot.snapshot_id} already.", "add-snapshot")
    if snapshot.manifest_list is None and (made["format-version"] > 1 or not snapshot.manifests):
        raise malformed("A snapshot needs a manifest list.", "snapshot.manifest-list")
    _check_in_time(made, snapshot)
    if made["format-version"] >= 3:
        made["next-row-id"] = (made.get("next-row-id") or 0) + (snapshot.added_rows or 0)
    if made["format-version"] >= 2 and snapshot.sequence_number is not None:
        made["last-sequence-number"] = max(snapshot.sequence_number, made.get("last-sequence-number") or 0)
    made["last-updated-ms"] = snapshot.timestamp_ms
    builder.snapshots.add(snapshot.snapshot_id, given)


def _check_in_time(made: Plain, snapshot: SnapshotShape) -> None:
    """⚠ A snapshot that was made before another one landed on another branch: a conflict, for the client can make it again."""
    number, last = snapshot.sequence_number, made.get("last-sequence-number") or 0
    if made["format-version"] >= 2 and number is not None and snapshot.parent_snapshot_id is not None and number <= last:
        raise _too_late(f"sequence number {number} is not above {last}")
    if made["format-version"] >= 3:
        if snapshot.first_row_id is None:
            raise malformed("A snapshot of format version 3 needs a first row id.", "snapshot.first-row-id")
        following = made.get("next-row-id") or 0
        if snapshot.first_row_id < following:
            raise _too_late(f"first row id {snapshot.first_row_id} is below {following}")


def _too_late(why: str) -> RequirementFailed:
    return RequirementFailed(
        f"Another snapshot was added meanwhile: {why}.", field="add-snapshot", remedy="Load the table again."
    )


def _set_ref(builder: TableBuilder, update: ask.SetSnapshotRef) -> None:
    made = builder.made
    ages = {
        "min-snapshots-to-keep": update.min_snapshots_to_keep,
        "max-snapshot-age-ms": update.max_snapshot_age_ms,
        "max-ref-age-ms": update.max_ref_age_ms,
    }
    new: Plain = {"snapshot-id": update.snapshot_id, "type": update.type}
    new |= {name: value for name, value in ages.items() if value is not None}
    shaped(new, ReferenceShape, "set-snapshot-ref")
    if update.type == "tag" and (update.ref_name == MAIN or update.min_snapshots_to_keep or update.max_snapshot_age_ms):
        raise malformed("A tag is not main, and keeps no snapshots but its own.", "set-snapshot-ref")
    snapshot = builder.snapshots.by_id.get(update.snapshot_id)
    if snapshot is None:
        raise malformed(f"There is no snapshot {update.snapshot_id}.", "set-snapshot-ref")
    if builder.snapshots.refs.get(update.ref_name) == new:
        return
    builder.snapshots.set_ref(update.ref_name, new)
    if update.ref_name == MAIN:
        at_ms = snapshot["timestamp-ms"] if update.snapshot_id in builder.snapshots.added else builder.now_ms
        made["current-snapshot-id"] = update.snapshot_id
        made["last-updated-ms"] = at_ms
        builder.snapshots.log(update.snapshot_id, at_ms)


def _remove(builder: TableBuilder, ids: set[int]) -> None:
    """Branches and tags at them go too."""
    unknown = ids - builder.snapshots.by_id.keys()
    if unknown:
        raise malformed(f"There is no snapshot {min(unknown)}.", "remove-snapshots")
    if MAIN in builder.snapshots.remove(ids):
        builder.made["current-snapshot-id"] = None


def _remove_ref(builder: TableBuilder, name: str) -> None:
    builder.snapshots.remove_ref(name)
    if name == MAIN:
        builder.made["current-snapshot-id"] = None
