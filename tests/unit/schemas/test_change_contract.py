"""The Change on the wire: golden bytes of version 1, and both directions between it and a later version."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest

from headwater.schemas.avro.avro_codec import CHANGE_SCHEMA, from_avro, to_avro
from headwater.schemas.change import Change, Kind
from headwater.schemas.errors import InvalidInput
from headwater.schemas.protobuf.protobuf_codec import from_protobuf, to_protobuf
from headwater.schemas.protobuf.protobuf_schema import file_descriptor, proto_text
from tests.support.models.changes_sample import FULL_CHANGE

ROOT = Path(__file__).resolve().parents[3]
GOLDEN_AVRO = ROOT / "tests" / "golden" / "change-v1.avro"
GOLDEN_PROTOBUF = ROOT / "tests" / "golden" / "change-v1.pb"
GOLDEN_JSON = ROOT / "tests" / "golden" / "change-v1.json"


def next_schema() -> dict[str, Any]:
    """What a later version might look like: one field more in the Change and in its operations."""
    schema = copy.deepcopy(CHANGE_SCHEMA)
    schema["fields"].append({"name": "region", "type": "string", "default": "eu"})
    operations = next(field for field in schema["fields"] if field["name"] == "operations")
    operations["type"]["items"]["fields"].append({"name": "cost", "type": "long", "default": 0})
    return schema


def test_the_checked_in_schema_is_the_one_derived_from_the_structs() -> None:
    assert json.loads((ROOT / "schemas" / "avro" / "change-v1.avsc").read_text()) == CHANGE_SCHEMA


def test_avro_is_what_version_1_wrote() -> None:
    assert to_avro(FULL_CHANGE) == GOLDEN_AVRO.read_bytes()
    assert from_avro(GOLDEN_AVRO.read_bytes()) == FULL_CHANGE


def test_the_checked_in_proto_file_is_the_one_derived_from_the_structs() -> None:
    assert (ROOT / "schemas" / "protobuf" / "change-v1.proto").read_text() == proto_text(file_descriptor())


def test_protobuf_is_what_version_1_wrote() -> None:
    assert to_protobuf(FULL_CHANGE) == GOLDEN_PROTOBUF.read_bytes()
    assert from_protobuf(GOLDEN_PROTOBUF.read_bytes()) == FULL_CHANGE


def test_protobuf_of_a_later_version_is_read_without_its_new_fields() -> None:
    new_field = bytes([(100 << 3 | 2) & 0x7F | 0x80, (100 << 3 | 2) >> 7, 2]) + b"us"
    assert from_protobuf(GOLDEN_PROTOBUF.read_bytes() + new_field) == FULL_CHANGE


def test_bytes_that_are_no_protobuf_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no Change"):
        from_protobuf(b"\xff\xff\xff")


def test_json_is_what_version_1_wrote() -> None:
    assert msgspec.json.encode(FULL_CHANGE) == GOLDEN_JSON.read_bytes().strip()
    assert msgspec.json.decode(GOLDEN_JSON.read_bytes(), type=Change) == FULL_CHANGE


def test_version_1_reads_what_the_next_version_writes() -> None:
    schema = next_schema()
    old = fastavro.schemaless_reader(
        io.BytesIO(GOLDEN_AVRO.read_bytes()), fastavro.parse_schema(copy.deepcopy(CHANGE_SCHEMA)), None
    )
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(copy.deepcopy(schema)), old | {"region": "us"})
    assert from_avro(buffer.getvalue(), schema) == FULL_CHANGE


def test_the_next_version_reads_what_version_1_wrote() -> None:
    read = fastavro.schemaless_reader(
        io.BytesIO(GOLDEN_AVRO.read_bytes()),
        fastavro.parse_schema(copy.deepcopy(CHANGE_SCHEMA)),
        fastavro.parse_schema(next_schema()),
    )
    assert read["region"] == "eu"
    assert [operation["cost"] for operation in read["operations"]] == [0, 0]


def test_unknown_fields_of_json_are_skipped() -> None:
    later = json.loads(GOLDEN_JSON.read_bytes()) | {"region": "us"}
    assert msgspec.json.decode(json.dumps(later), type=Change) == FULL_CHANGE


@pytest.mark.parametrize(
    "encode_decode",
    [
        lambda c: from_avro(to_avro(c)),
        lambda c: from_protobuf(to_protobuf(c)),
        lambda c: msgspec.json.decode(msgspec.json.encode(c), type=Change),
    ],
)
def test_unknown_kinds_and_types_are_carried(encode_decode: Any) -> None:
    operation = msgspec.structs.replace(
        FULL_CHANGE.operations[0], op=type(FULL_CHANGE.operations[0].op)("compact"), type="PAIMON"
    )
    later = msgspec.structs.replace(FULL_CHANGE, kind=Kind("rollback"), operations=(operation,))
    read = encode_decode(later)
    assert read == later
    assert read.kind not in list(Kind)
