"""What callers send to a catalog: accepted in one form, or refused with the field and the remedy."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.persistence.log.committed_requests import RequestKey
from headwater.producer.commits.commit_meta import CommitMeta, check_meta, check_request_id
from headwater.producer.commits.operations import Delete, Put, Rename, Unchanged, prepare
from headwater.producer.commits.operations_json import operations_from_json, parse_operations
from headwater.producer.content.content_types import (
    CONTENT_TYPES,
    OTHER_TAG,
    AnyContent,
    ContentType,
    ContentTypes,
    DeltaTable,
    IcebergTable,
    IcebergView,
    Namespace,
    OtherContent,
    Udf,
    from_value,
    to_value,
    typed_value,
)
from headwater.producer.json_safety import VALUE_BYTES_MAX, check_value, same_value
from headwater.schemas.errors import DuplicateRegistration, InvalidInput

TABLE = IcebergTable("s3://bucket/metadata.json", 1, 0, 0, 0)
UUID = "0189fc36-5f0a-4c5e-9f0d-3a4b5c6d7e8f"


@pytest.mark.parametrize(
    "content",
    [
        TABLE,
        IcebergTable("s3://only-a-location"),
        IcebergView("s3://v", 3, 1),
        DeltaTable(["s3://m1"], ["s3://c1"], "7"),
        Udf(metadata_location="s3://f", version_id="v", signature_id="s"),
        Udf(sql_text="SELECT 1", dialect="SPARK"),
        Namespace({"owner": "ada"}),
        Namespace(),
        OtherContent("PAIMON_TABLE", {"anything": [1, 2.5, None, True]}),
    ],
)
def test_content_survives_a_round_trip_through_its_value(content: AnyContent) -> None:
    typed = to_value(content)
    assert from_value(typed.type, typed.value) == content
    assert typed_value(typed.type, typed.value) == typed
    assert msgspec.json.decode(msgspec.json.encode(typed.value)) == typed.value


def test_tags_and_names_of_the_built_in_types_never_change() -> None:
    assert {name: CONTENT_TYPES.tag_of(name) for name in CONTENT_TYPES.names()} == {
        "NAMESPACE": 1,
        "ICEBERG_TABLE": 2,
        "ICEBERG_VIEW": 3,
        "DELTA_TABLE": 4,
        "UDF": 5,
    }
    assert CONTENT_TYPES.tag_of("PAIMON_TABLE") == OTHER_TAG
    assert CONTENT_TYPES.name_of(OTHER_TAG) is None


def test_two_plug_ins_cannot_claim_one_name_or_one_tag() -> None:
    class Paimon(msgspec.Struct, frozen=True):
        location: str

    types = ContentTypes()
    paimon = types.register(ContentType("PAIMON_TABLE", 64, Paimon))
    assert types.register(paimon) is paimon
    for other in (ContentType("PAIMON_TABLE", 65, Namespace), ContentType("HUDI_TABLE", 64, Namespace)):
        with pytest.raises(DuplicateRegistration):
            types.register(other)
    with pytest.raises(InvalidInput, match="255 is not a tag"):
        types.register(ContentType("HUDI_TABLE", 255, Namespace))


@pytest.mark.parametrize(
    ("content", "field"),
    [
        (IcebergTable("   "), "content.metadata_location"),
        (IcebergTable("s3://x", snapshot_id=2**63), "content.snapshot_id"),
        (IcebergTable("s3://x", schema_id="zero"), "content.schema_id"),  # type: ignore[arg-type]
        (Namespace({"owner": 7}), "content.properties[...]"),  # type: ignore[dict-item]
        (Udf(), "content"),
        (OtherContent("lower case", {}), "content"),
        (OtherContent("ICEBERG_TABLE", {"metadata_location": "s3://x", "snapshot": 1}), "content"),
        (OtherContent("ICEBERG_TABLE", {}), "content"),
        (OtherContent("ICEBERG_TABLE", [1]), "content"),  # type: ignore[arg-type]
        (OtherContent("X", {"a": {"b": [math.nan]}}), "content.a.b[0]"),
        (OtherContent("X", {"a": math.inf}), "content.a"),
        (OtherContent("X", {"a": 2**63}), "content.a"),
        (OtherContent("X", {"a": b"bytes"}), "content.a"),
        (OtherContent("X", {1: "a"}), "content"),  # type: ignore[dict-item]
        (OtherContent("X", {"a": "\ud800"}), "content.a"),
        (IcebergTable("s3://\ud800"), "content"),
        (OtherContent("X", {"a": "x" * VALUE_BYTES_MAX}), "content"),
        (Namespace({"a": "x" * VALUE_BYTES_MAX}), "content"),
        (CommitMeta("not content"), "content"),
    ],
)
def test_bad_content_is_refused_with_field_and_remedy(content: AnyContent, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        to_value(content)
    assert refused.value.field == field
    assert refused.value.remedy


def test_a_value_is_not_nested_without_end() -> None:
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        check_value(deep, "content")


def test_one_and_true_and_one_point_zero_are_different_values() -> None:
    assert same_value({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same_value({"a": 1}, {"a": True})
    assert not same_value({"a": 1}, {"a": 1.0})


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────


def test_content_ids_are_fixed_when_operations_are_prepared() -> None:
    first, second = prepare([Put(("a",), TABLE), Put(("b",), TABLE, content_id=UUID)]).operations
    assert len(first.content_id) == 16 and first.content_id[6] >> 4 == 4
    assert second.content_id.hex() == UUID.replace("-", "") and second.content_id_is_callers


@pytest.mark.parametrize(
    ("operations", "field"),
    [
        ([], "operations"),
        ([Put(("a",), TABLE), Delete(("a",))], "operations[1].key"),
        ([Rename(("a",), ("b",)), Unchanged(("b",))], "operations[1].key"),
        ([Rename(("a",), ("a",))], "operations[0].key"),
        ([Put("a.b", TABLE)], "operations[0].key"),
        ([Put((), TABLE)], "operations[0].key"),
        ([Put(("a", ""), TABLE)], "operations[0].key"),
        ([Put(("a", "x" * 501), TABLE)], "operations[0].key"),
        ([Put(("a\0b",), TABLE)], "operations[0].key"),
        ([Put((7,), TABLE)], "operations[0].key"),
        ([Put(tuple("abcdefghijklmnopqrstuvw"), TABLE)], "operations[0].key"),
        ([Put(("a",), TABLE, expected=TABLE, must_not_exist=True)], "operations[0]"),
        ([Put(("a",), TABLE, expected=IcebergTable(""))], "operations[0].expected.metadata_location"),
        ([Put(("a",), TABLE, content_id="7")], "operations[0].content_id"),
        ([Delete(("a",), expected_content_id=UUID.replace("-", ""))], "operations[0].expected_content_id"),
        (["put"], "operations[0]"),
    ],
)
def test_bad_operations_are_refused_with_field_and_remedy(operations: list[object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        prepare(operations)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.remedy


def test_operations_are_read_from_json() -> None:
    text = """{"operations": [
      {"op": "put", "key": ["db", "t"], "type": "ICEBERG_TABLE", "content": {"metadata_location": "s3://2"},
       "expected": {"metadata_location": "s3://1"}, "content_id": "0189fc36-5f0a-4c5e-9f0d-3a4b5c6d7e8f"},
      {"op": "put", "key": ["db", "n"], "type": "NAMESPACE", "content": {}, "must_not_exist": true},
      {"op": "delete", "key": ["db", "u"], "expected_content_id": "0189fc36-5f0a-4c5e-9f0d-3a4b5c6d7e8f"},
      {"op": "rename", "from_key": ["db", "v"], "key": ["db", "w"]},
      {"op": "unchanged", "key": ["db"], "type": "NAMESPACE", "expected": {}}]}"""
    put, create, delete, rename, unchanged = prepare(parse_operations(text)).operations
    assert put.content is not None and put.content.value == {"metadata_location": "s3://2"}
    assert put.expected is not None and put.expected.value == {"metadata_location": "s3://1"}
    assert create.must_not_exist and delete.expected_content_id and rename.from_key == ("db", "v")
    assert unchanged.op is None and unchanged.expected is not None


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "operations"),
        (b"\xff\xfe", "operations"),
        ("7", "operations"),
        ('{"op": "put"}', "operations"),
        ("[7]", "operations[0]"),
        ('[{"op": "replace", "key": ["a"]}]', "operations[0].op"),
        ('[{"op": ["put"], "key": ["a"]}]', "operations[0].op"),
        ('[{"op": "delete"}]', "operations[0]"),
        ('[{"op": "delete", "key": "a"}]', "operations[0].key"),
        ('[{"op": "delete", "key": ["a"], "content": {}}]', "operations[0]"),
        ('[{"op": "rename", "key": ["a"]}]', "operations[0]"),
        ('[{"op": "put", "key": ["a"], "content": {}}]', "operations[0]"),
        ('[{"op": "put", "key": ["a"], "type": 7, "content": {}}]', "operations[0].content"),
        ('[{"op": "put", "key": ["a"], "type": "X", "content": {}, "must_not_exist": 1}]', "operations[0].must_not_exist"),
        ('[{"op": "delete", "key": ["a"], "expected": {}}]', "operations[0].expected"),
        ('[{"op": "delete", "key": ["a"], "expected_content_id": 7}]', "operations[0].expected_content_id"),
        ('[{"op": "delete", "key": [7]}]', "operations[0].key"),
    ],
)
def test_bad_json_is_refused_with_field_and_remedy(text: str | bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        prepare(parse_operations(text))
    assert refused.value.field == field
    assert refused.value.remedy


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OPERATION = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["put", "delete", "rename", "unchanged"]) | JSON,
        "key": st.just(["a"]) | JSON,
        "from_key": st.just(["b"]) | JSON,
        "type": st.sampled_from(["ICEBERG_TABLE", "NAMESPACE", "X"]) | JSON,
        "content": JSON,
        "expected": JSON,
        "content_id": JSON,
        "must_not_exist": JSON,
    },
)


@given(st.lists(OPERATION, max_size=2) | JSON)
def test_any_json_is_accepted_or_refused_as_invalid_input(decoded: object) -> None:
    try:
        prepare(operations_from_json(decoded))
    except InvalidInput as refused:
        assert refused.field and refused.remedy


# ── meta ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        (CommitMeta(""), "author"),
        (CommitMeta("  "), "author"),
        (CommitMeta("a" * 513), "author"),
        (CommitMeta("ada", "m" * 16_385), "message"),
        (CommitMeta("ada", 7), "message"),  # type: ignore[arg-type]
        (CommitMeta("ada", "\ud800"), "message"),
        (CommitMeta("ada", "", {"a": 7}), "headers.a"),  # type: ignore[dict-item]
        (CommitMeta("ada", "", {"": "x"}), "headers"),
        (CommitMeta("ada", "", {str(number): "" for number in range(101)}), "headers"),
        (CommitMeta("ada", "", {"a": "x" * 10_000, "b": "x" * 10_000}), "headers"),
    ],
)
def test_bad_commit_meta_is_refused_with_field_and_remedy(meta: CommitMeta, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_meta(meta)
    assert refused.value.field == field
    assert refused.value.remedy


def test_a_request_id_is_the_callers_or_a_fresh_one() -> None:
    assert check_request_id("mine") == ("mine", True, b"")
    assert check_request_id(RequestKey("mine", b"print")) == ("mine", True, b"print")
    assert check_request_id(None)[0] != check_request_id(None)[0]
    with pytest.raises(InvalidInput):
        check_request_id(" ")
    with pytest.raises(InvalidInput):
        check_request_id("x" * 257)
