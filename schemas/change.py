"""The `Change`: one record for each log entry, complete, with every value before and after.

One source of truth: JSON comes from these structs as they stand, Avro and protobuf are derived from them, and the hash chain
covers every field (see `entry_ids`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

Value: TypeAlias = dict[str, Any]
"""A content's value: plain JSON. The content type defines what its fields mean."""

KeyPath: TypeAlias = tuple[str, ...]


class OpenStrEnum(StrEnum):
    """Takes values that a later version added: a reader sees them as they are and may skip them."""

    @classmethod
    def _missing_(cls, value: object) -> OpenStrEnum | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown


class Kind(OpenStrEnum):
    """What kind of commit or reference operation moved the head."""

    COMMIT = "commit"
    MERGE = "merge"
    TRANSPLANT = "transplant"
    CREATE = "create"
    ASSIGN = "assign"
    DELETE = "delete"


KNOWN_KINDS = frozenset(Kind)
COMMITTING_KINDS = frozenset({Kind.COMMIT, Kind.MERGE, Kind.TRANSPLANT})
"""Kinds whose entry is itself a commit; the others name the commit that the head points to after them."""


class Op(OpenStrEnum):
    PUT = "put"
    DELETE = "delete"
    RENAME = "rename"


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One key's change inside a Change."""

    op: Op
    key: KeyPath
    content_id: str
    type: str
    before: Value | None = None
    after: Value | None = None
    from_key: KeyPath | None = None
    """The key before a rename."""


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Where a created or assigned pointer's state comes from: the entry `seq` of `pointer`, whose head was `commit_id`."""

    pointer: str
    seq: int
    commit_id: str


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a merge or transplant."""

    pointer: str
    commit_id: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a pointer's log, complete. One commit is one Change, never torn."""

    realm: str
    pointer: str
    seq: int
    entry_id: str
    kind: Kind
    commit_id: str
    parent_id: str
    head_before: str
    time: str
    author: str
    message: str
    headers: dict[str, str]
    request_id: str
    operations: tuple[Operation, ...]
    objects_added: tuple[str, ...]
    objects_released: tuple[str, ...]
    base: Base | None = None
    source: Source | None = None
