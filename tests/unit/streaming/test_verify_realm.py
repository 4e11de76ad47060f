"""What must stay and is not there is counted and named, in memory that does not grow with what is there."""

from __future__ import annotations

import tracemalloc

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.streaming.reachability.id_set import IdCollector
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.sweep.verify import SAMPLE_IDS, VerifyReport, _scan, verify_realm
from tests.support.fixtures.maintained import Maintained
from tests.support.models.commit_harness import REALM


def realm_with_history() -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    realm = Maintained(backend)
    for _ in range(40):
        realm.step()
    return realm


def verified(realm: Maintained) -> VerifyReport:
    return verify_realm(realm.backend, REALM, realm.clock, Identifiers())


def test_a_whole_realm_holds_and_its_garbage_is_counted() -> None:
    realm = realm_with_history()
    before = verified(realm)
    assert before.holds and before.walked == len(realm.reachable())
    realm.orphan()
    assert verified(realm).unreached == before.unreached + 1


def test_every_missing_content_is_counted_and_the_first_are_named() -> None:
    realm = realm_with_history()
    reachable = realm.reachable()
    gone = [row for row in realm.rows() if row.type == "content" and row.id in reachable]
    assert realm.backend.delete_scanned(gone).deleted == len(gone) > SAMPLE_IDS
    report = verified(realm)
    assert not report.holds and report.missing_count == len(gone)
    assert report.missing == sorted(row.id for row in gone)[:SAMPLE_IDS]


def test_the_set_of_seen_objects_uses_one_bit_per_object() -> None:
    realm = realm_with_history()
    ids = IdCollector()
    ids.add(range(1, 400_001))
    retained = ids.finish()
    tracemalloc.start()
    try:
        _, _, missing, missing_count = _scan(realm.backend, REALM, retained)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert missing_count == 400_000 and missing == list(range(1, SAMPLE_IDS + 1))
    assert peak_bytes < 1_000_000, "a set of so many numbers takes over twenty million bytes"
