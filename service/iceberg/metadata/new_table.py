"""The first metadata of a table, from a schema, spec and order, or from a file of another writer."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.service.iceberg.metadata.schema_json import CheckedSchema, with_fresh_ids
from headwater.service.iceberg.metadata.shapes import OrderShape, Plain, SpecShape, TableShape, malformed, shaped

FORMAT_VERSION = "format-version"
FORMAT_VERSION_DEFAULT = 2
FORMAT_VERSIONS = ("1", "2", "3")
PARTITION_IDS_BEFORE = 999
NO_SNAPSHOT = -1


def new_table(
    table_uuid: str,
    location: str,
    schema: Plain,
    spec: Plain | None,
    order: Plain | None,
    properties: Mapping[str, str],
    now_ms: int,
) -> Plain:
    """The table's ids are the catalog's: those of the request only say what refers to what."""
    version = properties.get(FORMAT_VERSION, str(FORMAT_VERSION_DEFAULT))
    if version not in FORMAT_VERSIONS:
        raise malformed(f"there is no format version {version[:40]!r}.", "properties.format-version")
    CheckedSchema(schema, int(version))
    fresh, renamed = with_fresh_ids(schema)
    fresh_spec, last_partition_id = _fresh_spec(spec, renamed)
    made: Plain = {
        "format-version": int(version),
        "table-uuid": table_uuid,
        "location": location,
        "last-updated-ms": now_ms,
        "last-column-id": max(renamed.values(), default=0),
        "schemas": [fresh],
        "current-schema-id": 0,
        "partition-specs": [fresh_spec],
        "default-spec-id": 0,
        "last-partition-id": last_partition_id,
        "sort-orders": [_fresh_order(order, renamed)],
        "properties": {name: value for name, value in properties.items() if name != FORMAT_VERSION},
        **_empty_lists(),
    }
    made["default-sort-order-id"] = made["sort-orders"][0]["order-id"]
    return in_its_format(made)


def nothing_yet(now_ms: int) -> Plain:
    """What the updates of a transaction that creates a table begin with."""
    return {
        "format-version": FORMAT_VERSION_DEFAULT,
        "last-updated-ms": now_ms,
        "last-column-id": 0,
        "schemas": [],
        "partition-specs": [],
        "last-partition-id": PARTITION_IDS_BEFORE,
        "sort-orders": [],
        "properties": {},
        **_empty_lists(),
    }


def in_its_format(table: Plain) -> Plain:
    """With the fields that its format version asks for, and without those that only another one has."""
    version = table["format-version"]
    made = {name: value for name, value in table.items() if name not in ("schema", "partition-spec")}
    if version == 1:
        made.pop("last-sequence-number", None)
        current = made.get("current-schema-id")
        made["schema"] = next((one for one in made["schemas"] if one.get("schema-id", 0) == current), None)
        default = made.get("default-spec-id")
        specs = (one["fields"] for one in made["partition-specs"] if one.get("spec-id", 0) == default)
        made["partition-spec"] = next(specs, [])
    else:
        made.setdefault("last-sequence-number", 0)
    if version >= 3:
        made.setdefault("next-row-id", 0)
    else:
        made.pop("next-row-id", None)
    return made


def whole(given: Plain, what: str) -> Plain:
    """A metadata file of whatever writer, checked, with what it may leave out filled in."""
    table = dict(given)
    if "schemas" not in table and isinstance(table.get("schema"), dict):
        table["schemas"] = [{"schema-id": 0, **table["schema"]}]
        table["current-schema-id"] = table["schemas"][0]["schema-id"]
    if "partition-specs" not in table and isinstance(table.get("partition-spec"), list):
        table["partition-specs"] = [{"spec-id": 0, "fields": table["partition-spec"]}]
        table["default-spec-id"] = 0
    if not table.get("sort-orders"):
        table["sort-orders"], table["default-sort-order-id"] = [{"order-id": 0, "fields": []}], 0
    if table.get("current-snapshot-id") == NO_SNAPSHOT:
        table["current-snapshot-id"] = None
    for parts, id_field in (("schemas", "schema-id"), ("partition-specs", "spec-id"), ("sort-orders", "order-id")):
        if isinstance(table.get(parts), list):
            table[parts] = [{id_field: 0, **one} if isinstance(one, dict) else one for one in table[parts]]
    for name, nothing in {"properties": {}, **_empty_lists()}.items():
        if table.get(name) is None:
            table[name] = nothing
    if table.get("last-partition-id") is None and isinstance(table.get("partition-specs"), list):
        table["last-partition-id"] = _highest_partition_id(table["partition-specs"])
    shape = shaped(table, TableShape, what)
    _check_ids(shape, what)
    for schema in table["schemas"]:
        CheckedSchema(schema, shape.format_version)
    if table.get("current-snapshot-id") is not None and "main" not in table["refs"]:
        table["refs"] = {**table["refs"], "main": {"snapshot-id": table["current-snapshot-id"], "type": "branch"}}
    return table


def _check_ids(table: TableShape, what: str) -> None:
    if table.current_schema_id not in {one.schema_id for one in table.schemas}:
        raise malformed(f"{what[:200]}: the current schema is none of the table's.")
    if table.default_spec_id not in {one.spec_id for one in table.partition_specs}:
        raise malformed(f"{what[:200]}: the default spec is none of the table's.")
    if table.default_sort_order_id not in {one.order_id for one in table.sort_orders}:
        raise malformed(f"{what[:200]}: the default sort order is none of the table's.")
    snapshots = {one.snapshot_id for one in table.snapshots}
    if table.current_snapshot_id is not None and table.current_snapshot_id not in snapshots:
        raise malformed(f"{what[:200]}: the current snapshot is none of the table's.")
    if any(ref.snapshot_id not in snapshots for ref in table.refs.values()):
        raise malformed(f"{what[:200]}: a branch or tag names a snapshot that is none of the table's.")


def _highest_partition_id(specs: list[Plain]) -> int:
    ids = [field.get("field-id") for spec in specs if isinstance(spec, dict) for field in spec.get("fields") or ()]
    return max((id for id in ids if isinstance(id, int)), default=PARTITION_IDS_BEFORE)


def _empty_lists() -> Plain:
    return {
        "snapshots": [],
        "refs": {},
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }


def _fresh_spec(spec: Plain | None, renamed: dict[int, int]) -> tuple[Plain, int]:
    fields = [] if spec is None else _fields(spec, SpecShape, "partition-spec")
    made = [
        {**_with_sources(field, renamed), "field-id": PARTITION_IDS_BEFORE + number} for number, field in enumerate(fields, 1)
    ]
    return {"spec-id": 0, "fields": made}, PARTITION_IDS_BEFORE + len(made)


def _fresh_order(order: Plain | None, renamed: dict[int, int]) -> Plain:
    fields = [] if order is None else _fields(order, OrderShape, "write-order")
    return {"order-id": 1 if fields else 0, "fields": [_with_sources(field, renamed) for field in fields]}


def _fields(given: Plain, shape: type[SpecShape] | type[OrderShape], what: str) -> list[Plain]:
    shaped(given, shape, what)
    fields: list[Plain] = given["fields"]
    return fields


def _with_sources(field: Plain, renamed: dict[int, int]) -> Plain:
    try:
        if field.get("source-ids") is not None:
            return {**field, "source-ids": [renamed[id] for id in field["source-ids"]]}
        return {**field, "source-id": renamed[field["source-id"]]}
    except KeyError as missing:
        raise malformed(f"there is no field {missing} that could be partitioned or sorted by.", "source-id") from None
