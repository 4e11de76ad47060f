"""Floors rise by age and count, with an anchor that proves the chain, and never past what somebody still needs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.records.subscriptions import SubscriptionRecord, Subscriptions
from headwater.persistence.store import open_store
from headwater.producer.commits.catalog_commit import CommitResult, commit_result
from headwater.producer.merging.merge import MergeRequest
from headwater.producer.publisher.assignment.generations import Generations
from headwater.producer.publisher.kafka.realm_topics import RealmTopics, Topic
from headwater.producer.publisher.shards.shard_pins import ShardPins
from headwater.schemas.change import Kind
from headwater.schemas.cursor import Position
from headwater.schemas.errors import CursorExpired, InvalidInput, MaintenanceSuperseded, MergeBaseExpired, ReferenceNotFound
from headwater.streaming.expire.expire import ExpiredPointer, Expiry, expire_realms
from headwater.streaming.expire.readers import PIN_SECONDS, POINTERS_PER_ROW, RegisteredReaders
from headwater.streaming.expire.retention import DEFAULT, FOR_EVER, Retention, parse_retention, retention_of
from headwater.streaming.runs.runs import Runs
from tests.support.faults.faulty_backend import Crash, FaultyBackend, crash_before
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import META, Lake
from tests.support.fixtures.maintained import HOUR, MAIN, Maintained, sweep_store
from tests.support.models.commit_harness import checked_log, store_on

OTHER = "catalogs"

DAY = 86_400


@pytest.fixture
def realm() -> Maintained:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return Maintained(backend)


# ── rules ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_rule_that_fits_holds_and_thirty_days_are_the_default() -> None:
    rules = parse_retention("cat/*/heads/main=90d, cat/*=100n , principals=2h+10n")
    assert retention_of("cat/7/heads/main", rules) == Retention(pattern="cat/*/heads/main", age_seconds=90 * DAY)
    assert retention_of("cat/7/tags/x", rules).entries == 100
    assert retention_of("principals", rules) == Retention(pattern="principals", age_seconds=7_200, entries=10)
    assert retention_of("catalogs", rules) == DEFAULT and DEFAULT.age_seconds == 30 * DAY


@pytest.mark.parametrize(
    "pointer", ["principals", "principal-roles", "grants", "policy-mappings", "realms", "cat/7/roles", "cat/7/grants"]
)
def test_the_history_of_rights_expires_only_by_a_rule_that_names_it(realm: Maintained, pointer: str) -> None:
    for text in ("*=1n", "cat/*=1n", "*s=1n", "c*=1n, *=0s"):
        assert retention_of(pointer, parse_retention(text)) == FOR_EVER
    named = f"cat/*/{pointer.rpartition('/')[2]}=1n" if "/" in pointer else f"{pointer}=1n"
    assert retention_of(pointer, parse_retention(f"*=1n, {named}")).entries == 1
    for _ in range(5):
        realm.write(pointer)
    realm.expire("*=1n")
    assert realm.floor(pointer) == 1
    realm.expire(named)
    assert realm.floor(pointer) == 5


@pytest.mark.parametrize("text", ["30d", "*=", "*=30", "*=30w", "=30d", "*=30d+", "*=-1d"])
def test_an_invalid_rule_is_refused_with_the_correct_syntax(text: str) -> None:
    with pytest.raises(InvalidInput, match="retention rule"):
        parse_retention(text)


@pytest.mark.parametrize(("rule", "floor"), [("*=10h", 31), ("*=7n", 34), ("*=10h+7n", 31), ("*=3h+20n", 21), ("*=1n", 40)])
def test_floors_rise_as_far_as_age_and_count_both_allow(realm: Maintained, rule: str, floor: int) -> None:
    for _ in range(40):
        realm.write()
    realm.clock.move(1)
    assert realm.expire(rule, dry_run=True).expired == floor - 1 and realm.floor(MAIN) == 1
    assert realm.expire(rule).expired == floor - 1
    assert realm.floor(MAIN) == floor
    assert len(checked_log(realm.cold().kernel, MAIN)) == 40 - floor + 1  # from the anchor on, each link recomputed
    assert realm.expire(rule).expired == 0


def test_the_newest_entry_stays_at_any_age(realm: Maintained) -> None:
    realm.write()
    realm.write()
    realm.clock.move(365 * DAY)
    assert realm.expire("*=30d").expired == 1
    assert realm.floor(MAIN) == 2


# ── pins ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_subscription_holds_the_floor_until_its_maximum_age(realm: Maintained) -> None:
    for _ in range(10):
        realm.write()
    position = Position(4, realm.logs[MAIN][3].entry_id)
    Subscriptions(realm.kernel).create("reader", SubscriptionRecord({MAIN: position}, pin_seconds=5 * DAY))
    report = realm.expire("*=1n")
    assert realm.floor(MAIN) == 5 and report.pointers[0].held_by == "subscription reader"
    realm.clock.move(6 * DAY)
    realm.expire("*=1n")
    assert realm.floor(MAIN) == 10


def test_unpublished_entries_are_pinned(realm: Maintained) -> None:
    for _ in range(10):
        realm.write()
    ShardPins(realm.backend, realm.clock, realm.realm, 0, 1, 7 * DAY).write({MAIN: 4})
    report = realm.expire("*=1n")
    assert realm.floor(MAIN) == 5 and report.pointers[0].held_by == "publisher"
    realm.clock.move(8 * DAY)
    realm.expire("*=1n")
    assert realm.floor(MAIN) == 10


def test_a_pointer_created_since_the_last_publish_is_held_from_its_first_entry(realm: Maintained) -> None:
    realm.step_seconds = 60
    for _ in range(10):
        realm.write(MAIN)
    pins = ShardPins(realm.backend, realm.clock, realm.realm, 0, 1, 7 * DAY)
    pins.write({MAIN: 10})
    for _ in range(10):
        realm.write(MAIN)
        realm.write(OTHER)
    report = realm.expire("*=1n")
    assert (realm.floor(MAIN), realm.floor(OTHER)) == (11, 1)
    assert {one.held_by for one in report.pointers} == {"publisher"}
    realm.clock.move(6 * DAY)
    pins.write({MAIN: 20})
    realm.expire("*=1n")
    assert (realm.floor(MAIN), realm.floor(OTHER)) == (20, 1)
    realm.clock.move(2 * DAY)  # the other shard was away for longer than history is kept for it
    realm.expire("*=1n")
    assert realm.floor(OTHER) == 10


def test_a_new_generation_holds_every_pointer_that_it_has_not_published_yet(realm: Maintained) -> None:
    """Of two shards one has written its first pin: pins of the old generation say nothing about the new topic."""
    realm.step_seconds = 60
    for _ in range(10):
        realm.write(MAIN)
        realm.write(OTHER)
    for shard, pointer in enumerate((MAIN, OTHER)):
        ShardPins(realm.backend, realm.clock, realm.realm, shard, 1, 7 * DAY).write({pointer: 10})
    ShardPins(realm.backend, realm.clock, realm.realm, 0, 2, 7 * DAY).write({MAIN: 4})
    realm.expire("*=1n")
    assert (realm.floor(MAIN), realm.floor(OTHER)) == (5, 1)


@pytest.mark.parametrize("restart", [True, False])
def test_a_generation_that_an_operator_asked_for_holds_everything_before_it_begins(realm: Maintained, restart: bool) -> None:
    realm.step_seconds = 60
    for _ in range(10):
        realm.write(MAIN)
    generations = Generations(realm.backend, realm.clock)
    commits, progress = (Topic(name=name, id=name, partitions=1) for name in ("commits", "progress"))
    generations.first(realm.realm, RealmTopics(commits=commits, progress=progress))
    ShardPins(realm.backend, realm.clock, realm.realm, 0, 1, 7 * DAY).write({MAIN: 10})
    if restart:
        generations.restart(realm.realm)
    realm.expire("*=1n")
    assert realm.floor(MAIN) == (1 if restart else 10)


def test_a_registered_reader_also_holds_pointers_that_it_has_not_seen(realm: Maintained) -> None:
    for _ in range(10):
        realm.write(MAIN)
        realm.write(OTHER)
    readers = RegisteredReaders(realm.backend, realm.realm, realm.clock)
    readers.save("retained", {MAIN: 6})
    realm.expire("*=1n")
    assert (realm.floor(MAIN), realm.floor(OTHER)) == (7, 1)
    readers.save("retained", {MAIN: 10, OTHER: 3})
    realm.expire("*=1n")
    assert (realm.floor(MAIN), realm.floor(OTHER)) == (10, 4)
    realm.clock.move(PIN_SECONDS + 1)
    realm.expire("*=1n")
    assert realm.floor(OTHER) == 10, "its pin has reached its maximum age"


def test_a_reader_that_is_forgotten_pins_nothing(realm: Maintained) -> None:
    for _ in range(10):
        realm.write(MAIN)
    readers = RegisteredReaders(realm.backend, realm.realm, realm.clock)
    readers.save("retained", {MAIN: 4})
    realm.expire("*=1n")
    assert realm.floor(MAIN) == 5
    readers.forget("retained")
    realm.expire("*=1n")
    assert realm.floor(MAIN) == 10


def test_a_reader_of_many_pointers_has_several_rows(realm: Maintained) -> None:
    readers = RegisteredReaders(realm.backend, realm.realm, realm.clock)
    many = {f"p{number}": number for number in range(2 * POINTERS_PER_ROW + 1)}
    readers.save("archive", many)
    assert readers.list()[0].positions == many
    readers.save("archive", {"p1": 1})
    assert readers.list()[0].positions == {"p1": 1}


def test_a_pointer_in_two_rows_of_a_reader_is_held_at_the_lower_position(realm: Maintained) -> None:
    """A save that is half done has moved pointers from one row to the next."""
    inner = realm.backend
    readers = RegisteredReaders(inner, realm.realm, realm.clock)
    many = {f"p{number:05d}": 9 for number in range(POINTERS_PER_ROW + 1)}
    readers.save("archive", many)
    faulty = FaultyBackend(inner)
    faulty.arm(crash_before("delete_mutable"))
    with pytest.raises(Crash):
        RegisteredReaders(faulty, realm.realm, realm.clock).save("archive", dict.fromkeys(list(many)[1:], 5))
    positions = readers.list()[0].positions
    assert positions[f"p{POINTERS_PER_ROW:05d}"] == 5 and "p00000" not in positions


# ── live branches ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lake() -> Iterator[Lake]:
    with open_store(f"memory://{secrets.token_hex(6)}", create=True, clock=ManualClock()) as store:
        yield Lake(store)


def pass_time(lake: Lake, seconds: float = HOUR) -> None:
    clock = lake.store.clock
    assert isinstance(clock, ManualClock)
    clock.move(seconds)


def maintain(lake: Lake, rules: str = "*=1n") -> None:
    Expiry(lake.kernel, parse_retention(rules)).run()
    pass_time(lake, 4 * HOUR)
    report, _ = sweep_store(lake.store, [lake.kernel.realm])
    assert not report.failures


def floor_of(lake: Lake, branch: str) -> int:
    row = lake.store.backend.read_pointer(lake.kernel.realm, lake.pointer(branch))
    assert row is not None
    return row.floor


def merge(lake: Lake, source: str, into: str) -> CommitResult:
    resolved = lake.refs.resolve(source)
    request = MergeRequest(lake.kernel, resolved.logged, resolved.pointer, META)
    return commit_result(lake.kernel, lake.kernel.committer.commit(lake.pointer(into), request))


def test_a_live_branch_pins_its_merge_base_until_it_is_deleted(lake: Lake) -> None:
    for number in range(5):
        lake.put(f"t{number}")
    lake.refs.create("dev", meta=META)  # from entry 6: the first one created main
    lake.put("on-dev", on="dev")
    for number in range(5):
        lake.put(f"later{number}")
    maintain(lake)
    assert (floor_of(lake, "main"), floor_of(lake, "dev")) == (6, 1)
    merge(lake, "dev", "main")
    assert ("on-dev",) in lake.keys("main")
    lake.refs.delete("dev", meta=META)
    maintain(lake)
    assert floor_of(lake, "main") == 12


def test_after_a_merge_the_pin_moves_on_to_the_newer_merge_base(lake: Lake) -> None:
    lake.put("t")
    lake.refs.create("dev", meta=META)
    for round_number in range(6):
        lake.put(f"dev{round_number}", on="dev")
        merge(lake, "dev", "main")
        lake.put(f"main{round_number}")
        merge(lake, "main", "dev")
        maintain(lake)
        assert floor_of(lake, "main") == 2 + 2 * (round_number + 1) and floor_of(lake, "dev") == 1 + 2 * (round_number + 1)
    lake.put("last", on="dev")
    merge(lake, "dev", "main")
    assert set(lake.keys("main")) == set(lake.keys("dev"))


def test_a_merge_base_on_a_deleted_branch_is_pinned_too(lake: Lake) -> None:
    lake.put("t")
    lake.refs.create("middle", meta=META)
    lake.put("m", on="middle")
    lake.refs.create("leaf", "middle", meta=META)
    lake.put("l", on="leaf")
    lake.refs.delete("middle", meta=META)
    for number in range(4):
        lake.put(f"later{number}")
    maintain(lake)
    merge(lake, "leaf", "main")
    assert {("m",), ("l",)} <= set(lake.keys("main"))


def test_a_branch_at_truncated_history_is_refused_and_so_is_a_merge_with_a_truncated_base(lake: Lake) -> None:
    old = lake.put("t")
    lake.refs.create("dev", meta=META)
    for number in range(30):  # enough that no state needs the old entries any more
        lake.put(f"d{number}", on="dev")
        lake.put(f"later{number}")
    for branch in ("main", "dev"):  # what no expiry does while dev lives
        lake.raise_floor(lake.pointer(branch), 30)
    pass_time(lake, 4 * HOUR)
    sweep_store(lake.store, [lake.kernel.realm])
    cold = Lake(store_on(lake.store.backend, clock=lake.store.clock))  # a process that has nothing cached
    with pytest.raises((CursorExpired, ReferenceNotFound)):
        cold.refs.create("late", f"main@{old}", meta=META)
    with pytest.raises((MergeBaseExpired, CursorExpired)):
        merge(cold, "dev", "main")


def test_the_deleted_references_history_expires_like_any_other(realm: Maintained) -> None:
    for _ in range(5):
        realm.write("cat/1/heads/gone")
    realm.move_to("cat/1/heads/gone", Kind.DELETE)
    realm.clock.move(40 * DAY)
    realm.expire("")
    assert realm.floor("cat/1/heads/gone") == 6


def test_an_expiry_that_is_superseded_raises_no_more_floors(realm: Maintained) -> None:
    """An export that takes over pins what it reads: a floor that rises behind its back would let a sweep take that."""
    for _ in range(30):
        realm.step()
    runs = Runs(realm.backend, realm.clock)
    risen: list[str] = []

    def taken_over(pointer: ExpiredPointer) -> None:
        risen.extend([pointer.pointer] if pointer.expired else [])
        if len(risen) == 1 and pointer.expired:
            with runs.run("export", supersede=run.record.id):
                pass

    with pytest.raises(MaintenanceSuperseded), runs.run("expire") as run:
        expire_realms(realm.store, run, [realm.kernel.realm], parse_retention("*=1n"), on_pointer=taken_over)
    rows = dict(realm.backend.all_pointers(realm.kernel.realm))
    assert [name for name, row in rows.items() if row.floor > 1] == risen and len(risen) == 1
    assert sum(row.seq > 1 for row in rows.values()) > 1, "there was no other floor to raise"
