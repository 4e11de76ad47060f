"""Copies of metadata files in the store: bounded, proved to be of just that file, and swept with their contents."""

from __future__ import annotations

import random

import msgspec
import pytest

from headwater.persistence.objects.object_types import attached_id
from headwater.persistence.records.metadata_copies import FILE_BYTES_MAX, MetadataCopies, SourceFile
from headwater.persistence.rows import ObjectRow
from headwater.schemas.errors import ChecksumMismatch
from headwater.streaming.reachability.retained_identifiers import Identifiers, LogIdentifier
from headwater.streaming.sweep.verify import verify_realm
from tests.support.fixtures.maintained import HOUR, Maintained
from tests.unit.streaming.test_sweep import StaleSource, new_realm, retained_now

ROOT = "s3://lake"
WHERE = f"{ROOT}/orders/v1.metadata.json"


@pytest.fixture
def realm() -> Maintained:
    made = new_realm(seed=4)
    made.write(count=3)
    return made


def copies(realm: Maintained, bytes_max: int = 10_000, root: str = ROOT) -> MetadataCopies:
    return MetadataCopies(realm.backend, realm.realm, root, realm.clock, bytes_max)


def noise(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def test_a_copy_belongs_to_exactly_the_file_that_it_was_made_of(realm: Maintained) -> None:
    copies(realm).write({7: SourceFile(WHERE, b'{"a": 1}' * 1_000)})
    assert copies(realm).read(7, WHERE) == b'{"a": 1}' * 1_000
    (row,) = realm.backend.fetch_objects(realm.realm, [-7])[-7]
    assert len(row.payload) < 300, "it is compressed"
    assert copies(realm).read(7, f"{ROOT}/orders/v2.metadata.json") is None
    assert copies(realm, root="s3://another").read(7, WHERE) is None, "what one warehouse may read is not given to another"
    assert copies(realm).read(8, WHERE) is None
    copies(realm).remove([7, 8])
    assert copies(realm).read(7, WHERE) is None


def test_an_oversized_file_is_not_copied_and_the_others_are(realm: Maintained) -> None:
    large, small = SourceFile(WHERE, noise(5_000)), SourceFile(WHERE, b"{}")
    copies(realm, 1_000).write({1: large, 2: small, 3: SourceFile(WHERE, bytes(FILE_BYTES_MAX + 1))})
    assert [copies(realm).read(number, WHERE) for number in (1, 2, 3)] == [None, b"{}", None]
    copies(realm, 10**9).write({4: SourceFile(WHERE, noise(400_000))})
    assert copies(realm).read(4, WHERE) is None, "a copy is one row, whatever is set"


def test_a_damaged_copy_is_reported(realm: Maintained) -> None:
    copies(realm).write({7: SourceFile(WHERE, b'{"a": 1}')})
    (row,) = realm.backend.fetch_objects(realm.realm, [-7])[-7]
    torn = bytearray(row.payload)
    torn[-1] ^= 1
    realm.backend.write_objects(realm.realm, [ObjectRow(row.id, row.type, row.created_at, bytes(torn))])
    with pytest.raises(ChecksumMismatch):
        copies(realm).read(7, WHERE)


@pytest.mark.parametrize("kind", ["exact", "bloom"])
@pytest.mark.parametrize("source", ["walked", "streamed"])
def test_copies_are_swept_with_their_contents(realm: Maintained, kind: str, source: str) -> None:
    for _ in range(30):
        realm.step()
    realm.expire("*=4n")
    realm.attach_copies()
    realm.clock.move(4 * HOUR)
    staying, before = realm.with_copies(realm.reachable()), realm.ids()
    found = (
        None if source == "walked" else StaleSource(msgspec.structs.replace(retained_now(realm), covers=LogIdentifier.covers))
    )
    realm.sweep(filter=kind, source=found)
    assert realm.ids() == staying
    assert {id for id in before - staying if id < 0} and {id for id in staying if id < 0}


def test_a_copy_of_a_content_that_is_young_or_of_none_is_treated_like_any_row(realm: Maintained) -> None:
    realm.attach_copies()
    copies(realm).write({12_345: SourceFile(WHERE, b"{}")})
    realm.sweep()
    assert attached_id(12_345) in realm.ids(), "its content may be about to be committed"
    realm.clock.move(4 * HOUR)
    realm.sweep()
    assert realm.ids() == realm.with_copies(realm.reachable())


def test_a_copy_does_not_prove_that_its_content_is_there(realm: Maintained) -> None:
    realm.attach_copies()
    lost = next(row for row in realm.rows() if row.type == "content" and row.id in realm.reachable())
    realm.backend.remove_objects(realm.realm, [(lost.id, 0)])
    assert verify_realm(realm.backend, realm.realm, realm.clock, Identifiers()).missing == [lost.id]
