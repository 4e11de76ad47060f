"""Checkpoints of a catalog's directory: content ids with their keys, and how far each log was followed for them.

A checkpoint is a head row and parts of a bounded size. Parts are written first, under names of their own, and never changed;
the head names them with their digests and is moved by CAS. A checkpoint is never needed: where one is missing, damaged or of
another format, the keys are walked.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.coordination.work_leases import HeldLease, LeaseRecord, WorkLeases
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import Corruption

DIRECTORY_TYPE = "directory"
PART_TYPE = "directory-part"
LEASE_TYPE = "directory-lease"
DIRECTORY_TYPES = frozenset({DIRECTORY_TYPE, PART_TYPE, LEASE_TYPE})
"""Rebuilt if they are missing: exports leave them out."""
FORMAT = 1
LOGS_BYTES_MAX = 200_000
"""How many logs a head names at most, because it is one row. Further ones are walked again."""
_LOG_BYTES = 100
_DIGEST_BYTES = 16
_PARTS_PER_PAGE = 16


class _Format(msgspec.Struct, frozen=True, array_like=True):
    format: int


class FollowedLog(msgspec.Struct, frozen=True, array_like=True):
    """Every id of every state from the first entry to the last is known. With entry ids: a restored store may have others."""

    pointer: str
    first_seq: int
    first_entry: bytes
    last_seq: int
    last_entry: bytes


class PartRef(msgspec.Struct, frozen=True, array_like=True):
    key: str
    digest: bytes


class DirectoryHead(msgspec.Struct, frozen=True, array_like=True):
    """The head row's payload. Append new fields, never move one."""

    format: int
    generation: str
    base: tuple[PartRef, ...]
    """Sorted by id, also across parts."""
    later: tuple[PartRef, ...]
    """Entries added since, each part sorted by itself."""
    left: int
    """Keys that no longer have their id, as far as logs were followed."""
    logs: tuple[FollowedLog, ...]

    @property
    def followed(self) -> int:
        return sum(one.last_seq for one in self.logs)


class DirectoryPart(msgspec.Struct, frozen=True, array_like=True):
    """Ids of 16 bytes, the lengths of their keys as 2 bytes each, little-endian, and the encoded keys."""

    ids: bytes
    lengths: bytes
    keys: bytes


class Checkpoint(msgspec.Struct, frozen=True):
    head: DirectoryHead
    base: tuple[DirectoryPart, ...]
    later: tuple[DirectoryPart, ...]


OBJECT_TYPES.register(ObjectType(DIRECTORY_TYPE, DirectoryHead, Life.MUTABLE))
OBJECT_TYPES.register(ObjectType(PART_TYPE, DirectoryPart, Life.MUTABLE))
OBJECT_TYPES.register(ObjectType(LEASE_TYPE, LeaseRecord, Life.MUTABLE))


class DirectoryCheckpoints:
    """The checkpoint of one catalog."""

    def __init__(self, kernel: RealmKernel, catalog_id: int) -> None:
        self._realm = kernel.realm
        self._backend = kernel.store.backend
        self._clock = kernel.store.clock
        self._key = str(catalog_id)
        self._leases = WorkLeases(self._backend, self._clock, type=LEASE_TYPE, realm=kernel.realm)

    def head(self) -> DirectoryHead | None:
        return _head_of(self._backend.read_mutable(self._realm, DIRECTORY_TYPE, self._key))

    def read(self) -> Checkpoint | None:
        """`Corruption` if a part is missing or is not what was written."""
        head = self.head()
        if head is None:
            return None
        return Checkpoint(head, tuple(map(self._part, head.base)), tuple(map(self._part, head.later)))

    def lease(self) -> HeldLease | None:
        """None while another worker writes."""
        seen = self._leases.look(self._key)
        return None if seen.is_held else self._leases.take(self._key, uuid.uuid4().hex, seen)

    def write_part(self, generation: str, number: int, part: DirectoryPart) -> PartRef:
        payload = msgspec.msgpack.encode(part)
        key = f"{self._key}/{generation}/{number:05}"
        row = next_row(PART_TYPE, key, None, payload, self._clock.now_micros())
        cas_row(self._backend, self._realm, None, row, self._clock, has_token=True)
        return PartRef(key, _digest(payload))

    def publish(self, lease: HeldLease, head: DirectoryHead) -> bool:
        """Under the lease. Parts that the head does not name go: those of the head before, and of writers that died."""
        before = self._backend.read_mutable(self._realm, DIRECTORY_TYPE, self._key)
        lease.require()
        row = next_row(DIRECTORY_TYPE, self._key, before, msgspec.msgpack.encode(head), self._clock.now_micros())
        if not cas_row(self._backend, self._realm, before, row, self._clock, has_token=True):
            return False
        self._delete_parts({ref.key for ref in (*head.base, *head.later)})
        return True

    def delete(self) -> None:
        """Delete the whole checkpoint, for a catalog that is purged."""
        for type in (DIRECTORY_TYPE, LEASE_TYPE):
            row = self._backend.read_mutable(self._realm, type, self._key)
            if row is not None:
                delete_row(self._backend, self._realm, row, self._clock)
        self._delete_parts(set())

    def _delete_parts(self, but: set[str]) -> None:
        for row in _parts(self._backend, self._realm, f"{self._key}/"):
            if row.key not in but:
                delete_row(self._backend, self._realm, row, self._clock)

    def _part(self, ref: PartRef) -> DirectoryPart:
        row = self._backend.read_mutable(self._realm, PART_TYPE, ref.key)
        if row is None or _digest(row.payload) != ref.digest:
            raise Corruption(f"part {ref.key} of a directory is {'missing' if row is None else 'damaged'}.")
        return msgspec.msgpack.decode(row.payload, type=DirectoryPart)


def bounded_logs(logs: Sequence[FollowedLog]) -> tuple[FollowedLog, ...]:
    """As many as fit, from the first on."""
    kept, size = [], 0
    for one in logs:
        size += len(one.pointer.encode()) + _LOG_BYTES
        if size > LOGS_BYTES_MAX:
            break
        kept.append(one)
    return tuple(kept)


def _parts(backend: Backend, realm: str, prefix: str) -> Iterator[MutableRow]:
    for row in backend.all_mutable(realm, PART_TYPE, after=prefix, page=_PARTS_PER_PAGE):
        if not row.key.startswith(prefix):
            return
        yield row


def _head_of(row: MutableRow | None) -> DirectoryHead | None:
    if row is None:
        return None
    if msgspec.msgpack.decode(row.payload, type=_Format).format != FORMAT:
        return None  # of another version of this program
    return msgspec.msgpack.decode(row.payload, type=DirectoryHead)


def _digest(payload: bytes) -> bytes:
    return sha256(payload).digest()[:_DIGEST_BYTES]
