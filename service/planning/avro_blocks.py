"""Decompresses the blocks of an Avro file within limits, before they are decoded.

⚠ Any writer of a table writes its manifests. Kilobytes may decompress to gigabytes, and values of no bytes (an empty record,
null) repeat as often as a count claims.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow

from headwater.schemas.errors import MalformedMetadata

UNPACKED_BYTES_MAX = 256 * 1024 * 1024
"""Decompressed bytes per file."""
ENTRIES_MAX = 250_000
"""Entries per file. A decoded entry takes about two kilobytes."""
_MAGIC, _SYNC_BYTES = b"Obj\x01", 16
_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"
_NESTING_MAX = 50


def unpacked(location: str, content: bytes, bytes_max: int = UNPACKED_BYTES_MAX) -> bytes:
    """The same file with plain blocks; `MalformedMetadata` for one that is larger than any real one."""
    reader = _Reader(content)
    if reader.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is no Avro file")
    meta = dict(reader.pairs())
    sync = reader.take(_SYNC_BYTES)
    if _repeats_nothing(msgspec.json.decode(meta[_SCHEMA])):
        raise _too_large(location)
    codec = meta.get(_CODEC, b"null").decode()
    blocks, entries, size = [], 0, 0
    while not reader.is_at_end:
        count, packed = reader.long(), reader.take(reader.long())
        plain = _plain(codec, packed, bytes_max - size + 1)
        entries, size = entries + count, size + len(plain)
        if size > bytes_max or entries > ENTRIES_MAX or not 0 <= count <= len(plain):
            raise _too_large(location)
        if reader.take(_SYNC_BYTES) != sync:
            raise ValueError("a block does not end as it should")
        blocks.append(_long(count) + _long(len(plain)) + plain + sync)
    header = _map({**meta, _CODEC: b"null"})
    return b"".join((_MAGIC, header, sync, *blocks))


def with_fixed_as_bytes(content: bytes) -> tuple[bytes, dict[int, int]] | None:
    """An unpacked manifest whose schema says `bytes` of fixed partition values, and their sizes by position; None without any.

    Iceberg's Java library says `fixed` of them, and writes them with their length."""
    reader = _Reader(content)
    reader.take(len(_MAGIC))
    meta = dict(reader.pairs())
    schema = msgspec.json.decode(meta[_SCHEMA])
    file = next(one["type"] for one in schema["fields"] if one["name"] == "data_file")
    partition = next(one["type"] for one in file["fields"] if one["name"] == "partition")
    sizes: dict[int, int] = {}
    for number, field in enumerate(partition["fields"]):
        for at, branch in enumerate(field["type"] if isinstance(field["type"], list) else ()):
            if isinstance(branch, dict) and branch.get("type") == "fixed" and "logicalType" not in branch:
                field["type"][at], sizes[number] = "bytes", branch["size"]
    header = _map({**meta, _SCHEMA: msgspec.json.encode(schema)})
    return (b"".join((_MAGIC, header, reader.rest())), sizes) if sizes else None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._content)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._content):
            raise ValueError("it ends too early")
        found, self._at = self._content[self._at : end], end
        return found

    def rest(self) -> bytes:
        return self._content[self._at :]

    def long(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number is too long")

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        while count := self.long():
            if count < 0:
                count = -count
                self.long()
            for _ in range(count):
                yield self.take(self.long()), self.take(self.long())


def _plain(codec: str, packed: bytes, bytes_max: int) -> bytes:
    if codec == "null":
        return packed
    if codec == "deflate":
        return zlib.decompressobj(-15).decompress(packed, bytes_max)
    if codec == "bzip2":
        return bz2.BZ2Decompressor().decompress(packed, bytes_max)
    if codec == "zstandard":
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd") as reader:
            return bytes(reader.read(bytes_max))
    raise ValueError(f"codec {codec[:40]!r} is not read here")


def _repeats_nothing(schema: Any) -> bool:
    """Whether it has a list or map whose items take no bytes."""
    named: dict[str, Any] = {}

    def is_nothing(one: Any, depth: int) -> bool:
        if depth > _NESTING_MAX:
            raise ValueError("its schema is nested too deeply")
        if isinstance(one, str):
            return one == "null" or (one in named and is_nothing(named[one], depth + 1))
        if not isinstance(one, dict):
            return False  # a union says which it is
        kind = one.get("type")
        if kind == "record":
            return all(is_nothing(field["type"], depth + 1) for field in one["fields"])
        if kind == "fixed":
            return not one["size"]
        return kind not in ("array", "map", "enum") and is_nothing(kind, depth + 1)

    def walk(one: Any, depth: int) -> bool:
        if depth > _NESTING_MAX:
            raise ValueError("its schema is nested too deeply")
        if isinstance(one, list):
            return any(walk(branch, depth + 1) for branch in one)
        if not isinstance(one, dict):
            return False
        if "name" in one:
            named[str(one["name"])] = one
        if one.get("type") in ("array", "map"):
            items = one.get("items", one.get("values"))
            return walk(items, depth + 1) or is_nothing(items, depth + 1)
        if one.get("type") == "record":
            return any(walk(field["type"], depth + 1) for field in one["fields"])
        return walk(one.get("type"), depth + 1)

    return walk(schema, 0)


def _map(values: dict[bytes, bytes]) -> bytes:
    pairs = b"".join(_long(len(name)) + name + _long(len(value)) + value for name, value in values.items())
    return _long(len(values)) + pairs + b"\0"


def _long(value: int) -> bytes:
    found, value = bytearray(), (value << 1) ^ (value >> 63)
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _too_large(location: str) -> MalformedMetadata:
    return MalformedMetadata(
        f"{location[:200]} holds more than a manifest does.", field="manifest", remedy="Rewrite the table's manifests."
    )
