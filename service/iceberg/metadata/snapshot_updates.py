"""Updates of snapshots, branches and tags enter; the table that is being built has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas.errors import RequirementFailed
from headwater.service.iceberg.metadata import table_requests as ask
from headwater.service.iceberg.metadata.shapes import Plain, ReferenceShape, SnapshotShape, malformed, shaped

if TYPE_CHECKING:
    from headwater.service.iceberg.metadata.table_builder import TableBuilder

MAIN = "main"


def apply(builder: TableBuilder, update: ask.TableUpdate) -> None:
    match update:
        case ask.AddSnapshot():
            _add(builder, update.snapshot)
        case ask.SetSnapshotRef():
            _set_ref(builder, update)
        case ask.RemoveSnapshots():
            _remove(builder, set(update.snapshot_ids))
        case ask.RemoveSnapshotRef():
            _remove_ref(builder.made, update.ref_name)


def _add(builder: TableBuilder, given: Plain) -> None:
    made = builder.made
    snapshot = shaped(given, SnapshotShape, "snapshot")
    if not made["schemas"]:
        raise malformed("A snapshot needs a schema first.", "add-snapshot")
    if any(one["snapshot-id"] == snapshot.snapshot_id for one in made["snapshots"]):
        raise malformed(f"There is a snapshot {snapshot.snapshot_id} already.", "add-snapshot")
    if snapshot.manifest_list is None and (made["format-version"] > 1 or not snapshot.manifests):
        raise malformed("A snapshot needs a manifest list.", "snapshot.manifest-list")
    _check_in_time(made, snapshot)
    if made["format-version"] >= 3:
        made["next-row-id"] = (made.get("next-row-id") or 0) + (snapshot.added_rows or 0)
    if made["format-version"] >= 2 and snapshot.sequence_number is not None:
        made["last-sequence-number"] = max(snapshot.sequence_number, made.get("last-sequence-number") or 0)
    made["snapshots"] = [*made["snapshots"], given]
    made["last-updated-ms"] = snapshot.timestamp_ms
    builder.added_snapshots.add(snapshot.snapshot_id)


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
    snapshot = next((one for one in made["snapshots"] if one["snapshot-id"] == update.snapshot_id), None)
    if snapshot is None:
        raise malformed(f"There is no snapshot {update.snapshot_id}.", "set-snapshot-ref")
    if made["refs"].get(update.ref_name) == new:
        return
    made["refs"] = {**made["refs"], update.ref_name: new}
    if update.ref_name == MAIN:
        at_ms = snapshot["timestamp-ms"] if update.snapshot_id in builder.added_snapshots else builder.now_ms
        made["current-snapshot-id"] = update.snapshot_id
        made["last-updated-ms"] = at_ms
        made["snapshot-log"] = [*made["snapshot-log"], {"snapshot-id": update.snapshot_id, "timestamp-ms": at_ms}]


def _remove(builder: TableBuilder, ids: set[int]) -> None:
    """Branches and tags at them go too. The log keeps what came after the newest of them: before it, it has a hole."""
    made = builder.made
    unknown = ids - {one["snapshot-id"] for one in made["snapshots"]}
    if unknown:
        raise malformed(f"There is no snapshot {min(unknown)}.", "remove-snapshots")
    for name in [name for name, ref in made["refs"].items() if ref["snapshot-id"] in ids]:
        _remove_ref(made, name)
    made["snapshots"] = [one for one in made["snapshots"] if one["snapshot-id"] not in ids]
    for part in ("statistics", "partition-statistics"):
        made[part] = [one for one in made[part] if one["snapshot-id"] not in ids]
    newest = max((at for at, one in enumerate(made["snapshot-log"]) if one["snapshot-id"] in ids), default=-1)
    made["snapshot-log"] = made["snapshot-log"][newest + 1 :]


def _remove_ref(made: Plain, name: str) -> None:
    made["refs"] = {ref: value for ref, value in made["refs"].items() if ref != name}
    if name == MAIN:
        made["current-snapshot-id"] = None
        made["snapshot-log"] = []
