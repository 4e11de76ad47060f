"""Statistics as rows of a bounded size: chunks of sorted rows, and manifests that list them.

Chunks and manifests are written once and never changed. A record under the pointer names the manifests, so the commit of the
record publishes all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from hashlib import sha256

import msgspec

from headwater.persistence.clock import Clock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import Conflict, InvalidInput, ObjectNotFound, ObjectTooLarge

CHUNK_TYPE = "statistics-chunk"
CHUNK_BYTES = 250_000
"""A chunk is closed once it holds this much; one more row must still fit."""
ROW_BYTES_MAX = 90_000
"""Of one column's or file's encoded statistics."""
CHUNKS_MAX = 8_000
"""Of one set: about 2 GB."""
MANIFEST_BYTES = 200_000
_DIGEST_BYTES = 16


class RowKind(StrEnum):
    COLUMNS = "columns"
    """Key: the column id, big-endian."""
    FILES = "files"
    """Key: the path."""


class StatisticsRow(msgspec.Struct, frozen=True, array_like=True):
    key: bytes
    value: bytes
    """A `ColumnStatistics` or `FileStatistics`, encoded."""


class ChunkRef(msgspec.Struct, frozen=True, array_like=True):
    id: str
    first: bytes
    last: bytes
    rows: int
    size_bytes: int
    digest: bytes


class _Rows(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a chunk."""

    rows: tuple[StatisticsRow, ...]


class ManifestPart(msgspec.Struct, frozen=True, array_like=True):
    """The payload of a manifest. ⚠ It names its owner: page tokens carry the ids of manifests."""

    owner: str
    kind: RowKind
    chunks: tuple[ChunkRef, ...]


OBJECT_TYPES.register(ObjectType(CHUNK_TYPE, _Rows, Life.MUTABLE))


class ChunkStore:
    """Reads and writes the rows of one realm."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._realm = kernel.realm
        self._backend = kernel.store.backend
        self._clock: Clock = kernel.store.clock

    def write(self, id: str, payload: bytes) -> None:
        row = next_row(CHUNK_TYPE, id, None, payload, self._clock.now_micros())
        if not cas_row(self._backend, self._realm, None, row, self._clock, has_token=True):
            raise Conflict(f"statistics chunk {id} was written by another process.", remedy="Send the statistics again.")

    def rows(self, ref: ChunkRef) -> tuple[StatisticsRow, ...]:
        return msgspec.msgpack.decode(self._payload(ref.id), type=_Rows).rows

    def manifest(self, id: str, owner: str) -> ManifestPart:
        """`ObjectNotFound` for one that is gone, and for one of another set."""
        part = msgspec.msgpack.decode(self._payload(id), type=ManifestPart)
        if part.owner != owner:
            raise _gone(id)
        return part

    def _payload(self, id: str) -> bytes:
        row = self._backend.read_mutable(self._realm, CHUNK_TYPE, id)
        if row is None:
            raise _gone(id)
        return row.payload


class ChunkWriter:
    """Cuts sorted rows into chunks, under the ids of one write: its token and a counter."""

    def __init__(self, store: ChunkStore, next_id: Callable[[], str]) -> None:
        self._store = store
        self._next_id = next_id

    def chunks(self, rows: Iterable[StatisticsRow]) -> Iterator[ChunkRef]:
        """Refuses a key that comes twice: rows arrive in order."""
        held: list[StatisticsRow] = []
        size = 0
        for row in rows:
            if held and held[-1].key == row.key:
                raise InvalidInput("a row comes twice.", field="rows", remedy="Send each column and each file once.")
            held.append(row)
            size += len(row.key) + len(row.value)
            if size >= CHUNK_BYTES:
                yield self._write(held)
                held, size = [], 0
        if held:
            yield self._write(held)

    def manifests(self, owner: str, kind: RowKind, refs: Sequence[ChunkRef]) -> Iterator[str]:
        held: list[ChunkRef] = []
        size = 0
        for ref in refs:
            held.append(ref)
            size += len(ref.first) + len(ref.last) + 100
            if size >= MANIFEST_BYTES:
                yield self._write_manifest(ManifestPart(owner, kind, tuple(held)))
                held, size = [], 0
        if held:
            yield self._write_manifest(ManifestPart(owner, kind, tuple(held)))

    def _write(self, rows: Sequence[StatisticsRow]) -> ChunkRef:
        payload = msgspec.msgpack.encode(_Rows(tuple(rows)))
        ref = ChunkRef(
            id=self._next_id(),
            first=rows[0].key,
            last=rows[-1].key,
            rows=len(rows),
            size_bytes=len(payload),
            digest=sha256(payload).digest()[:_DIGEST_BYTES],
        )
        self._store.write(ref.id, payload)
        return ref

    def _write_manifest(self, part: ManifestPart) -> str:
        id = self._next_id()
        self._store.write(id, msgspec.msgpack.encode(part))
        return id


def checked_row(key: bytes, value: bytes, field: str) -> StatisticsRow:
    if len(key) + len(value) > ROW_BYTES_MAX:
        raise ObjectTooLarge(
            f"the statistics take {len(value)} bytes.",
            field=field,
            remedy=f"Use at most {ROW_BYTES_MAX} bytes: fewer buckets, smaller sketches, or fewer columns of one file.",
            bytes=len(value),
            bytes_max=ROW_BYTES_MAX,
        )
    return StatisticsRow(key, value)


def digest_of(refs: Iterable[ChunkRef]) -> bytes:
    """Equal for equal rows in equal chunks."""
    digest = sha256()
    for ref in refs:
        digest.update(ref.digest)
    return digest.digest()


def _gone(id: str) -> ObjectNotFound:
    return ObjectNotFound(f"there is no statistics chunk {id[:80]!r}.", field="page_token", remedy="Begin with the first page.")
