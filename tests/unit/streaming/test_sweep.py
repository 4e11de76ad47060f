"""Generated histories are expired and swept: what policy keeps is whole, everything else that is old enough is gone, and the
counters say what happened. Each safeguard, switched off, is seen to lose data."""

from __future__ import annotations

import os
from collections import Counter

import msgspec
import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.commit import draft
from headwater.persistence.coordination.realm_fence import read_realm_fence, take_realm_fence
from headwater.persistence.objects.object_types import Life, ObjectType, ObjectTypes
from headwater.persistence.objects.realm_objects import NewObject, RealmObjects
from headwater.persistence.rows import FENCE_CLOSED, ScannedRow, Table
from headwater.schemas.change import Kind
from headwater.schemas.errors import (
    FilterOverflow,
    InvalidInput,
    MaintenanceRefused,
    MaintenanceRunning,
    MaintenanceSuperseded,
    ObjectNotFound,
    StoreUnavailable,
)
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.id_set import IdCollector
from headwater.streaming.reachability.retained_identifiers import Identifiers, LogIdentifier, Marks, WalkedRealm
from headwater.streaming.reachability.safeguards import Safeguards
from headwater.streaming.reachability.segments import SegmentPosition
from headwater.streaming.retained.bloom import BloomFilter
from headwater.streaming.retained.retained_sources import Retained, WalkedSource
from headwater.streaming.runs.runs import Runs, RunStatus
from headwater.streaming.sweep.sweep_task import RateLimit
from tests.support.fixtures.maintained import DEV, HOUR, MAIN, Maintained
from tests.support.models.commit_harness import REALM, reachable_at, state_at

SOAK = os.environ.get("HEADWATER_SOAK") == "1"


def new_realm(seed: int = 0) -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return Maintained(backend, seed=seed)


@pytest.fixture
def realm() -> Maintained:
    return new_realm()


# ── exact ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["exact", "bloom"])
@pytest.mark.parametrize("seed", range(60 if SOAK else 8))
def test_after_a_sweep_exactly_what_the_kept_states_reach_is_there(
    seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft, "TAIL_ENTRIES_MAX", 4)
    monkeypatch.setattr(draft, "OPERATIONS_BYTES_MAX", 700)
    realm = new_realm(seed)
    purged = 0
    for _ in range(3):
        for _ in range(20):
            realm.step()
        realm.expire("cat/*=20h, *=8n")
        realm.clock.move(4 * HOUR)  # beyond the grace
        reachable, before = realm.reachable(), Counter(row.type for row in realm.rows())
        report = realm.sweep(filter=kind)
        assert realm.ids() == reachable
        realm.check_states()
        counts = report.counts[REALM]
        after = Counter(row.type for row in realm.rows())
        for name, total in before.items():
            assert (counts[name].scanned, counts[name].retained) == (total, after[name])
            assert counts[name].purged == total - after[name] and counts[name].failed == counts[name].newer == 0
        assert realm.record.status is RunStatus.DONE and realm.record.counts[REALM].keys() == counts.keys()
        purged += sum(counts[name].purged for name in counts)
    assert purged > 0  # a short history may have nothing that may go yet


def test_files_younger_than_the_grace_stay_until_a_later_sweep(realm: Maintained) -> None:
    realm.write()
    orphan = realm.orphan()
    realm.clock.move(2 * HOUR)
    assert realm.sweep().counts[REALM]["content"].newer == 1
    assert orphan in realm.ids()
    realm.clock.move(2 * HOUR)
    assert realm.sweep().counts[REALM]["content"].purged == 1
    assert orphan not in realm.ids()


def test_a_dry_run_deletes_nothing_and_shows_a_sample(realm: Maintained) -> None:
    realm.write()
    orphan = realm.orphan()
    realm.clock.move(4 * HOUR)
    report = realm.sweep(dry_run=True)
    counts = report.counts[REALM]["content"]
    assert (counts.would_purge, counts.purged) == (1, 0)
    assert [doomed.id for doomed in report.sample] == [orphan] and orphan in realm.ids()


def test_big_objects_go_with_all_their_parts(realm: Maintained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "OPERATIONS_BYTES_MAX", 700)
    monkeypatch.setattr("headwater.persistence.objects.codec.ROW_BYTES_MAX", 1_000)
    realm.write(count=30)
    assert any(row.part > 0 for row in realm.rows())
    for _ in range(60):
        realm.write(count=1)
    realm.expire("*=2n")
    realm.clock.move(4 * HOUR)
    reachable = realm.reachable()
    assert realm.sweep().counts[REALM]["entry-ops"].purged >= 1
    assert realm.ids() == reachable


def test_the_system_realm_is_swept_like_every_other(realm: Maintained) -> None:
    system = Maintained(realm.backend, realm="::system::")
    for _ in range(60):
        system.write("realms", 1)
    system.expire("realms=1n")  # a rule that names it: `*` keeps the history of realms
    system.clock.move(4 * HOUR)
    reachable = system.reachable()
    assert system.sweep().counts["::system::"]["entry"].purged > 10
    assert system.ids() == reachable
    system.check_states()


def test_a_realm_that_is_just_being_closed_is_skipped_and_stays_closed(realm: Maintained) -> None:
    realm.write()
    orphan = realm.orphan()
    realm.clock.move(4 * HOUR)
    seen = read_realm_fence(realm.backend, REALM)
    assert take_realm_fence(realm.backend, seen, FENCE_CLOSED, realm.clock) is not None
    report = realm.sweep()
    assert "closed" in report.skipped[REALM] and orphan in realm.ids()
    assert read_realm_fence(realm.backend, REALM).is_closed


def test_a_state_that_misses_an_object_stops_the_sweep_of_its_realm(realm: Maintained) -> None:
    realm.write(count=30)
    for _ in range(40):
        realm.write()
    orphan = realm.orphan()
    realm.clock.move(4 * HOUR)
    delete_rows(realm, lambda row: row.type == "idx-s")
    before = realm.ids()
    report = realm.sweep()
    assert report.failures and report.swept == []
    assert realm.ids() == before and orphan in before


def delete_rows(realm: Maintained, which: object) -> None:
    assert callable(which)
    gone = [row for row in realm.rows() if which(row)]
    assert gone
    realm.backend.delete_scanned(gone)


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────


class Memo(msgspec.Struct, frozen=True, array_like=True):
    text: str


class MemoIdentifier:
    """Owned memos live with the content whose id is one less."""

    type = "content"
    covers = frozenset({"memo"})

    def identify(self, realm: WalkedRealm, object_id: int, marks: Marks) -> None:
        marks.mark("memo", [object_id + 1])


def typed(life: Life) -> tuple[ObjectTypes, ObjectType[Memo]]:
    types = ObjectTypes()
    memo = types.register(ObjectType("memo", Memo, life))
    from headwater.persistence.objects.object_types import OBJECT_TYPES

    for name in OBJECT_TYPES.names():
        known = OBJECT_TYPES.find(name)
        assert known is not None
        types.register(known)
    return types, memo


def with_memos(realm: Maintained, life: Life) -> tuple[ObjectTypes, int, int]:
    types, memo = typed(life)
    realm.write(count=1)
    content = next(row.id for row in realm.rows() if row.type == "content")
    objects = RealmObjects(realm.backend, REALM, None, types)
    orphan = realm.orphan() + 1
    new = [NewObject(memo, content + 1, Memo("kept")), NewObject(memo, orphan, Memo("parent gone"))]
    objects.write_strong(new, realm.clock.now_micros())
    realm.clock.move(4 * HOUR)
    return types, content + 1, orphan


def test_a_type_that_no_identifier_covers_is_never_purged(realm: Maintained) -> None:
    types, owned, orphan = with_memos(realm, Life.OWNED)
    realm.sweep(identifiers=Identifiers(types=types))
    assert {owned, orphan} <= realm.ids()


def test_an_unregistered_type_is_never_purged(realm: Maintained) -> None:
    _, owned, orphan = with_memos(realm, Life.OWNED)
    realm.sweep(identifiers=Identifiers(of_objects=[MemoIdentifier()]))
    assert {owned, orphan} <= realm.ids()


def test_an_owned_object_is_swept_with_its_parent(realm: Maintained) -> None:
    types, owned, orphan = with_memos(realm, Life.OWNED)
    realm.sweep(identifiers=Identifiers(of_objects=[MemoIdentifier()], types=types))
    assert owned in realm.ids() and orphan not in realm.ids()


def test_a_set_that_covers_only_logs_purges_nothing_else(realm: Maintained) -> None:
    """As a streamed set does: Changes tell nothing of what plug-ins own."""
    types, owned, orphan = with_memos(realm, Life.OWNED)
    lost = realm.orphan()
    realm.clock.move(4 * HOUR)
    found = msgspec.structs.replace(retained_now(realm), covers=LogIdentifier.covers)
    realm.sweep(source=StaleSource(found), identifiers=Identifiers(of_objects=[MemoIdentifier()], types=types))
    assert {owned, orphan} <= realm.ids() and lost not in realm.ids()


def test_a_mutable_type_is_never_swept_and_would_be_without_the_safeguard(realm: Maintained) -> None:
    types, _, orphan = with_memos(realm, Life.MUTABLE)
    known = Identifiers(of_objects=[MemoIdentifier()], types=types)
    realm.sweep(identifiers=known)
    assert orphan in realm.ids()
    realm.sweep(identifiers=known, safeguards=Safeguards(spare_mutable=False))
    assert orphan not in realm.ids()


# ── each safeguard, switched off ────────────────────────────────────────────────────────────────────────────


class StaleSource:
    """A retained set as it was some commits ago, as a stream that lags would have it."""

    def __init__(self, retained: Retained) -> None:
        self._retained = retained

    def retained(self, fenced: FencedRealm) -> Retained:
        return self._retained


def stale(realm: Maintained) -> StaleSource:
    from headwater.streaming.reachability.fence import fence_realm

    realm.write(count=5)
    source = StaleSource(WalkedSource(realm.backend, Identifiers()).retained(fence_realm(realm.backend, REALM, realm.clock)))
    realm.write(count=5)
    realm.clock.move(4 * HOUR)
    return source


def test_a_retained_set_of_another_history_deletes_nothing_however_far_it_reaches(realm: Maintained) -> None:
    """A store that was put back to a backup, and another one whose set lies in the same folder: the set reaches every head."""
    other = new_realm(1)
    for _ in range(9):
        other.write()
    found = retained_now(other)
    for _ in range(3):
        realm.write()
    realm.clock.move(4 * HOUR)
    before = realm.ids()
    report = realm.sweep(source=StaleSource(found))
    assert report.swept == [] and "not in this log" in report.failures[0]
    assert realm.ids() == before


def test_a_retained_set_that_continues_after_the_fence_may_be_used_for_a_sweep(realm: Maintained) -> None:
    class ReadOn:
        def retained(self, fenced: FencedRealm) -> Retained:
            for _ in range(20):
                realm.write()
            return retained_now(realm)

    realm.write()
    lost = realm.orphan()
    realm.clock.move(4 * HOUR)
    report = realm.sweep(source=ReadOn())
    assert not report.failures and lost not in realm.ids()
    realm.check_states()


def test_a_retained_set_behind_a_head_deletes_nothing(realm: Maintained) -> None:
    source = stale(realm)
    before = realm.ids()
    report = realm.sweep(source=source)
    assert "must stay" in report.failures[0] and realm.ids() == before


def test_without_the_completeness_check_a_stale_set_loses_reachable_objects(realm: Maintained) -> None:
    source = stale(realm)
    realm.sweep(source=source, safeguards=Safeguards(completeness=False))
    with pytest.raises(ObjectNotFound):
        realm.check_states()


def test_a_set_that_ends_in_another_entry_of_that_number_is_refused(realm: Maintained) -> None:
    other = new_realm(1)
    other.write(count=5)
    source = StaleSource(retained_now(other))
    realm.write(count=5)
    realm.clock.move(4 * HOUR)
    assert "another entry" in realm.sweep(source=source).failures[0]
    realm.check_states()


def of_two_histories(realm: Maintained) -> Retained:
    """A set that ends in the log's own entries, but was told of another entry 2: what the log's entry 2 added is not in it."""
    for _ in range(4):
        realm.write()
    realm.clock.move(4 * HOUR)
    found = retained_now(realm)
    kernel = realm.cold().kernel
    entries = realm.logs[MAIN]
    unknown = reachable_at(kernel, entries[1]) - reachable_at(kernel, entries[0])
    ids = IdCollector()
    ids.add(id for id in found.ids.local() if id not in unknown)
    passed = {MAIN: [SegmentPosition(1, 2, "ab" * 32), found.positions[MAIN]]}
    return msgspec.structs.replace(found, ids=ids.finish(), passed=passed)


def test_a_set_that_has_passed_an_entry_which_is_not_in_the_log_deletes_nothing(realm: Maintained) -> None:
    source = StaleSource(of_two_histories(realm))
    before = realm.ids()
    report = realm.sweep(source=source)
    assert report.swept == [] and "the entry 2 of the retained set is not in this log" in report.failures[0]
    assert realm.ids() == before


def test_without_a_look_at_every_position_a_set_of_two_histories_loses_reachable_objects(realm: Maintained) -> None:
    realm.sweep(source=StaleSource(of_two_histories(realm)), safeguards=Safeguards(every_position=False))
    with pytest.raises(ObjectNotFound):
        realm.check_states()


def test_positions_that_are_in_the_log_or_below_the_floor_do_not_stop_a_sweep(realm: Maintained) -> None:
    for _ in range(30):
        realm.write()
    realm.expire("*=20n")
    lost = realm.orphan()
    realm.clock.move(4 * HOUR)
    ids = [logged.entry_id.hex() for logged in realm.logs[MAIN]]
    passed = {MAIN: [SegmentPosition(1, 3, "ab" * 32), *(SegmentPosition(1, seq, ids[seq - 1]) for seq in (11, 12, 25, 30))]}
    report = realm.sweep(source=StaleSource(msgspec.structs.replace(retained_now(realm), passed=passed)))
    assert not report.failures and lost not in realm.ids()
    realm.check_states()


def retained_now(realm: Maintained) -> Retained:
    from headwater.streaming.reachability.fence import fence_realm

    return WalkedSource(realm.backend, Identifiers()).retained(fence_realm(realm.backend, realm.realm, realm.clock))


def test_without_the_grace_a_new_pointers_first_commit_would_be_lost(realm: Maintained) -> None:
    """The pointer is made after names were listed: only the age of its objects protects them."""
    realm.write()
    realm.sweep(before_delete=lambda: void(realm.write(DEV)))
    realm.check_states()
    new_name = "cat/1/heads/late"
    realm.sweep(before_delete=lambda: void(realm.write(new_name)), safeguards=Safeguards(grace=False))
    with pytest.raises(ObjectNotFound):
        realm.check_states()


def void(_: object) -> None:
    return None


def test_without_one_salt_the_probe_refuses_and_nothing_is_deleted(realm: Maintained) -> None:
    for _ in range(5):
        realm.write(count=5)
    realm.clock.move(4 * HOUR)
    before = realm.ids()
    with pytest.raises(MaintenanceRefused, match="has lost object"):
        realm.sweep(filter="bloom", safeguards=Safeguards(one_salt=False))
    assert realm.ids() == before
    realm.sweep(filter="bloom", safeguards=Safeguards(one_salt=False, probe=False))
    with pytest.raises(ObjectNotFound):
        realm.check_states()


def test_an_overfull_filter_deletes_nothing_and_sizes_the_next(realm: Maintained) -> None:
    for _ in range(30):
        realm.write(count=10)
    orphan = realm.orphan()
    realm.clock.move(4 * HOUR)
    with pytest.raises(FilterOverflow):
        realm.sweep(filter="bloom", capacity=20)
    assert orphan in realm.ids()
    failed = Runs(realm.backend, realm.clock).list()[0]
    assert failed.status is RunStatus.FAILED and failed.false_positives > 5e-5 and failed.retained_ids > 20
    realm.sweep(filter="bloom")
    assert orphan not in realm.ids() and realm.record.false_positives <= 5e-5


def test_a_bloom_filter_holds_every_id_and_has_few_false_positives() -> None:
    bloom = BloomFilter(10_000, b"salt" * 4)
    bloom.add("r", range(10_000))
    assert all(bloom.keeps("r", number) for number in range(10_000))
    assert sum(bloom.keeps("r", number) for number in range(10_000, 110_000)) <= 15
    assert bloom.measured_false_positives() < 2e-5
    assert sum(bloom.keeps("other realm", number) for number in range(10_000)) <= 5


# ── failures, limits, runs ──────────────────────────────────────────────────────────────────────────────────


def test_a_row_that_cannot_be_deleted_is_reported_and_deleted_next_time(
    realm: Maintained, monkeypatch: pytest.MonkeyPatch
) -> None:
    realm.write()
    orphans = [realm.orphan() for _ in range(10)]
    realm.clock.move(4 * HOUR)
    stuck = orphans[4]
    delete_scanned = realm.backend.delete_scanned

    def refuses_one(rows: list[ScannedRow], *, of: str = "") -> object:
        if any(row.id == stuck for row in rows):
            raise StoreUnavailable("one row is stuck.")
        return delete_scanned(rows, of=of)

    with monkeypatch.context() as patch:
        patch.setattr(realm.backend, "delete_scanned", refuses_one)
        report = realm.sweep()
    counts = report.counts[REALM]["content"]
    assert (counts.purged, counts.failed) == (9, 1) and str(stuck) in report.failures[0]
    assert stuck in realm.ids()
    assert realm.sweep().counts[REALM]["content"].purged == 1
    assert stuck not in realm.ids()


def test_a_row_that_was_written_again_is_not_counted_as_purged(realm: Maintained, monkeypatch: pytest.MonkeyPatch) -> None:
    realm.write()
    orphan = realm.orphan()
    realm.clock.move(4 * HOUR)
    rewritten = realm.backend.fetch_objects(REALM, [orphan])[orphan]
    delete_scanned = realm.backend.delete_scanned

    def after_a_rewrite(rows: list[ScannedRow], *, of: str = "") -> object:
        realm.backend.write_objects(REALM, rewritten)
        return delete_scanned(rows, of=of)

    monkeypatch.setattr(realm.backend, "delete_scanned", after_a_rewrite)
    assert realm.sweep().counts[REALM]["content"].purged == 0
    assert orphan in realm.ids()


def test_a_grace_below_the_minimum_is_refused(realm: Maintained) -> None:
    with pytest.raises(InvalidInput, match="grace"):
        realm.sweep(grace_seconds=299)


def test_one_run_at_a_time_and_superseded_only_by_name(realm: Maintained) -> None:
    runs = Runs(realm.backend, realm.clock)
    with pytest.raises(MaintenanceSuperseded), runs.run("sweep") as first:
        with pytest.raises(MaintenanceRunning) as refused, runs.run("expire"):
            pass
        assert refused.value.facts["run"] == first.record.id
        with pytest.raises(InvalidInput, match="is not running"), runs.run("expire", supersede="another"):
            pass
        realm.clock.move(1)
        with runs.run("expire", supersede=first.record.id):
            first.renew()
            with pytest.raises(MaintenanceSuperseded):
                first.check()
    assert [record.status for record in runs.list()] == [RunStatus.DONE, RunStatus.SUPERSEDED]


def test_a_run_that_died_is_followed_when_its_lease_has_ended(realm: Maintained) -> None:
    runs = Runs(realm.backend, realm.clock)
    runs._start("sweep", False, None)  # and its process is killed
    with pytest.raises(MaintenanceRunning), runs.run("sweep"):
        pass
    realm.clock.move(61)
    with runs.run("sweep"):
        pass
    assert [record.status for record in runs.list()] == [RunStatus.DONE, RunStatus.ABANDONED]


def test_the_last_fifty_runs_are_kept(realm: Maintained) -> None:
    runs = Runs(realm.backend, realm.clock)
    for _ in range(55):
        realm.clock.move(1)
        with runs.run("sweep"):
            pass
    assert len(runs.list()) == 50


def test_sweeping_twice_finds_nothing_the_second_time(realm: Maintained) -> None:
    for _ in range(60):
        realm.step()
    realm.expire("*=5n")
    realm.clock.move(4 * HOUR)
    realm.sweep()
    again = realm.sweep()
    assert sum(counts.purged + counts.newer for counts in again.counts[REALM].values()) == 0


def test_names_and_pointers_are_untouched(realm: Maintained) -> None:
    for _ in range(30):
        realm.step()
    realm.move_to(DEV, Kind.DELETE)
    realm.expire("*=1n")
    realm.clock.move(4 * HOUR)
    count = {table: rows_in(realm, table) for table in (Table.POINTERS, Table.NAMES)}
    realm.sweep()
    assert count == {table: rows_in(realm, table) for table in (Table.POINTERS, Table.NAMES)}
    assert state_at(realm.cold().kernel, realm.logs[DEV][-1]) == {}
    assert reachable_at(realm.cold().kernel, realm.logs[MAIN][-1]) <= realm.ids()


def rows_in(realm: Maintained, table: Table) -> int:
    return sum(1 for split in realm.backend.splits(table, 1) for _ in realm.backend.scan(split, realm=REALM))


def test_several_realms_are_swept_in_one_scan_and_one_that_fails_is_left_alone(realm: Maintained) -> None:
    others = [Maintained(realm.backend, seed=number, realm=f"other@{number}", clock=realm.clock) for number in (1, 2)]
    for one in (realm, *others):
        for _ in range(30):
            one.step()
        one.expire("*=4n")
    realm.clock.move(4 * HOUR)
    broken = others[1]
    delete_rows(broken, lambda row: row.id == broken.logs[MAIN][-1].object_id)
    untouched = broken.ids()
    reachable = [one.reachable() for one in (realm, others[0])]
    report = realm.sweep(realms=[REALM, "other@1", "other@2"])
    assert report.swept == [REALM, "other@1"] and "other@2" in report.skipped and len(report.failures) == 1
    assert [realm.ids(), others[0].ids()] == reachable and broken.ids() == untouched
    assert set(realm.record.counts) == {REALM, "other@1"}
    for one in (realm, others[0]):
        one.check_states()


def test_a_lease_that_is_renewed_outlives_its_first_end(realm: Maintained) -> None:
    runs = Runs(realm.backend, realm.clock)
    with runs.run("sweep") as run:
        realm.clock.move(50)
        run.renew()
        realm.clock.move(50)
        with pytest.raises(MaintenanceRunning), runs.run("expire"):
            pass
        run.check()


def test_rows_are_deleted_no_faster_than_asked() -> None:
    now = [0.0]
    limit = RateLimit(100.0, monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    for _ in range(10):
        limit.wait(50)
    assert now[0] == pytest.approx(4.5)  # the first fifty go at once
