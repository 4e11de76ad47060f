"""Applies updates to table metadata and returns new metadata. The given metadata is never changed.

What the specification leaves to the catalog is done here: ids of schemas, specs and orders that exist already are used again,
ids that are taken get new values, and `-1` means the last one that was added.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

import msgspec

from headwater.service.iceberg.metadata import snapshot_updates
from headwater.service.iceberg.metadata import table_requests as ask
from headwater.service.iceberg.metadata.added_parts import AddedParts, fields_meaning
from headwater.service.iceberg.metadata.new_table import in_its_format, nothing_yet
from headwater.service.iceberg.metadata.schema_json import CheckedSchema, field_ids, schema_meaning
from headwater.service.iceberg.metadata.shapes import (
    EncryptionKeyShape,
    OrderShape,
    PartitionStatisticsShape,
    Plain,
    SpecShape,
    StatisticsShape,
    malformed,
    shaped,
)
from headwater.service.iceberg.metadata.table_snapshots import TableSnapshots

PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
PREVIOUS_VERSIONS_DEFAULT = 100


def updated(base: Plain | None, base_location: str | None, updates: Iterable[ask.TableUpdate], now_ms: int) -> Plain:
    """`MalformedMetadata` if the updates cannot be applied, `RequirementFailed` if they come too late."""
    builder = TableBuilder(nothing_yet(now_ms) if base is None else base, creates=base is None, now_ms=now_ms)
    for update in updates:
        builder.apply(update)
    return builder.finished(base_location)


class TableBuilder:
    """⚠ Each update costs the same however large the table is and however many came before: a request may bring thousands."""

    def __init__(self, base: Plain, *, creates: bool, now_ms: int) -> None:
        self.made = {**base, "properties": dict(base["properties"])}
        self.now_ms = now_ms
        self.snapshots = TableSnapshots(base)
        self._creates = creates
        self._before_ms: int = base["last-updated-ms"]
        self._schemas = AddedParts(base["schemas"], "schema-id", schema_meaning)
        self._specs = AddedParts(base["partition-specs"], "spec-id", fields_meaning)
        self._orders = AddedParts(base["sort-orders"], "order-id", fields_meaning)
        self._check_sources = creates

    @property
    def has_schema(self) -> bool:
        return self._schemas.first_id is not None

    def apply(self, update: ask.TableUpdate) -> None:
        match update:
            case ask.SetProperties():
                self.made["properties"].update(update.updates)
            case ask.RemoveProperties():
                for name in update.removals:
                    self.made["properties"].pop(name, None)
            case ask.SetLocation():
                self.made["location"] = update.location.rstrip("/")
            case ask.AssignUuid():
                self._assign_uuid(str(update.uuid))
            case ask.UpgradeFormatVersion():
                self._upgrade(update.format_version)
            case ask.AddEncryptionKey() | ask.RemoveEncryptionKey():
                self._change_keys(update)
            case _:
                if not self._apply_to_parts(update) and not self._apply_statistics(update):
                    snapshot_updates.apply(self, update)

    def finished(self, base_location: str | None) -> Plain:
        made = self.made
        if self._creates:
            self._check_new()
        made["schemas"], made["partition-specs"] = self._schemas.all, self._specs.all
        made["sort-orders"] = self._orders.all
        self.snapshots.write_to(made)
        if self._check_sources:
            self._check_sources_exist()
        if made["last-updated-ms"] == self._before_ms:
            made["last-updated-ms"] = max(self.now_ms, self._before_ms)
        if base_location is not None:
            entry = {"metadata-file": base_location, "timestamp-ms": self._before_ms}
            made["metadata-log"] = [*made["metadata-log"], entry][-self._previous_versions_max() :]
        return in_its_format(made)

    # ── the table as a whole ────────────────────────────────────────────────────────────────────────────────

    def _assign_uuid(self, uuid: str) -> None:
        if self.made.setdefault("table-uuid", uuid).lower() != uuid:
            raise malformed("The table has a uuid already, which stays.", "assign-uuid")

    def _upgrade(self, version: int) -> None:
        if version < self.made["format-version"] and not self._creates:
            raise malformed(f"The table has format version {self.made['format-version']} already.", "format-version")
        self.made["format-version"] = version

    def _previous_versions_max(self) -> int:
        try:
            return max(1, int(self.made["properties"].get(PREVIOUS_VERSIONS_MAX, PREVIOUS_VERSIONS_DEFAULT)))
        except ValueError:
            return PREVIOUS_VERSIONS_DEFAULT

    def _check_new(self) -> None:
        self.made.setdefault("table-uuid", str(uuid4()))
        for name, remedy in (("current-schema-id", "schema"), ("location", "location")):
            if name not in self.made:
                raise malformed(f"A new table needs a {remedy}.", name)
        for parts, chosen, id_field in (
            (self._specs, "default-spec-id", "spec-id"),
            (self._orders, "default-sort-order-id", "order-id"),
        ):
            if parts.first_id is None:
                parts.add({id_field: 0, "fields": []})
            self.made.setdefault(chosen, parts.first_id)

    def _change_keys(self, update: ask.AddEncryptionKey | ask.RemoveEncryptionKey) -> None:
        if self.made["format-version"] < 3:
            raise malformed("Encryption keys need format version 3.", "encryption-keys")
        if isinstance(update, ask.AddEncryptionKey):
            key, added = shaped(update.encryption_key, EncryptionKeyShape, "encryption-key").key_id, [update.encryption_key]
        else:
            key, added = update.key_id, []
        kept = [one for one in self.made.get("encryption-keys") or () if one["key-id"] != key]
        self.made["encryption-keys"] = kept + added

    # ── schemas, specs, orders ──────────────────────────────────────────────────────────────────────────────

    def _apply_to_parts(self, update: ask.TableUpdate) -> bool:
        match update:
            case ask.AddSchema():
                highest = CheckedSchema(update.schema, self.made["format-version"]).highest_id
                self._schemas.add(update.schema)
                self.made["last-column-id"] = max(self.made["last-column-id"], highest)
            case ask.SetCurrentSchema():
                self.made["current-schema-id"] = self._schemas.meant(update.schema_id)
            case ask.AddSpec():
                self._specs.add(self._with_field_ids(update.spec))
            case ask.SetDefaultSpec():
                self.made["default-spec-id"] = self._specs.meant(update.spec_id)
            case ask.AddSortOrder():
                shaped(update.sort_order, OrderShape, "sort-order")
                self._orders.add(update.sort_order)
            case ask.SetDefaultSortOrder():
                self.made["default-sort-order-id"] = self._orders.meant(update.sort_order_id)
            case ask.RemoveSchemas():
                self._schemas.remove(update.schema_ids, self.made.get("current-schema-id"))
            case ask.RemovePartitionSpecs():
                self._specs.remove(update.spec_ids, self.made.get("default-spec-id"))
            case _:
                return False
        self._check_sources = True
        return True

    def _with_field_ids(self, spec: Plain) -> Plain:
        """Partition fields that have no id yet get the next ones."""
        shape = shaped(spec, SpecShape, "spec")
        last: int = self.made["last-partition-id"]
        fields = []
        for field, known in zip(spec["fields"], shape.fields, strict=True):
            if known.field_id is None:
                last += 1
                field = {**field, "field-id": last}
            fields.append(field)
        self.made["last-partition-id"] = max([last, *(field["field-id"] for field in fields)])
        return {**spec, "fields": fields}

    def _check_sources_exist(self) -> None:
        """What is partitioned and sorted by is in the current schema, unless it is not looked at any more."""
        ids = field_ids(self._schemas.get(self.made["current-schema-id"]))
        for name, parts, chosen in (
            ("partition-specs", self._specs, "default-spec-id"),
            ("sort-orders", self._orders, "default-sort-order-id"),
        ):
            for field in parts.get(self.made[chosen])["fields"]:
                sources = field.get("source-ids") or [field.get("source-id")]
                missing = [id for id in sources if id not in ids]
                if missing and field["transform"] != "void":
                    raise malformed(f"{name}: there is no field {missing[0]} in the current schema.", name)

    # ── statistics ──────────────────────────────────────────────────────────────────────────────────────────

    def _apply_statistics(self, update: ask.TableUpdate) -> bool:
        match update:
            case ask.SetStatistics():
                shaped(update.statistics, StatisticsShape, "statistics")
                self.snapshots.set_statistics("statistics", update.statistics)
            case ask.SetPartitionStatistics():
                shaped(update.partition_statistics, PartitionStatisticsShape, "partition-statistics")
                self.snapshots.set_statistics("partition-statistics", update.partition_statistics)
            case ask.RemoveStatistics():
                self.snapshots.remove_statistics("statistics", update.snapshot_id)
            case ask.RemovePartitionStatistics():
                self.snapshots.remove_statistics("partition-statistics", update.snapshot_id)
            case _:
                return False
        return True


def encoded(table: Plain) -> bytes:
    return msgspec.json.encode({name: value for name, value in table.items() if value is not None})
