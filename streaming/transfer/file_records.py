"""The records of an exported file, for the rows of a realm, its header and its trailer.

Those that are array-like: append new fields, never move one.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.rows import Anchor, MutableRow, ObjectRow, PointerRow


class Header(msgspec.Struct, frozen=True, array_like=True):
    realm: str
    instance: str
    """Where it comes from; the realm that it is loaded into has an instance of its own."""
    low_level: bool
    """All rows as they were, including garbage and mutable ones; else what the pointers reach."""
    cut_at: int
    """Microseconds."""
    backend: str


class FileCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, by kind."""

    names: int = 0
    objects: int = 0
    mutable: int = 0
    pointers: int = 0

    @property
    def total(self) -> int:
        return self.names + self.objects + self.mutable + self.pointers


class Trailer(msgspec.Struct, frozen=True, array_like=True):
    counts: FileCounts
    reached: int
    """Objects that the pointers reach; 0 if they were not counted."""
    newest_object_id: int
    """Ids that are issued after the import must be greater."""
    sha256: bytes
    """Hash of every byte before the frame of this record."""


class PointerRecord(msgspec.Struct, frozen=True, array_like=True):
    name: str
    head: bytes
    seq: int
    floor: int
    fence: int
    version: int
    anchor: Anchor | None
    created_at: int

    @staticmethod
    def of(name: str, row: PointerRow) -> PointerRecord:
        return PointerRecord(name, row.head, row.seq, row.floor, row.fence, row.version, row.anchor, row.created_at)

    def fresh_row(self) -> PointerRow:
        """As it starts in another realm instance: fence and version belong to the original one."""
        return PointerRow(head=self.head, seq=self.seq, floor=self.floor, anchor=self.anchor, created_at=self.created_at)


class MutableRecord(msgspec.Struct, frozen=True, array_like=True):
    type: str
    key: str
    version: int
    created_at: int
    expires_at: int
    payload: bytes

    @staticmethod
    def of(row: MutableRow) -> MutableRecord:
        return MutableRecord(row.type, row.key, row.version, row.created_at, row.expires_at, row.payload)

    def row(self) -> MutableRow:
        return MutableRow(
            type=self.type,
            key=self.key,
            version=self.version,
            created_at=self.created_at,
            expires_at=self.expires_at,
            payload=self.payload,
        )


Record = str | ObjectRow | MutableRecord | PointerRecord
"""A name is a bare string."""
