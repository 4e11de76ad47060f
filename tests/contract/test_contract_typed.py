"""What stands directly on the SPI works on every database: typed objects with parts and checksums, and node leases."""

from __future__ import annotations

import secrets
from functools import partial

import msgspec
import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.ids.id_generator import IdGenerator
from headwater.persistence.ids.node_leases import NodeLeases
from headwater.persistence.objects.cache import ObjectCache
from headwater.persistence.objects.codec import Opaque
from headwater.persistence.objects.object_types import Life, ObjectType, ObjectTypes
from headwater.persistence.objects.realm_objects import NewObject, RealmObjects
from headwater.persistence.rows import ROW_BYTES_MAX, Table
from headwater.schemas.errors import AllNodesTaken, ObjectNotFound, ObjectTooLarge, TornObject
from tests.support.fixtures.contract_rows import in_threads, patiently, scan_all


class Blob(msgspec.Struct, frozen=True, array_like=True):
    data: bytes


BLOB = ObjectType("blob", Blob, Life.LOGGED)
TYPES = ObjectTypes()
TYPES.register(BLOB)


def objects_of(backend: Backend, realm: str, types: ObjectTypes = TYPES) -> RealmObjects:
    return RealmObjects(backend, realm, ObjectCache(0), types)


def test_a_big_object_is_split_joined_and_copied_without_knowing_its_type(
    backend: Backend, other_backend: Backend, realm: str
) -> None:
    blob = Blob(secrets.token_bytes(5 * ROW_BYTES_MAX + 17))
    objects_of(backend, realm).write_eventual([NewObject(BLOB, 7, blob), NewObject(BLOB, 8, Blob(b"small"))], created_at=3)
    assert len(backend.fetch_objects(realm, [7])[7]) == 6
    assert objects_of(other_backend, realm).fetch_many(BLOB, [7, 8]) == {7: blob, 8: Blob(b"small")}
    carried = objects_of(other_backend, realm, ObjectTypes()).fetch_any([7])[7]
    assert isinstance(carried, Opaque)
    assert carried.type == "blob"
    with pytest.raises(ObjectTooLarge):
        objects_of(backend, realm).write_strong([NewObject(BLOB, 9, blob)], created_at=3)
    with pytest.raises(ObjectNotFound, match="object 9 "):
        objects_of(backend, realm).fetch(BLOB, 9)


def test_a_torn_object_is_found_out(backend: Backend, realm: str) -> None:
    objects_of(backend, realm).write_eventual([NewObject(BLOB, 7, Blob(bytes(3 * ROW_BYTES_MAX)))], created_at=3)
    lost = [row for row in scan_all(backend, Table.OBJECTS, realm) if row.part == 2]
    assert backend.delete_scanned(lost).deleted == 1
    with pytest.raises(TornObject, match="object 7 "):
        objects_of(backend, realm).fetch(BLOB, 7)


def test_lessees_that_start_at_once_get_different_nodes_and_no_id_twice(backend: Backend, other_backend: Backend) -> None:
    nodes = 4
    backends = [backend, other_backend]

    def start(who: int) -> IdGenerator:
        return patiently(lambda: IdGenerator(NodeLeases(backends[who % 2], nodes=nodes)))

    lessees = in_threads([partial(start, who) for who in range(nodes)])
    try:
        assert sorted(ids.lease.node for ids in lessees if ids.lease) == list(range(nodes))
        with pytest.raises(AllNodesTaken):
            IdGenerator(NodeLeases(backend, nodes=nodes))
        made = [one for ids in lessees for one in ids.take(1_000)]
    finally:
        for ids in lessees:
            ids.close()
    again = IdGenerator(NodeLeases(other_backend, nodes=nodes))
    made += again.take(1_000)
    again.close()
    assert len(set(made)) == len(made) == 5_000
