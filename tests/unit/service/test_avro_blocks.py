"""Manifests that are made to exhaust the server are refused before anything is made of them."""

from __future__ import annotations

import bz2
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from bench.file_tables import added_entry
from headwater.schemas.errors import MalformedMetadata
from headwater.service.planning.avro_blocks import ENTRIES_MAX, _long, _map, unpacked
from headwater.service.planning.manifest_reader import ManifestReader
from headwater.service.storage.files import LocalFiles
from headwater.service.storage.locations import Warehouse

SYNC = b"s" * 16
PLAIN = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}


def avro(data: bytes, *, count: int = 1, codec: str = "null", schema: Any = PLAIN) -> bytes:
    meta = _map({b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec.encode()})
    return b"Obj\x01" + meta + SYNC + _long(count) + _long(len(data)) + data + SYNC


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


BYTES_MAX = 1_000_000
HUGE = bytes(BYTES_MAX + 10)
NOTHING: dict[str, Any] = {"type": "record", "name": "nothing", "fields": []}
NO_BYTES, A_MAP = {"type": "fixed", "name": "none", "size": 0}, {"type": "map", "values": "nothing"}


def field(type: Any) -> dict[str, Any]:
    return {"name": "a", "type": type}


def listing(items: Any) -> dict[str, Any]:
    return PLAIN | {"fields": [field({"type": "array", "items": items})]}


REFUSED = {
    "kilobytes that unpack to gigabytes": lambda: avro(deflated(HUGE), codec="deflate"),
    "the same in another codec": lambda: avro(bz2.compress(HUGE), codec="bzip2"),
    "more entries than bytes": lambda: avro(b"12", count=2**40),
    "more entries than any manifest has": lambda: avro(bytes(ENTRIES_MAX + 1), count=ENTRIES_MAX + 1),
    "fewer than none": lambda: avro(b"12", count=-1),
    "a list of nothing": lambda: avro(b"\x02", schema=listing("null")),
    "a list of empty records": lambda: avro(b"\x02", schema=listing(NOTHING)),
    "a map of a named empty record": lambda: avro(b"\x02", schema=PLAIN | {"fields": [field(NOTHING), field(A_MAP)]}),
    "a list of records of nothing": lambda: avro(b"\x02", schema=listing(NOTHING | {"fields": [field(NO_BYTES)]})),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_block_that_decompresses_beyond_its_limit_is_refused(name: str) -> None:
    with pytest.raises(MalformedMetadata):
        unpacked("m.avro", REFUSED[name](), BYTES_MAX)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_real_manifests_are_read_as_before(tmp_path: Path, codec: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    output = PyArrowFileIO().new_output((tmp_path / "m.avro").as_uri())
    with write_manifest(2, UNPARTITIONED_PARTITION_SPEC, schema, output, 1, "gzip" if codec == "deflate" else codec) as writer:
        for number in range(300):
            writer.add_entry(added_entry(f"{tmp_path.as_uri()}/{number}.parquet", 1_000))
    reader = ManifestReader(Warehouse(tmp_path.as_uri()), LocalFiles())
    entries = reader.entries(writer.to_manifest_file())
    assert [one.data_file.file_path.rpartition("/")[2] for one in entries] == [f"{number}.parquet" for number in range(300)]


def test_a_list_of_manifests_obeys_the_same_bounds(tmp_path: Path) -> None:
    bomb = tmp_path / "list.avro"
    bomb.write_bytes(avro(b"12", count=2**40))
    reader = ManifestReader(Warehouse(tmp_path.as_uri()), LocalFiles())
    with pytest.raises(MalformedMetadata, match="holds more than"):
        reader.manifests(bomb.as_uri())
