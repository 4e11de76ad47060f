"""Encodes a typed object as checksummed rows of at most 350 kB; decoding proves that nothing is torn or flipped.

Payload of an object: format version (1 byte), CRC-32 over type, id and body (4 bytes), body (msgpack).
A big object's payload is cut into parts that share its id; part 0 knows their number.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from headwater.persistence.objects.object_types import Life, ObjectType
from headwater.persistence.rows import ROW_BYTES_MAX, ObjectRow
from headwater.schemas.errors import ChecksumMismatch, IdOutOfRange, ObjectTooLarge, TornObject, WrongObjectType

T = TypeVar("T", bound=msgspec.Struct)

FORMAT = 1
OBJECT_ID_MAX = 2**63 - 1
_HEADER = struct.Struct(">BI")


class Opaque(msgspec.Struct, frozen=True):
    """An object of a type that is not registered here: carried, not understood."""

    type: str
    body: bytes


def encode(object_type: ObjectType[T], id: int, value: T, created_at: int) -> ObjectRow:
    """One row, or `ObjectTooLarge`: what strong writes use."""
    payload = _payload(object_type, id, value)
    if len(payload) > ROW_BYTES_MAX:
        raise ObjectTooLarge(
            f"{object_type.name} object of {len(payload)} bytes is over the row limit of {ROW_BYTES_MAX}.",
            field="object",
            remedy="Write it eventually, in parts, or make it smaller.",
            bytes=len(payload),
            bytes_max=ROW_BYTES_MAX,
        )
    return ObjectRow(id, object_type.name, created_at, payload)


def encode_in_parts(object_type: ObjectType[T], id: int, value: T, created_at: int) -> list[ObjectRow]:
    """As many rows as it takes: what eventual writes use. Part 0 comes last, so that it is never there without the others."""
    payload = _payload(object_type, id, value)
    if len(payload) <= ROW_BYTES_MAX:
        return [ObjectRow(id, object_type.name, created_at, payload)]
    cuts = range(0, len(payload), ROW_BYTES_MAX)
    return [
        ObjectRow(id, object_type.name, created_at, payload[cut : cut + ROW_BYTES_MAX], part, len(cuts))
        for part, cut in reversed(list(enumerate(cuts)))
    ]


def parts_of(object_type: ObjectType[T], id: int, value: T) -> int:
    """How many rows `encode_in_parts` makes of it."""
    return max(1, -(-len(_payload(object_type, id, value)) // ROW_BYTES_MAX))


def decode(object_type: ObjectType[T], rows: Sequence[ObjectRow]) -> T:
    """The value of one object from all its rows."""
    first = rows[0]
    if first.type != object_type.name:
        raise WrongObjectType(
            f"object {first.id} is a {first.type!r}, not a {object_type.name!r}.", object_id=first.id, type=first.type
        )
    body = checked_body(rows)
    try:
        return object_type.decode_body(body)
    except msgspec.DecodeError as error:
        raise ChecksumMismatch(
            f"object {first.id} does not decode as {object_type.name!r}: {error}", object_id=first.id
        ) from error


def checked_body(rows: Sequence[ObjectRow]) -> bytes:
    """Join the parts, verify the checksum, strip the header."""
    first = rows[0]
    payload = first.payload if first.parts == 1 and len(rows) == 1 else _join(rows)
    if len(payload) < _HEADER.size:
        raise TornObject(f"object {first.id} has only {len(payload)} bytes.", object_id=first.id)
    version, checksum = _HEADER.unpack_from(payload)
    if version != FORMAT:
        raise ChecksumMismatch(f"object {first.id} is of format {version}; this version reads {FORMAT}.", object_id=first.id)
    body = payload[_HEADER.size :]
    if checksum != _checksum(first.type, first.id, body):
        raise ChecksumMismatch(f"object {first.id} ({first.type}) fails its checksum.", object_id=first.id)
    return body


def _payload(object_type: ObjectType[T], id: int, value: T) -> bytes:
    if not 0 < (-id if object_type.life is Life.ATTACHED else id) <= OBJECT_ID_MAX:
        raise IdOutOfRange(f"{id} is not an object id.", field="id", remedy=f"Ids are 1 to {OBJECT_ID_MAX}.")
    if type(value) is not object_type.struct:
        raise WrongObjectType(
            f"a {type(value).__name__} is not the struct of object type {object_type.name!r}.", type=object_type.name
        )
    body = object_type.encode_body(value)
    return _HEADER.pack(FORMAT, _checksum(object_type.name, id, body)) + body


def _checksum(type: str, id: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(b"%s\0%d\0" % (type.encode(), id)))


def _join(rows: Sequence[ObjectRow]) -> bytes:
    first = rows[0]
    if first.part != 0 or len(rows) != first.parts or any(row.part != n for n, row in enumerate(rows)):
        there = [row.part for row in rows]
        raise TornObject(
            f"object {first.id} ({first.type}) has parts {there}, but {first.parts} were written.", object_id=first.id
        )
    return b"".join(row.payload for row in rows)
