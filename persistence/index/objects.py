"""The immutable objects of an index: the stripe, the directory of a level's stripes, and the root.

A stripe holds sorted keys with packed values. A level of one stripe is that stripe; a longer one is a directory. The root, ids
only, is what a log entry embeds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, overload

import msgspec

from headwater.persistence.index import columns
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.schemas.errors import IdOutOfRange

T = TypeVar("T")

DELETED = bytes(columns.VALUE_BYTES)
"""A tombstone: hides the key in all levels below, and is dropped in the last."""

_VALUE = struct.Struct(">QB")
_DECODED_BYTES_PER_ELEMENT = 150
"""About what CPython takes for one decoded key and value, their list slots included."""


class IndexValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a key leads to: a content object, and a small number for its type."""

    object_id: int
    tag: int


class IndexRoot(msgspec.Struct, frozen=True, array_like=True):
    """The state below the tail: one object id per level, newest first, 0 for an empty level."""

    levels: tuple[int, ...] = ()


class StripeRef(NamedTuple):
    """A level's reference to one of its stripes."""

    first: bytes
    id: int
    length: int
    """Elements, tombstones included."""
    deleted: int
    """How many of them are tombstones."""
    weight: int


class _Decoded(Generic[T]):
    """An attribute computed at first use and kept. Two threads may both compute it; they get equal values."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> _Decoded[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | _Decoded[T]:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class Stripe(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Up to some thousand neighbouring elements of one level, in two compressed columns."""

    count: int
    deleted: int
    weight: int
    """Bytes before compression: what capacities and splits go by, because it is the same under every zlib."""
    key_column: bytes
    value_column: bytes

    @_Decoded
    def keys(self: Stripe) -> list[bytes]:
        return columns.unpack_keys(self.key_column, self.count)

    @_Decoded
    def values(self: Stripe) -> list[bytes]:
        return columns.unpack_fixed(self.value_column, self.count, columns.VALUE_BYTES)

    @property
    def memory_bytes(self) -> int:
        """For a cache that is bounded by bytes: columns and what decoding them adds."""
        return len(self.key_column) + len(self.value_column) + self.weight + self.count * _DECODED_BYTES_PER_ELEMENT


class Directory(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The stripes of one level: first key, id, elements, tombstones and weight of each."""

    count: int
    first_column: bytes
    id_column: bytes
    counts: tuple[int, ...]
    deleted: tuple[int, ...]
    weights: tuple[int, ...]

    @_Decoded
    def firsts(self: Directory) -> list[bytes]:
        return columns.unpack_keys(self.first_column, self.count)

    @_Decoded
    def refs(self: Directory) -> list[StripeRef]:
        ids = [int.from_bytes(cell, "big") for cell in columns.unpack_fixed(self.id_column, self.count, 8)]
        return [StripeRef(*ref) for ref in zip(self.firsts, ids, self.counts, self.deleted, self.weights, strict=True)]

    @property
    def memory_bytes(self) -> int:
        return len(self.first_column) * 4 + len(self.id_column) + self.count * _DECODED_BYTES_PER_ELEMENT * 2


IndexObject = Stripe | Directory

Load = Callable[[Sequence[int]], Mapping[int, IndexObject]]
"""Bulk-loads decoded index objects by id; caches belong below it. An id that it leaves out is an error of the reader."""

STRIPE = OBJECT_TYPES.register(ObjectType("idx-s", Stripe, Life.LOGGED))
DIRECTORY = OBJECT_TYPES.register(ObjectType("idx-d", Directory, Life.LOGGED))


def make_stripe(keys: list[bytes], values: list[bytes]) -> Stripe:
    """Sorted keys, packed values. The decoded lists stay with the stripe: a flush is read from memory right after."""
    joined = columns.key_bytes(keys)
    weight = len(joined) + columns.VALUE_BYTES * len(keys)
    packed = columns.pack_fixed(values, columns.VALUE_BYTES)
    stripe = Stripe(len(keys), values.count(DELETED), weight, columns.pack_keys(joined), packed)
    stripe.__dict__.update(keys=keys, values=values)
    return stripe


def make_directory(refs: Sequence[StripeRef]) -> Directory:
    firsts, ids, counts, deleted, weights = zip(*refs, strict=True)
    directory = Directory(
        len(refs),
        columns.pack_keys(columns.key_bytes(firsts)),
        columns.pack_fixed([stripe_id.to_bytes(8, "big") for stripe_id in ids], 8),
        counts,
        deleted,
        weights,
    )
    directory.__dict__.update(refs=list(refs))
    return directory


def pack_value(value: IndexValue | None) -> bytes:
    if value is None:
        return DELETED
    try:
        packed = _VALUE.pack(value.object_id, value.tag)
    except struct.error:
        packed = DELETED
    if packed[:8] == DELETED[:8] or value.object_id >= 2**63:
        raise IdOutOfRange(
            f"{value} is not an index value.", field="value", remedy="Object ids are 1 to 2^63-1, tags are 0 to 255."
        )
    return packed


def unpack_value(packed: bytes) -> IndexValue:
    return IndexValue(*_VALUE.unpack(packed))
