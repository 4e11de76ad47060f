"""Updates of table metadata: the same outcome as PyIceberg's for what both know, and what only the builder does."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from headwater.schemas.errors import MalformedMetadata, RequirementFailed
from headwater.service.iceberg.metadata.new_table import new_table, whole
from headwater.service.iceberg.metadata.requirements import check_requirements
from headwater.service.iceberg.metadata.table_builder import TableBuilder, encoded, updated
from headwater.service.iceberg.metadata.table_requests import TABLE_REQUIREMENTS, read_requirements, read_updates

NOW = 1_800_000_000_000
Plain = dict[str, Any]
SCHEMA: Plain = {
    "type": "struct",
    "fields": [
        {"id": 7, "name": "id", "type": "long", "required": True},
        {"id": 3, "name": "tags", "required": False, "type": {
            "type": "list", "element-id": 9, "element": "string", "element-required": False}},
        {"id": 5, "name": "place", "required": False, "type": {"type": "struct", "fields": [
            {"id": 8, "name": "city", "type": "string", "required": False}]}},
    ],
    "identifier-field-ids": [7],
}  # fmt: skip


def table(version: int = 2) -> Plain:
    spec = {"fields": [{"source-id": 7, "transform": "bucket[4]", "name": "id_bucket"}]}
    order = {
        "order-id": 1,
        "fields": [{"source-id": 8, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}],
    }
    return new_table(
        "9c12d441-03fe-4693-9a96-a0705ddf69c1", "file:///w/t", SCHEMA, spec, order, {"format-version": str(version)}, NOW
    )


def apply(base: Plain, *updates: Plain) -> Plain:
    raw = [msgspec.Raw(msgspec.json.encode(one)) for one in updates]
    return updated(base, "file:///w/t/metadata/0.json", read_updates(raw), NOW + 5)


def snapshot(id: int, parent: int | None = None, number: int = 1, **fields: Any) -> Plain:
    made = {
        "snapshot-id": id,
        "sequence-number": number,
        "timestamp-ms": NOW + number,
        "manifest-list": f"file:///w/{id}",
        **fields,
    }
    made["summary"] = {"operation": "append"}
    return {"action": "add-snapshot", "snapshot": made if parent is None else {**made, "parent-snapshot-id": parent}}


def to_main(id: int) -> Plain:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id}


def test_a_new_table_has_fresh_ids_level_by_level() -> None:
    made = table()
    fields = made["schemas"][0]["fields"]
    assert [field["id"] for field in fields] == [1, 2, 3]
    assert (fields[1]["type"]["element-id"], fields[2]["type"]["fields"][0]["id"]) == (4, 5)
    assert made["schemas"][0]["identifier-field-ids"] == [1]
    assert made["partition-specs"][0]["fields"][0] == {
        "source-id": 1,
        "transform": "bucket[4]",
        "name": "id_bucket",
        "field-id": 1000,
    }
    assert made["sort-orders"][0]["fields"][0]["source-id"] == 5
    assert (made["last-column-id"], made["last-partition-id"], made["default-sort-order-id"]) == (5, 1000, 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_created_metadata_is_readable_by_pyiceberg(version: int) -> None:
    made = msgspec.json.decode(encoded(table(version)))
    read = TableMetadataUtil.parse_obj(made)
    assert (read.format_version, read.schema().highest_field_id) == (version, 5)
    assert whole(made, "it") == made


def some_updates() -> st.SearchStrategy[list[Plain]]:
    names = st.sampled_from(["a", "b", "c"])
    ids = st.integers(1, 4)
    field = {"id": 6, "name": "more", "type": "string", "required": False}
    wider = {**table()["schemas"][0], "fields": [*table()["schemas"][0]["fields"], field], "schema-id": 1}
    one = st.one_of(
        st.builds(lambda name, value: {"action": "set-properties", "updates": {name: value}}, names, names),
        st.just({"action": "set-location", "location": "file:///w/elsewhere"}),
        st.sampled_from([{"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": 1}]),
        st.builds(lambda id: snapshot(id, number=id), ids),
        st.builds(to_main, ids),
        st.builds(lambda id: {"action": "set-snapshot-ref", "ref-name": "t", "type": "tag", "snapshot-id": id}, ids),
        st.just({"action": "remove-snapshot-ref", "ref-name": "t"}),
        st.builds(lambda id: {"action": "remove-partition-specs", "spec-ids": [id]}, ids),
        st.builds(lambda id: {"action": "remove-statistics", "snapshot-id": id}, ids),
    )
    return st.lists(one, min_size=1, max_size=6)


@given(updates=some_updates(), version=st.sampled_from([1, 2]))
@settings(max_examples=150, deadline=None)
def test_updates_give_the_same_metadata_as_pyiceberg(updates: list[Plain], version: int) -> None:
    base = table(version)
    before = copy.deepcopy(base)
    try:
        theirs = update_table_metadata(
            TableMetadataUtil.parse_obj(base),
            TypeAdapter(tuple[TableUpdate, ...]).validate_python(copy.deepcopy(updates)),
            metadata_location="file:///w/t/metadata/0.json",
        )
    except Exception:
        theirs = None
    try:
        ours = TableMetadataUtil.parse_obj(msgspec.json.decode(encoded(apply(base, *updates))))
    except MalformedMetadata:
        ours = None
    assert base == before, "what was given was changed"
    if theirs is None or ours is None:
        assert ours is None or _reuses_a_schema(updates), updates
        assert theirs is None, updates
        return
    for name in ("location", "properties", "schemas", "current_schema_id", "refs", "current_snapshot_id", "last_column_id"):
        if name != "schemas" or not _reuses_a_schema(updates):
            assert getattr(ours, name) == getattr(theirs, name), (name, updates)
    assert [one.snapshot_id for one in ours.snapshots] == [one.snapshot_id for one in theirs.snapshots]
    assert len(ours.metadata_log) == 1


def _reuses_a_schema(updates: list[Plain]) -> bool:
    """PyIceberg leaves it to the client not to add one twice."""
    return len([one for one in updates if one["action"] == "add-schema"]) > 1


def test_unknown_fields_are_kept_at_every_depth() -> None:
    base = {**table(), "x-top": {"deep": [1]}}
    base["schemas"] = [{**base["schemas"][0], "x-schema": True}]
    made = apply(base, {"action": "set-properties", "updates": {"a": "b"}})
    assert (made["x-top"], made["schemas"][0]["x-schema"]) == ({"deep": [1]}, True)


def test_removed_snapshots_take_their_branches_tags_statistics_and_older_log_along() -> None:
    base = apply(table(), snapshot(1), to_main(1), snapshot(2, 1, 2), to_main(2), snapshot(3, 2, 3), to_main(3))
    statistics = {
        "snapshot-id": 2,
        "statistics-path": "file:///w/s",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    base = apply(
        base,
        {"action": "set-statistics", "statistics": statistics},
        {"action": "set-snapshot-ref", "ref-name": "old", "type": "tag", "snapshot-id": 2},
    )
    made = apply(base, {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert [one["snapshot-id"] for one in made["snapshots"]] == [1, 3]
    assert (made["statistics"], set(made["refs"]), [one["snapshot-id"] for one in made["snapshot-log"]]) == ([], {"main"}, [3])
    assert made["current-snapshot-id"] == 3


def test_a_snapshot_that_arrives_too_late_is_a_conflict_and_not_an_error() -> None:
    base = apply(table(), snapshot(1), to_main(1))
    with pytest.raises(RequirementFailed):
        apply(base, snapshot(2, 1, 1))
    third = apply(table(3), snapshot(1, **{"first-row-id": 0, "added-rows": 10}), to_main(1))
    assert third["next-row-id"] == 10
    with pytest.raises(RequirementFailed):
        apply(third, snapshot(2, 1, 2, **{"first-row-id": 5, "added-rows": 1}))
    with pytest.raises(MalformedMetadata):
        apply(third, snapshot(2, 1, 2))


@pytest.mark.parametrize(
    ("type", "version", "fits"),
    [("variant", 3, True), ("variant", 2, False), ("geometry(srid:4326)", 3, True), ("timestamp_ns", 1, False),
     ("decimal(38, 2)", 1, True), ("decimal(x)", 3, False), ("fixed[16]", 2, True), ("text", 3, False), ("", 3, False)],
)  # fmt: skip
def test_types_are_those_of_the_format_version(type: str, version: int, fits: bool) -> None:
    schema = {"type": "struct", "schema-id": 1, "fields": [{"id": 1, "name": "x", "type": type, "required": False}]}
    if fits:
        assert apply(table(version), {"action": "add-schema", "schema": schema})["schemas"][-1]["fields"] == schema["fields"]
        return
    with pytest.raises(MalformedMetadata):
        apply(table(version), {"action": "add-schema", "schema": schema})


def test_a_schema_that_drops_what_is_partitioned_by_is_refused() -> None:
    schema = {"type": "struct", "schema-id": 1, "fields": [{"id": 5, "name": "city", "type": "string", "required": False}]}
    with pytest.raises(MalformedMetadata):
        apply(table(), {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1})


def test_encryption_keys_are_added_and_removed_in_format_3() -> None:
    key = {"key-id": "k", "encrypted-key-metadata": "AA=="}
    made = apply(table(3), {"action": "add-encryption-key", "encryption-key": key})
    assert made["encryption-keys"] == [key]
    assert apply(made, {"action": "remove-encryption-key", "key-id": "k"})["encryption-keys"] == []
    with pytest.raises(MalformedMetadata):
        apply(table(2), {"action": "add-encryption-key", "encryption-key": key})


HOLDS: dict[str, tuple[Plain, Plain]] = {
    "assert-table-uuid": ({"uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"}, {"uuid": "0c12d441-03fe-4693-9a96-a0705ddf69c1"}),
    "assert-ref-snapshot-id": ({"ref": "main", "snapshot-id": 1}, {"ref": "main", "snapshot-id": None}),
    "assert-last-assigned-field-id": ({"last-assigned-field-id": 5}, {"last-assigned-field-id": 4}),
    "assert-current-schema-id": ({"current-schema-id": 0}, {"current-schema-id": 1}),
    "assert-last-assigned-partition-id": ({"last-assigned-partition-id": 1000}, {"last-assigned-partition-id": 999}),
    "assert-default-spec-id": ({"default-spec-id": 0}, {"default-spec-id": 1}),
    "assert-default-sort-order-id": ({"default-sort-order-id": 1}, {"default-sort-order-id": 0}),
}


def required(**fields: Any) -> Any:
    return read_requirements([msgspec.Raw(msgspec.json.encode(fields))])


@pytest.mark.parametrize("name", TABLE_REQUIREMENTS)
def test_every_requirement_holds_and_fails(name: str) -> None:
    base = apply(table(), snapshot(1), to_main(1))
    if name == "assert-create":
        with pytest.raises(RequirementFailed):
            check_requirements(required(type=name), base)
        return
    right, wrong = HOLDS[name]
    check_requirements(required(type=name, **right), base)
    with pytest.raises(RequirementFailed) as failed:
        check_requirements(required(type=name, **wrong), base)
    assert failed.value.field == name


def test_old_metadata_of_format_1_becomes_whole() -> None:
    old: Plain = {
        "format-version": 1,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": "file:///w/t",
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "long", "required": False}]},
        "partition-spec": [{"source-id": 1, "field-id": 1000, "name": "x", "transform": "identity"}],
        "current-snapshot-id": -1,
    }
    made = whole(old, "it")
    assert (made["current-schema-id"], made["default-spec-id"], made["last-partition-id"]) == (0, 0, 1000)
    assert (made["sort-orders"], made["current-snapshot-id"]) == ([{"order-id": 0, "fields": []}], None)


class _CountedList(list[Plain]):
    """Counts how often it is walked."""

    walks = 0

    def __iter__(self) -> Iterator[Plain]:
        self.walks += 1
        return super().__iter__()


def test_a_request_walks_the_table_once_however_many_updates_it_has() -> None:
    base = apply(table(), *[snapshot(id) for id in range(1, 50)])
    counted = {name: _CountedList(base[name]) for name in ("snapshots", "snapshot-log", "statistics", "schemas")}
    updates = [snapshot(id) for id in range(100, 400)]
    updates += [{"action": "remove-snapshots", "snapshot-ids": [id]} for id in range(1, 50)]
    updates += [to_main(id) for id in range(100, 400)]
    made = apply({**base, **counted}, *updates)
    assert len(made["snapshots"]) == 300 and made["current-snapshot-id"] == 399
    assert {name: one.walks for name, one in counted.items() if one.walks > 2} == {}


class _CountedDict(dict[Any, Any]):
    """Counts how often all of it is asked for."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__iter__()

    def keys(self) -> Any:
        self.walks += 1
        return super().keys()

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def items(self) -> Any:
        self.walks += 1
        return super().items()


def test_no_update_copies_or_walks_earlier_entries() -> None:
    builder = TableBuilder(apply(table(), *[snapshot(id) for id in range(1, 20)]), creates=False, now_ms=NOW)
    counted = {
        "properties": _CountedDict(builder.made["properties"]),
        "snapshots": _CountedDict(builder.snapshots.by_id),
        "refs": _CountedDict(builder.snapshots.refs),
    }
    builder.made["properties"] = counted["properties"]
    builder.snapshots.by_id, builder.snapshots.refs = counted["snapshots"], counted["refs"]
    told = [{"action": "set-properties", "updates": {f"name-{number}": "x"}} for number in range(50)]
    told += [{"action": "remove-properties", "removals": [f"name-{number}"]} for number in range(25)]
    told += [snapshot(id) for id in range(100, 150)]
    told += [to_main(id) for id in range(100, 150)]
    told += [{**to_main(id), "ref-name": f"branch-{id}"} for id in range(100, 150)]
    for update in read_updates([msgspec.Raw(msgspec.json.encode(one)) for one in told]):
        builder.apply(update)
    assert builder.made["properties"] is counted["properties"]
    assert builder.snapshots.by_id is counted["snapshots"] and builder.snapshots.refs is counted["refs"]
    assert {name: one.walks for name, one in counted.items() if one.walks} == {}
    assert (len(counted["properties"]), len(counted["snapshots"]), len(counted["refs"])) == (25, 69, 51)


def test_an_update_without_an_implementation_is_an_error() -> None:
    class Unheard(msgspec.Struct):
        pass

    with pytest.raises(NotImplementedError, match="Unheard"):
        updated(table(), None, [Unheard()], 1)  # type: ignore[list-item]
