"""Reads and writes typed objects of one realm instance; hides rows, parts, checksums and the cache."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.objects import codec
from headwater.persistence.objects.cache import ObjectCache
from headwater.persistence.objects.codec import Opaque
from headwater.persistence.objects.object_types import OBJECT_TYPES, ObjectType, ObjectTypes
from headwater.persistence.rows import ObjectRow
from headwater.schemas.errors import ObjectNotFound, WrongObjectType

T = TypeVar("T", bound=msgspec.Struct)

DECODED_FACTOR = 3
"""Bytes of memory per stored byte: a string of 30 bytes takes 87 as a Python object, a small integer 36."""


class NewObject(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object to write: the value, its id and its type."""

    object_type: ObjectType[T]
    id: int
    value: T
    entry_id: bytes = b""
    """The id of a log entry whose hash is computed already."""


class Decoded(msgspec.Struct, gc=False):
    """What the cache keeps: the type's name is checked on every read, cached or not. ⚠ Nothing in here may be seen by the
    garbage collector: it would walk a million cached objects again and again, and find no garbage."""

    type: str
    value: msgspec.Struct
    entry_id: bytes = b""
    """The id of a log entry whose hash was computed: objects never change, so it is computed once."""


class RealmObjects:
    """The objects of one realm instance. Thread-safe; counts the objects and bytes that go to and from the backend."""

    def __init__(
        self, backend: Backend, realm: str, cache: ObjectCache[Decoded] | None = None, types: ObjectTypes = OBJECT_TYPES
    ) -> None:
        self.backend = backend
        self.realm = realm
        self.objects_read = 0
        self.bytes_read = 0
        self.objects_written = 0
        self.bytes_written = 0
        self._cache: ObjectCache[Decoded] = ObjectCache(0) if cache is None else cache
        self._types = types
        self._counting = threading.Lock()

    @property
    def caches(self) -> bool:
        """Whether objects that were read are kept."""
        return self._cache.bytes_max > 0

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    def fetch(self, object_type: ObjectType[T], object_id: int) -> T:
        """The object, or `ObjectNotFound`; `WrongObjectType` if it is of another type."""
        cached = self._cache.get(self.realm, object_id)
        if cached is not None and not isinstance(cached.value, Opaque):
            return _as_type(object_type, object_id, cached)
        return self._read(object_type, [object_id], missing_ok=False)[object_id]

    def entry_id_known(self, object_id: int) -> bytes:
        """The verified id of a cached log entry; empty if it is not known."""
        cached = self._cache.peek(self.realm, object_id)
        return b"" if cached is None else cached.entry_id

    def know_entry_id(self, object_id: int, entry_id: bytes) -> None:
        """Keep a computed hash with the cached entry, for as long as it is cached."""
        cached = self._cache.peek(self.realm, object_id)
        if cached is not None:
            cached.entry_id = entry_id

    def fetch_many(self, object_type: ObjectType[T], ids: Iterable[int], *, missing_ok: bool = False) -> dict[int, T]:
        """All of them in the order asked for, by one bulk read of those that the cache lacks. An absent one is
        `ObjectNotFound`, or left out with `missing_ok`."""
        wanted = list(dict.fromkeys(ids))
        cached = self._cache.get_many(self.realm, wanted)
        found = {
            object_id: _as_type(object_type, object_id, decoded)
            for object_id, decoded in cached.items()
            if not isinstance(decoded.value, Opaque)
        }
        if len(found) < len(wanted):
            found |= self._read(object_type, [object_id for object_id in wanted if object_id not in found], missing_ok)
        return {object_id: found[object_id] for object_id in wanted if object_id in found}

    def fetch_any(self, ids: Iterable[int], *, missing_ok: bool = False) -> dict[int, msgspec.Struct]:
        """Objects of any types; those of a type that is not registered come as `codec.Opaque`."""
        wanted = list(dict.fromkeys(ids))
        cached = self._cache.get_many(self.realm, wanted)
        found = {object_id: decoded.value for object_id, decoded in cached.items()}
        for object_id, rows in self._rows([object_id for object_id in wanted if object_id not in found], missing_ok).items():
            known = self._types.find(rows[0].type)
            found[object_id] = codec.decode(known, rows) if known else Opaque(rows[0].type, codec.checked_body(rows))
            self._keep(rows, found[object_id])
        return {object_id: found[object_id] for object_id in wanted if object_id in found}

    def _read(self, object_type: ObjectType[T], ids: Sequence[int], missing_ok: bool) -> dict[int, T]:
        found = {}
        for object_id, rows in self._rows(ids, missing_ok).items():
            found[object_id] = codec.decode(object_type, rows)
            self._keep(rows, found[object_id])
        return found

    def _rows(self, ids: Sequence[int], missing_ok: bool) -> dict[int, list[ObjectRow]]:
        if not ids:
            return {}
        found = self.backend.fetch_objects(self.realm, ids)
        with self._counting:
            self.objects_read += len(found)
            self.bytes_read += sum(len(row.payload) for rows in found.values() for row in rows)
        if len(found) < len(ids) and not missing_ok:
            raise _not_found(self.realm, [object_id for object_id in ids if object_id not in found])
        return found

    # ── writing ─────────────────────────────────────────────────────────────────────────────────────────────

    def strong_rows(self, objects: Sequence[NewObject[Any]], created_at: int) -> list[ObjectRow]:
        """The rows of a strong write, one for each object, for callers that commit them with a pointer in one step."""
        return [codec.encode(new.object_type, new.id, new.value, created_at) for new in objects]

    def write_strong(self, objects: Sequence[NewObject[Any]], created_at: int) -> None:
        """Durable when it returns; each object must fit one row, else `ObjectTooLarge` before anything is written."""
        rows = self.strong_rows(objects, created_at)
        if rows:
            self.backend.write_objects(self.realm, rows)
        self.written_strong(objects, rows)

    def write_eventual(self, objects: Sequence[NewObject[Any]], created_at: int) -> None:
        """Durable when it returns; big objects are cut into parts. A reader that comes in between finds them torn."""
        rows = [codec.encode_in_parts(new.object_type, new.id, new.value, created_at) for new in objects]
        whole = [row for rows_of_new in rows for row in rows_of_new]
        if whole:
            # Parts first: part 0 tells the number of parts, so it is written last, when the others are there.
            later = [row for row in whole if row.part == 0]
            parts = [row for row in whole if row.part != 0]
            if parts:
                self.backend.write_objects(self.realm, parts)
            self.backend.write_objects(self.realm, later)
        self._written(objects, [(rows_of_new[0], _payload_bytes(rows_of_new)) for rows_of_new in rows])

    def written_strong(self, objects: Sequence[NewObject[Any]], rows: Sequence[ObjectRow]) -> None:
        """Count and cache what was acknowledged; also for callers that wrote `strong_rows` by themselves."""
        self._written(objects, [(row, len(row.payload)) for row in rows])

    def _written(self, objects: Sequence[NewObject[Any]], rows: Sequence[tuple[ObjectRow, int]]) -> None:
        """Each object with its first row and the bytes of all its rows."""
        pairs = zip(objects, rows, strict=True)
        self._cache.put_many(self.realm, [_to_keep(row, size, new.value, new.entry_id) for new, (row, size) in pairs])
        with self._counting:
            self.objects_written += len(objects)
            self.bytes_written += sum([size for _, size in rows])

    def _keep(self, rows: Sequence[ObjectRow], value: msgspec.Struct) -> None:
        self._cache.put(self.realm, *_to_keep(rows[0], _payload_bytes(rows), value))


def _to_keep(row: ObjectRow, size: int, value: msgspec.Struct, entry_id: bytes = b"") -> tuple[int, Decoded, int]:
    """Id, value and the bytes that it takes in memory. `size` is what it takes in the store."""
    known: int = getattr(value, "memory_bytes", 0)  # of index objects: decoded they are far larger than stored
    return row.id, Decoded(row.type, value, entry_id), known or DECODED_FACTOR * size


def _payload_bytes(rows: Iterable[ObjectRow]) -> int:
    return sum([len(row.payload) for row in rows])


def _as_type(object_type: ObjectType[T], object_id: int, decoded: Decoded) -> T:
    if decoded.type != object_type.name or not isinstance(decoded.value, object_type.struct):
        raise WrongObjectType(
            f"object {object_id} is a {decoded.type!r}, not a {object_type.name!r}.", object_id=object_id, type=decoded.type
        )
    return decoded.value


def _not_found(realm: str, ids: Sequence[int]) -> ObjectNotFound:
    shown = ", ".join(map(str, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
    return ObjectNotFound(f"object {shown} is not in realm {realm!r}.", field="id", object_ids=list(ids[:100]), realm=realm)
