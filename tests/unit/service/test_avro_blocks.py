"""Manifests that are made to exhaust the server are refused before anything is made of them."""

from __future__ import annotations

import bz2
import contextlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile, write_manifest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import FixedType, LongType, NestedField

from bench.file_tables import added_entry
from headwater.schemas.errors import MalformedMetadata
from headwater.service.planning.avro_blocks import ENTRIES_MAX, _long, _map, _Reader, unpacked
from headwater.service.planning.bounded_avro import BoundedDecoder
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


def manifest_of(folder: Path, files: int) -> tuple[ManifestFile, Path]:
    path = folder / "m.avro"
    schema = Schema(NestedField(1, "id", LongType()))
    with write_manifest(
        2, UNPARTITIONED_PARTITION_SPEC, schema, PyArrowFileIO().new_output(path.as_uri()), 1, "null"
    ) as writer:
        for number in range(files):
            bounds = {1: number.to_bytes(8, "little")}
            writer.add_entry(added_entry(f"{folder.as_uri()}/{number:08}.parquet", 1_000, lower_bounds=bounds))
    return writer.to_manifest_file(), path


def test_a_path_that_claims_to_be_longer_than_its_block_is_no_window_into_the_process(tmp_path: Path) -> None:
    manifest, path = manifest_of(tmp_path, 3)
    last = f"{tmp_path.as_uri()}/00000002.parquet".encode()
    honest, claimed = _long(len(last)), _long(8_000)
    assert len(honest) == len(claimed) and path.read_bytes().count(honest + last) == 1
    path.write_bytes(path.read_bytes().replace(honest + last, claimed + last))
    with pytest.raises(MalformedMetadata) as refused:
        ManifestReader(Warehouse(tmp_path.as_uri()), LocalFiles()).entries(manifest)
    assert isinstance(refused.value.__cause__, EOFError), "for its length, and not for what was found behind the block"


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xff", b"\xff" * 20, b"\xd0\x0fab", b"\x01", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
)
def test_the_decoder_reads_nothing_behind_its_end(content: bytes) -> None:
    """A length that is too long, negative, or never ends."""
    for read in (BoundedDecoder.read_bytes, BoundedDecoder.skip_bytes, lambda one: one.read_int_bytes_dict(1, {})):
        decoder = BoundedDecoder(content)
        with contextlib.suppress(EOFError, IndexError, ValueError):
            assert read(decoder) in (b"", None)
        assert decoder.tell() <= len(content)


@given(at=st.integers(0, 2_000), byte=st.integers(0, 255))
@settings(max_examples=40)
def test_a_manifest_with_a_wrong_byte_is_refused_or_read_within_its_bounds(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    folder = tmp_path_factory.mktemp("mutated")
    manifest, path = manifest_of(folder, 3)
    content = bytearray(path.read_bytes())
    content[len(content) - 1 - at % len(content)] = byte
    path.write_bytes(content)
    try:
        entries = ManifestReader(Warehouse(folder.as_uri()), LocalFiles()).entries(manifest)
    except MalformedMetadata:
        return
    for entry in entries:
        assert entry.data_file.file_path.encode() in content


def test_fixed_partition_values_that_java_writes_with_their_length_are_read(tmp_path: Path) -> None:
    """Iceberg's Java library says `fixed` of them in the schema, and writes them as `bytes`."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "code", FixedType(4)))
    spec = PartitionSpec(PartitionField(2, 1_000, IdentityTransform(), "code"))
    path = tmp_path / "m.avro"
    with write_manifest(2, spec, schema, PyArrowFileIO().new_output(path.as_uri()), 1, "null") as writer:
        for number in range(3):
            entry = added_entry(f"{tmp_path.as_uri()}/{number}.parquet", 1_000)
            entry.data_file._data[3] = Record(b"abc" + bytes([65 + number]))
            writer.add_entry(entry)
    reader = ManifestReader(Warehouse(tmp_path.as_uri()), LocalFiles())
    honest = reader.entries(writer.to_manifest_file())
    content = path.read_bytes()
    sync = content[-16:]
    begin = content.index(sync) + 16
    blocks, written = _Reader(content[begin:]), content[:begin]
    while not blocks.is_at_end:
        count, data = blocks.long(), blocks.take(blocks.long())
        for number in range(3):
            value = b"abc" + bytes([65 + number])
            data = data.replace(value, _long(4) + value)
        written += _long(count) + _long(len(data)) + data + blocks.take(16)
    path.write_bytes(written)
    as_java = ManifestReader(Warehouse(tmp_path.as_uri()), LocalFiles()).entries(writer.to_manifest_file())
    assert [one.data_file.partition for one in as_java] == [one.data_file.partition for one in honest]
    assert [one.data_file.record_count for one in as_java] == [one.data_file.record_count for one in honest]


def test_a_list_of_manifests_obeys_the_same_bounds(tmp_path: Path) -> None:
    bomb = tmp_path / "list.avro"
    bomb.write_bytes(avro(b"12", count=2**40))
    reader = ManifestReader(Warehouse(tmp_path.as_uri()), LocalFiles())
    with pytest.raises(MalformedMetadata, match="holds more than"):
        reader.manifests(bomb.as_uri())
