"""Entries that a topic tells of and the store has lost are told from those that the log holds; a gap is never passed over."""

from __future__ import annotations

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.schemas.errors import RetainedIncomplete
from headwater.streaming.reachability.segments import SegmentPosition
from headwater.streaming.retained.present_history import pointers_of_lost_entries, present_entries
from headwater.streaming.retained.retained_batch import reached
from headwater.streaming.retained.retained_store import RetainedState
from headwater.streaming.sources.linked_batches import PointerBatch
from tests.support.fixtures.maintained import MAIN, Maintained
from tests.support.models.commit_harness import REALM


@pytest.fixture
def realm() -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    made = Maintained(backend)
    for _ in range(9):
        made.write()
    return made


def at(realm: Maintained, seq: int) -> SegmentPosition:
    return SegmentPosition(1, seq, realm.logs[MAIN][seq - 1].entry_id.hex())


def test_log_entries_after_the_set_are_present(realm: Maintained) -> None:
    expected = [(MAIN, seq, at(realm, seq).entry_id) for seq in range(5, 10)]
    assert list(present_entries(realm.backend, REALM, {MAIN: 20}, {MAIN: at(realm, 4)})) == expected
    assert list(present_entries(realm.backend, REALM, {MAIN: 6}, {MAIN: at(realm, 4)})) == expected[:2]
    assert len(list(present_entries(realm.backend, REALM, {MAIN: 20}, {}))) == 9


def test_of_a_pointer_that_was_purged_nothing_is_present(realm: Maintained) -> None:
    assert list(present_entries(realm.backend, REALM, {"cat/7/heads/gone": 5}, {})) == []


@pytest.mark.parametrize("seq", [3, 9, 12])
def test_a_set_that_ends_in_an_entry_that_the_store_has_lost_is_seeded_again(realm: Maintained, seq: int) -> None:
    with pytest.raises(RetainedIncomplete, match="not in this log"):
        list(present_entries(realm.backend, REALM, {MAIN: 20}, {MAIN: SegmentPosition(1, seq, "ab" * 32)}))


@pytest.mark.parametrize("known", [True, False])
def test_history_that_was_cut_before_the_set_knew_it_is_seeded_again(realm: Maintained, known: bool) -> None:
    realm.expire("*=2n")
    with pytest.raises(RetainedIncomplete, match="are cut"):
        list(present_entries(realm.backend, REALM, {MAIN: 9}, {MAIN: at(realm, 3)} if known else {}))


def test_pointers_whose_entry_is_not_in_the_store_are_reported(realm: Maintained) -> None:
    here = realm.logs[MAIN][4].entry_id.hex()
    lost = {f"cat/{number}/heads/lost": f"{number:016x}{'ab' * 24}" for number in range(1, 2_500)}
    assert pointers_of_lost_entries(realm.backend, REALM, {MAIN: here, **lost}) == set(lost)


STATE = RetainedState(realm="r#1", positions={"p": SegmentPosition(3, 5, "e5")})


def test_a_batch_moves_a_set_only_by_entries_that_follow_it() -> None:
    assert reached(STATE, [PointerBatch("r#1", "p", 6, 9, "e9", "e5")]) == {"p": SegmentPosition(3, 9, "e9")}
    assert reached(STATE, [PointerBatch("r#1", "new", 1, 2, "f2", "")]) == {"new": SegmentPosition(1, 2, "f2")}


@pytest.mark.parametrize(
    "batch",
    [
        PointerBatch("r#1", "p", 7, 9, "e9", "e6"),
        PointerBatch("r#1", "p", 6, 9, "e9", "another 5"),
        PointerBatch("r#1", "p", 6, 9, "e9", ""),
        PointerBatch("r#1", "p", 6, 9, "e9", "e5", is_linked=False),
        PointerBatch("r#1", "new", 2, 9, "e9", "e1"),
    ],
    ids=["a gap before it", "another history", "an unknown predecessor", "a gap in it", "not from the first entry on"],
)
def test_a_batch_that_does_not_follow_the_set_is_refused(batch: PointerBatch) -> None:
    with pytest.raises(RetainedIncomplete, match="do not follow"):
        reached(STATE, [batch])
