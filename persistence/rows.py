"""The rows that a backend keeps, column by column: pointer, object and mutable rows, and rows of a scan."""

from __future__ import annotations

import enum

import msgspec

ROW_BYTES_MAX = 350_000
"""Hard limit of one row's serialized payload, on every backend: the smallest that any wanted database allows."""

NAME_BYTES_MAX = 1_000
"""Hard limit of a pointer name, mutable key or realm instance in UTF-8: it must fit a key column of every database."""

SYSTEM_REALM = "::system::"
"""Holds node leases, the realm list, publisher leases and maintenance runs."""

FENCE_CLOSED = 2**63 - 1
"""A pointer with this fence takes no commit: no object can be created at or after it (how a realm leaves ACTIVE)."""


def realm_name_of(instance: str) -> str:
    """The name that people gave the realm; an instance is that name and the id of its creation."""
    return instance.partition("#")[0]


class Anchor(msgspec.Struct, frozen=True, array_like=True):
    """The entry just below the floor: with it a chain that was cut can still be verified."""

    entry_id: bytes
    time_micros: int


class PointerRow(msgspec.Struct, frozen=True, kw_only=True):
    """The one mutable row that a commit moves. Every write is a CAS on version and head; only head moves are log entries."""

    head: bytes = b""
    """Entry id of the newest log entry; empty while the pointer is only reserved."""
    seq: int = 0
    """Sequence number of the head entry, dense from 1; 0 while reserved."""
    floor: int = 1
    """Oldest seq that the feed still serves."""
    fence: int = 0
    """Objects of this pointer's next commit are created at or after this time (microseconds)."""
    version: int = 1
    """Counts every write of the row, head move or not."""
    anchor: Anchor | None = None
    created_at: int
    """Microseconds."""


class ObjectRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One row of an immutable object. Big objects have several with the same id; part 0 carries their number."""

    id: int
    type: str
    created_at: int
    payload: bytes
    part: int = 0
    parts: int = 1


class MutableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One mutable row with a life of its own (lease, subscription, run …): every write is conditional on version
    and payload."""

    type: str
    key: str
    version: int = 1
    created_at: int
    expires_at: int = 0
    """Microseconds; 0 never expires. Backends only keep it: who owns the type acts on it."""
    payload: bytes = b""


class Table(enum.Enum):
    """The four kinds of row that maintenance scans."""

    OBJECTS = "objects"
    POINTERS = "pointers"
    MUTABLE = "mutable"
    NAMES = "names"


class ScannedRow(msgspec.Struct, frozen=True, array_like=True):
    """What a scan says of a row, without its payload; handing it back deletes just the revision that was scanned."""

    table: Table
    realm: str
    type: str
    """Object type or mutable type; empty for pointers and names."""
    key: str
    """Pointer name, mutable key or name; empty for objects."""
    id: int
    """Object id; 0 for the other tables."""
    part: int
    created_at: int
    revision: int
    """What changes when the row is written again: a version, a write counter, or Cassandra's writetime."""


class Split(msgspec.Struct, frozen=True, array_like=True):
    """A disjoint share of a table's rows, as its backend understands `lower` and `upper`; travels to Spark workers."""

    table: Table
    lower: str
    upper: str
