"""Typed objects over rows: what is written comes back; what is absent, torn, flipped or of another type is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.persistence.backends.memory import open_memory
from headwater.persistence.objects.cache import ObjectCache
from headwater.persistence.objects.codec import Opaque
from headwater.persistence.objects.object_types import Life, ObjectType, ObjectTypes
from headwater.persistence.objects.realm_objects import Decoded, NewObject, RealmObjects
from headwater.persistence.rows import ROW_BYTES_MAX, ObjectRow, Table
from headwater.schemas.errors import ChecksumMismatch, ObjectNotFound, ObjectTooLarge, TornObject, WrongObjectType


class Note(msgspec.Struct, frozen=True, array_like=True):
    text: str


class Blob(msgspec.Struct, frozen=True, array_like=True):
    data: bytes


NOTE = ObjectType("note", Note, Life.LOGGED)
ALIKE = ObjectType("alike", Note, Life.LOGGED)
BLOB = ObjectType("blob", Blob, Life.OWNED)
TYPES = ObjectTypes()
TYPES.register(NOTE)
TYPES.register(BLOB)


def make(cache_bytes: int = 0) -> RealmObjects:
    cache: ObjectCache[Decoded] = ObjectCache(cache_bytes)
    return RealmObjects(open_memory("memory://"), "realm@1", cache, TYPES)


def reopened(objects: RealmObjects, types: ObjectTypes = TYPES) -> RealmObjects:
    return RealmObjects(objects.backend, objects.realm, ObjectCache(1_000_000), types)


def test_what_is_written_is_read_back_by_another_reader() -> None:
    objects = make()
    objects.write_strong([NewObject(NOTE, 1, Note("a")), NewObject(BLOB, 2, Blob(b"b"))], created_at=7)
    other = reopened(objects)
    assert other.fetch(NOTE, 1) == Note("a")
    assert other.fetch_any([2, 1]) == {2: Blob(b"b"), 1: Note("a")}
    assert objects.backend.fetch_objects("realm@1", [1])[1][0].created_at == 7


def test_an_absent_object_is_named_and_looked_for_again_next_time() -> None:
    objects = make(cache_bytes=1_000_000)
    with pytest.raises(ObjectNotFound, match="object 41 "):
        objects.fetch(NOTE, 41)
    with pytest.raises(ObjectNotFound, match="object 41, 42 "):
        objects.fetch_many(NOTE, [41, 42])
    assert objects.fetch_many(NOTE, [41], missing_ok=True) == {}
    reopened(objects).write_strong([NewObject(NOTE, 41, Note("late"))], created_at=1)
    assert objects.fetch(NOTE, 41) == Note("late"), "absence must not be cached"


def test_a_cached_object_costs_no_read_and_many_are_read_at_once() -> None:
    objects = make()
    objects.write_strong([NewObject(NOTE, n, Note(str(n))) for n in range(1, 11)], created_at=1)
    other = reopened(objects)
    assert other.fetch_many(NOTE, [3, 1, 3]) == {3: Note("3"), 1: Note("1")}
    assert other.objects_read == 2
    assert list(other.fetch_many(NOTE, range(1, 11))) == list(range(1, 11))
    assert other.fetch(NOTE, 10) == Note("10")
    assert other.fetch_any([1, 2]) == {1: Note("1"), 2: Note("2")}
    assert other.objects_read == 10
    assert objects.objects_written == 10
    assert objects.bytes_written == other.bytes_read > 0


def test_what_was_just_written_is_served_from_the_cache() -> None:
    objects = make(cache_bytes=1_000_000)
    objects.write_strong([NewObject(NOTE, 1, Note("a"))], created_at=1)
    assert objects.fetch(NOTE, 1) == Note("a")
    assert objects.objects_read == 0


@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
def test_reading_with_the_wrong_type_is_an_error_cached_or_not(cache_bytes: int) -> None:
    objects = make(cache_bytes)
    objects.write_strong([NewObject(NOTE, 1, Note("a"))], created_at=1)
    wrong_types: list[ObjectType[Any]] = [BLOB, ALIKE]
    for wrong in wrong_types:
        with pytest.raises(WrongObjectType, match="object 1 is a 'note'"):
            objects.fetch(wrong, 1)
        with pytest.raises(WrongObjectType, match="object 1 is a 'note'"):
            objects.fetch_many(wrong, [1])


def test_an_unknown_type_is_carried_as_bytes_and_read_once_it_is_known() -> None:
    objects = make()
    objects.write_strong([NewObject(NOTE, 1, Note("a"))], created_at=1)
    stranger = reopened(objects, ObjectTypes())
    assert stranger.fetch_any([1]) == {1: Opaque("note", msgspec.msgpack.encode(Note("a")))}
    assert stranger.fetch_any([1]) == {1: Opaque("note", msgspec.msgpack.encode(Note("a")))}
    assert stranger.fetch(NOTE, 1) == Note("a")
    assert stranger.fetch_many(NOTE, [1]) == {1: Note("a")}


def test_a_strong_write_over_the_row_limit_writes_nothing_at_all() -> None:
    objects = make()
    with pytest.raises(ObjectTooLarge):
        objects.write_strong([NewObject(NOTE, 1, Note("a")), NewObject(BLOB, 2, Blob(bytes(ROW_BYTES_MAX)))], created_at=1)
    assert objects.backend.fetch_objects("realm@1", [1, 2]) == {}


def big(size: int = 3 * ROW_BYTES_MAX) -> NewObject[Blob]:
    return NewObject(BLOB, 5, Blob(bytes(n % 251 for n in range(size))))


def test_a_big_object_is_split_and_joined() -> None:
    objects = make()
    objects.write_eventual([big(), NewObject(NOTE, 6, Note("small"))], created_at=1)
    rows = objects.backend.fetch_objects("realm@1", [5])[5]
    assert [row.part for row in rows] == [0, 1, 2, 3]
    assert max(len(row.payload) for row in rows) == ROW_BYTES_MAX
    assert reopened(objects).fetch_any([5, 6]) == {5: big().value, 6: Note("small")}


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_big_object_that_lost_a_part_is_torn(lost: int) -> None:
    objects = make()
    objects.write_eventual([big()], created_at=1)
    split = objects.backend.splits(Table.OBJECTS, 1)[0]
    gone = [row for row in objects.backend.scan(split) if row.part == lost]
    assert objects.backend.delete_scanned(gone).deleted == 1
    with pytest.raises(TornObject, match="object 5 "):
        reopened(objects).fetch(BLOB, 5)
    with pytest.raises(TornObject, match="object 5 "):
        reopened(objects).fetch_any([5])


def test_a_flipped_bit_is_found_in_any_byte() -> None:
    objects = make()
    objects.write_strong([NewObject(NOTE, 1, Note("abc"))], created_at=1)
    [row] = objects.backend.fetch_objects("realm@1", [1])[1]
    for at in range(len(row.payload)):
        flipped = bytearray(row.payload)
        flipped[at] ^= 1
        objects.backend.write_objects("realm@1", [ObjectRow(1, "note", 1, bytes(flipped))])
        with pytest.raises(ChecksumMismatch, match="object 1 "):
            reopened(objects).fetch(NOTE, 1)


def test_a_row_that_was_stored_under_another_id_is_found_out() -> None:
    objects = make()
    objects.write_strong([NewObject(NOTE, 1, Note("abc"))], created_at=1)
    [row] = objects.backend.fetch_objects("realm@1", [1])[1]
    objects.backend.write_objects("realm@1", [msgspec.structs.replace(row, id=2)])
    with pytest.raises(ChecksumMismatch):
        objects.fetch(NOTE, 2)


def test_two_realms_may_share_ids_and_a_cache() -> None:
    cache: ObjectCache[Decoded] = ObjectCache(1_000_000)
    backend = open_memory("memory://")
    one, two = (RealmObjects(backend, realm, cache, TYPES) for realm in ("one@1", "two@1"))
    one.write_strong([NewObject(NOTE, 1, Note("one"))], created_at=1)
    with pytest.raises(ObjectNotFound):
        two.fetch(NOTE, 1)
    two.write_strong([NewObject(NOTE, 1, Note("two"))], created_at=1)
    assert (one.fetch(NOTE, 1), two.fetch(NOTE, 1)) == (Note("one"), Note("two"))
