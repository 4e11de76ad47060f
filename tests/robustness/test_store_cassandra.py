"""What is true of Cassandra alone: consistency fixed in the store, names that outlive rows, announcements, exact deletes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence

import pytest
from cassandra import ConsistencyLevel
from cassandra.policies import FallthroughRetryPolicy, NoSpeculativeExecutionPolicy

from headwater.persistence.backend import DeleteResult, DurabilityLevel
from headwater.persistence.backends.cassandra import cassandra_backend, move_journal, mutable_rows, open_cassandra, scans
from headwater.persistence.backends.cassandra.calls import Call, Calls
from headwater.persistence.backends.cassandra.cassandra_backend import CassandraBackend
from headwater.persistence.backends.cassandra.cluster import PLAIN, SERIAL
from headwater.persistence.backends.cassandra.move_journal import MoveJournal
from headwater.persistence.backends.cassandra.names import bucket_of
from headwater.persistence.backends.cassandra.objects import write_calls
from headwater.persistence.backends.cassandra.schema import MOVED_TTL_SECONDS
from headwater.persistence.rows import ScannedRow, Table
from headwater.schemas.errors import OutcomeUnknown, StoreNotCreated, StoreRefused, StoreUnavailable
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.contract_rows import an_object, pointer, scan_all
from tests.support.fixtures.contract_rows import mutable as a_mutable
from tests.support.servers.servers import FreshUrl


@pytest.fixture(scope="module")
def backend(cassandra_url: str) -> Iterator[CassandraBackend]:
    opened = open_cassandra(cassandra_url)
    opened.create_schema()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(cassandra_url: str, backend: CassandraBackend) -> str:
    """With its schema."""
    return cassandra_url


@pytest.fixture
def realm() -> str:
    return f"realm-{secrets.token_hex(6)}@1"


@pytest.fixture
def later(url: str) -> Iterator[CassandraBackend]:
    """The same store, seen by a process whose clock is an hour and a half ahead."""
    opened = CassandraBackend.open(url, ManualClock(time.time_ns() // 1_000 + 5_400_000_000))
    yield opened
    opened.close()


# ── life ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_store_decides_at_one_serial_level_for_ever(url: str) -> None:
    """Two writers that decide at SERIAL and LOCAL_SERIAL do not see each other's rounds: both could win."""
    local = open_cassandra(f"{url}?consistency=local&datacenter=datacenter1")
    with pytest.raises(StoreRefused, match=r"SERIAL.*consistency=global"):
        local.check_schema()
    with pytest.raises(StoreRefused):
        local.create_schema()
    local.close()


def test_a_store_may_be_made_for_one_datacenter(fresh_cassandra: FreshUrl) -> None:
    url = fresh_cassandra() + "_local?consistency=local&datacenter=datacenter1&replication=1"
    local = open_cassandra(url)
    with pytest.raises(StoreNotCreated):
        local.durability()
    local.create_schema()
    assert local.reserve_pointer("realm@1", "main", pointer(1))
    assert local.cas_pointer("realm@1", "main", pointer(1), pointer(2))
    assert local.read_pointer("realm@1", "main") == pointer(2)
    assert "NetworkTopologyStrategy, datacenter1: 1" in local.durability().settings["replication"]
    local.close()


def test_a_missing_keyspace_is_a_store_that_was_not_created(url: str) -> None:
    missing = open_cassandra(url.replace("/test_", "/no_such_"))
    for ask in (missing.check_schema, lambda: missing.read_pointer("realm@1", "main")):
        with pytest.raises(StoreNotCreated, match="has no Headwater store"):
            ask()
    missing.close()


def test_an_unreachable_store_is_reported_in_one_line() -> None:
    with pytest.raises(StoreUnavailable) as unreachable:
        open_cassandra("cassandra://me:secret@127.0.0.1:1/lake")
    assert "cannot be reached" in str(unreachable.value)
    assert "secret" not in str(unreachable.value)
    assert "\n" not in str(unreachable.value)


def test_no_request_is_sent_twice_by_the_driver_and_decisions_are_serial(backend: CassandraBackend) -> None:
    profiles = backend._calls.cluster.profile_manager.profiles
    for name in (PLAIN, SERIAL):
        assert isinstance(profiles[name].retry_policy, FallthroughRetryPolicy)
        assert isinstance(profiles[name].speculative_execution_policy, NoSpeculativeExecutionPolicy)
        assert profiles[name].serial_consistency_level == ConsistencyLevel.SERIAL
        assert profiles[name].request_timeout > 10, "above the longest timeout of the server"
    assert profiles[PLAIN].consistency_level == ConsistencyLevel.QUORUM
    assert profiles[SERIAL].consistency_level == ConsistencyLevel.SERIAL


def test_a_clock_that_is_far_off_is_a_weakness(backend: CassandraBackend, later: CassandraBackend) -> None:
    assert backend.durability().warnings == []
    assert later.durability().level is DurabilityLevel.WEAK
    (warning,) = later.durability().warnings
    assert "clock is +5400 s off" in warning


# ── mutable names ────────────────────────────────────────────────────────────────────────────────────────────


def names_kept(backend: CassandraBackend, realm: str) -> set[str]:
    return {name.key for name in mutable_rows._list_names(backend._calls, realm, "lease", "", 1_000)}


def test_a_name_outlives_its_row_for_a_while_and_is_then_removed_by_a_listing(
    backend: CassandraBackend, later: CassandraBackend, realm: str
) -> None:
    for key in ("gone", "stays"):
        assert backend.insert_mutable(realm, a_mutable(key))
    assert backend.delete_mutable(realm, a_mutable("gone"))
    assert [row.key for row in backend.list_mutable(realm, "lease")] == ["stays"]
    assert names_kept(backend, realm) == {"gone", "stays"}, "too young to be removed: its row may be on its way back"
    assert [row.key for row in later.list_mutable(realm, "lease")] == ["stays"]
    assert names_kept(backend, realm) == {"stays"}


def test_a_row_created_again_while_its_old_name_is_removed_is_listed(
    backend: CassandraBackend, later: CassandraBackend, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The insert comes between the serial read that finds no row and the removal of the name."""
    assert backend.insert_mutable(realm, a_mutable("k"))
    assert backend.delete_mutable(realm, a_mutable("k"))
    read_many = mutable_rows._read_many
    came_back: list[bool] = []

    def come_back_after_the_read(calls: Calls, *arguments: object, **options: object) -> object:
        found = read_many(calls, *arguments, **options)  # type: ignore[arg-type]
        if options.get("serially"):
            came_back.append(backend.insert_mutable(realm, a_mutable("k", payload=b"back")))
        return found

    monkeypatch.setattr(mutable_rows, "_read_many", come_back_after_the_read)
    assert later.list_mutable(realm, "lease") == []
    monkeypatch.undo()
    assert came_back == [True]
    assert [row.payload for row in backend.list_mutable(realm, "lease")] == [b"back"]


def test_an_insert_that_took_too_long_names_its_row_again(
    backend: CassandraBackend, later: CassandraBackend, realm: str
) -> None:
    """The process stood still between name and row; meanwhile another removed the name as stale."""
    calls = later._calls
    clock = calls.clock
    assert isinstance(clock, ManualClock)
    send_lwt = calls.lwt

    def stand_still(cql: str, values: Sequence[object]) -> bool:
        (name,) = mutable_rows._list_names(calls, realm, "lease", "", 10)
        clock.move(3_600)
        mutable_rows.remove_stale_names(calls, realm, "lease", [name])
        assert names_kept(backend, realm) == set()
        return send_lwt(cql, values)

    calls.lwt = stand_still  # type: ignore[method-assign]
    assert later.insert_mutable(realm, a_mutable("k"))
    assert [row.key for row in backend.list_mutable(realm, "lease")] == ["k"]


def test_names_go_with_the_rows_that_a_purge_deletes_once_they_are_old(
    backend: CassandraBackend, later: CassandraBackend, realm: str
) -> None:
    for key in ("old", "young"):
        assert backend.insert_mutable(realm, a_mutable(key))
    rows = {row.key: row for row in scan_all(backend, Table.MUTABLE, realm)}
    assert later.delete_scanned([rows["old"]]).deleted == 1
    assert backend.delete_scanned([rows["young"]]).deleted == 1
    assert names_kept(backend, realm) == {"young"}
    assert backend.list_mutable(realm, "lease") == []


# ── announcements of moves ──────────────────────────────────────────────────────────────────────────────────


def announced(backend: CassandraBackend, realm: str) -> list[str]:
    rows = backend._calls.run(
        backend._calls.read("SELECT name FROM {ks}.moved WHERE realm = ? AND writer = ?", (realm, WRITER))
    )
    return [name for (name,) in rows.rows]


WRITER = "the one that tests read"


@pytest.fixture
def journal(backend: CassandraBackend, monkeypatch: pytest.MonkeyPatch) -> MoveJournal:
    """A new one, without the thread that closes announcements: tests do."""
    made = MoveJournal(backend._calls)
    monkeypatch.setattr(made, "_writer", WRITER)
    monkeypatch.setattr(made, "_start_closing_thread", lambda: None)
    monkeypatch.setattr(backend, "_moves", made)
    return made


def test_a_reader_that_polls_after_announcements_expired_gets_every_name(
    backend: CassandraBackend, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("moved", "still"):
        backend.add_name(realm, name)
    token = backend.moves_since(realm, None).token
    backend.reserve_pointer(realm, "moved", pointer(1))
    assert list(backend.moves_since(realm, token).versions) == ["moved"]
    for sleep_seconds in (2 * MOVED_TTL_SECONDS, -60):
        now = time.time() + sleep_seconds
        with monkeypatch.context() as patched:
            patched.setattr(move_journal, "_now", lambda now=now: (time.monotonic(), now))
            assert list(backend.moves_since(realm, token).versions) == ["moved", "still"]


def test_a_pointer_is_announced_before_it_is_written_and_once_for_a_while(
    backend: CassandraBackend, realm: str, journal: MoveJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not backend.cas_pointer(realm, "refused", pointer(1), pointer(2)), "there is no such pointer"
    for _ in range(3):
        backend.cas_pointer(realm, "refused", pointer(1), pointer(2))
    assert announced(backend, realm) == ["refused"]
    monkeypatch.setattr(move_journal, "KEEP_SECONDS", 0.0)
    backend.cas_pointer(realm, "refused", pointer(1), pointer(2))
    assert announced(backend, realm) == ["refused", "refused"]


def test_announcements_that_are_no_longer_used_are_closed_and_cost_readers_nothing(
    backend: CassandraBackend, realm: str, journal: MoveJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = backend.moves_since(realm, None).token
    assert backend.reserve_pointer(realm, "main", pointer(1))
    journal.close_unused()
    moves = backend.moves_since(realm, token)
    assert list(moves.versions) == ["main"]
    assert list(backend.moves_since(realm, moves.token).versions) == ["main"], "open: it may move again unannounced"
    monkeypatch.setattr(move_journal, "KEEP_SECONDS", 0.0)
    journal.close_unused()
    last = backend.moves_since(realm, moves.token)
    assert list(last.versions) == ["main"], "closed since the token: read once more"
    sent: list[Call] = []
    really = backend._calls._send
    monkeypatch.setattr(backend._calls, "_send", lambda call, page=None: sent.append(call) or really(call, page))
    assert backend.moves_since(realm, last.token).versions == {}
    assert len(sent) == 1, "who is idle is not asked for its announcements"


def test_an_announcement_stays_open_until_a_write_of_unknown_outcome_can_no_longer_land(
    backend: CassandraBackend, realm: str, journal: MoveJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.reserve_pointer(realm, "main", pointer(1))
    monkeypatch.setattr(move_journal, "KEEP_SECONDS", 0.0)
    journal.close_unused()
    token = backend.moves_since(realm, None).token
    with monkeypatch.context() as patched, pytest.raises(OutcomeUnknown):
        patched.setattr(cassandra_backend.pointers, "cas_pointer", _unanswered)
        backend.cas_pointer(realm, "main", pointer(1), pointer(2))
    for _ in range(3):
        journal.close_unused()
        moves = backend.moves_since(realm, token)
        assert list(moves.versions) == ["main"], "what was sent may land at any time"
        token = moves.token
    # As if the coordinator had only now come to it.
    assert cassandra_backend.pointers.cas_pointer(backend._calls, realm, "main", pointer(1), pointer(2))
    journal.close_unused()
    moves = backend.moves_since(realm, token)
    assert list(moves.versions) == ["main"]
    assert backend.moves_since(realm, moves.token).versions == {}


def _unanswered(*_: object) -> bool:
    raise OutcomeUnknown("the node did not answer")


def test_the_journal_closes_by_itself_when_its_process_rests(
    backend: CassandraBackend, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(move_journal, "KEEP_SECONDS", 0.05)
    journal = MoveJournal(backend._calls)
    journal.settled(journal.announce(realm, "main"))
    thread = journal._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert journal._realms[realm].published == (2, False)
    journal.settled(journal.announce(realm, "main"))
    assert journal._thread is not None, "it starts again with the next move"
    journal.close()


# ── deletes by writetime ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("table", [Table.OBJECTS, Table.NAMES])
def test_a_rewrite_between_the_look_and_the_delete_survives(
    backend: CassandraBackend, realm: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = {
        Table.OBJECTS: lambda: backend.write_objects(realm, [an_object(7, b"again")]),
        Table.NAMES: lambda: backend.add_name(realm, "main"),
    }[table]
    write()
    rows = scan_all(backend, table, realm)
    function = "_delete_objects" if table is Table.OBJECTS else "_delete_names"
    make_deletes = getattr(scans, function)
    rewritten: list[bool] = []

    def rewrite_first(calls: Calls, unchanged: Sequence[ScannedRow]) -> list[Call]:
        deletes: list[Call] = make_deletes(calls, unchanged)
        write()
        rewritten.append(len(deletes) == 1)
        return deletes

    monkeypatch.setattr(scans, function, rewrite_first)
    assert backend.delete_scanned(rows) == DeleteResult(deleted=0, spared=1)
    assert rewritten == [True]
    assert len(scan_all(backend, table, realm)) == 1


def test_a_commit_of_many_rows_is_few_requests_each_within_one_partition(backend: CassandraBackend, realm: str) -> None:
    burst = [an_object((1 << 22 | 7 << 12) + n) for n in range(200)]
    calls = write_calls(backend._calls, realm, burst)
    assert len(calls) == 13
    for call in calls:
        statements = call.statement._statements_and_parameters
        assert len(statements) <= 16
        assert len({call.statement.routing_key}) == 1


def test_names_of_one_bucket_are_in_the_partition_of_its_number(backend: CassandraBackend, realm: str) -> None:
    backend.add_name(realm, "main")
    read = backend._calls.read("SELECT name FROM {ks}.names WHERE realm = ? AND bucket = ?", (realm, bucket_of("main")))
    assert backend._calls.run(read).rows == [("main",)]
