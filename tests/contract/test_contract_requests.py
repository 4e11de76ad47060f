"""The same request id is committed once: however far back, by whichever process, though history is gone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.commit import request_search
from headwater.persistence.log.committed_requests import COMMITTED_REQUEST, CommittedRequest, request_row
from headwater.persistence.reading.request_lookup import find_request
from headwater.persistence.rows import Table
from headwater.persistence.store import Store
from headwater.schemas.errors import CommitConflict, CommitOutcomeUnknown, CursorExpired, IdempotencyKeyReused
from tests.support.faults.faulty_backend import FaultyBackend
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.contract_rows import scan_all
from tests.support.fixtures.maintained import HOUR, Maintained
from tests.support.fixtures.transferred import NAME, export, load, memory_backend, new_realm
from tests.support.models.commit_harness import MAIN, Lanes, Write, request_ids, store_on, whole_log

DAY = 24 * HOUR


@pytest.fixture(autouse=True)
def short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a thousand others: a lane remembers one request."""
    monkeypatch.setattr(request_search, "REMEMBERED_REQUESTS_MAX", 1)


@pytest.fixture
def stores(backend: Backend) -> Iterator[list[Store]]:
    """What three processes would be."""
    opened = [store_on(backend) for _ in range(3)]
    yield opened
    for store in opened:
        for kernel in store.kernels:
            kernel.committer.close()


def keyed(value: int, request_id: str = "mine", fingerprint: bytes = b"") -> Write:
    """Refused wherever it has been committed before."""
    return Write(
        puts={"a": {"v": value}},
        expected={"a": None},
        request_id=request_id,
        request_id_is_callers=True,
        fingerprint=fingerprint,
    )


def others(store: Store, realm: str, count: int) -> None:
    for n in range(count):
        write = Write(puts={f"k{n % 3}": {"v": n}}, request_id=f"other-{n}", request_id_is_callers=n % 2 == 0)
        store.kernel(realm).committer.commit(MAIN, write)


def test_a_request_is_found_by_warm_and_cold_processes_however_many_came_since(stores: list[Store], realm: str) -> None:
    first, warm, cold = stores
    landed = first.kernel(realm).committer.commit(MAIN, keyed(1))
    warm.kernel(realm).committer.commit(MAIN, Write(puts={"w": {"v": 1}}, request_id="warm", request_id_is_callers=True))
    others(first, realm, 30)
    for store in (first, warm, cold):
        again = store.kernel(realm).committer.commit(MAIN, keyed(1))
        assert again.replayed and again.logged == landed.logged
        assert (again.head_seq, again.head_commit) == (landed.head_seq, landed.head_commit)
    assert request_ids(whole_log(cold.kernel(realm))).count("mine") == 1


def test_a_request_is_looked_for_before_anything_can_refuse_it(stores: list[Store], realm: str) -> None:
    first, _, cold = stores
    first.kernel(realm).committer.commit(MAIN, keyed(1))
    others(first, realm, 3)
    with pytest.raises(CommitConflict):
        cold.kernel(realm).committer.commit(MAIN, keyed(1, "another"))
    assert cold.kernel(realm).committer.commit(MAIN, keyed(1)).replayed


def test_a_request_id_used_by_another_request_is_refused(stores: list[Store], realm: str) -> None:
    first, _, cold = stores
    first.kernel(realm).committer.commit(MAIN, keyed(1, fingerprint=b"grant"))
    others(first, realm, 3)
    for store in (first, cold):
        with pytest.raises(IdempotencyKeyReused):
            store.kernel(realm).committer.commit(MAIN, keyed(1, fingerprint=b"revoke"))
        assert store.kernel(realm).committer.commit(MAIN, keyed(1, fingerprint=b"grant")).replayed


def test_of_requests_with_one_id_in_a_batch_equal_ones_replay_and_others_are_refused(stores: list[Store], realm: str) -> None:
    lanes = Lanes(stores[0].kernel(realm))
    requests = [keyed(1, fingerprint=b"x"), keyed(1, fingerprint=b"x"), keyed(2, fingerprint=b"y")]
    done, again, other = lanes.together(MAIN, *requests)
    assert not isinstance(done, BaseException) and not isinstance(again, BaseException)
    assert (done.replayed, again.replayed, again.logged) == (False, True, done.logged)
    assert isinstance(other, IdempotencyKeyReused)


def test_requests_repeated_together_are_all_found_although_few_are_cached(stores: list[Store], realm: str) -> None:
    lanes = Lanes(stores[0].kernel(realm))
    requests = [Write(puts={f"k{n}": {"v": n}}, request_id=f"r{n}", request_id_is_callers=True) for n in range(4)]
    landed = [lanes.landed(MAIN, request) for request in requests]
    again = lanes.together(MAIN, *reversed(requests))
    assert [None if isinstance(one, BaseException) else one.logged for one in again] == landed[::-1]
    assert len(whole_log(stores[0].kernel(realm))) == 4


def test_rows_of_lost_attempts_prove_nothing_and_hide_nothing(backend: Backend, stores: list[Store], realm: str) -> None:
    """Where objects are written before the CAS: attempts before, beside and after the one that landed."""
    first, _, cold = stores
    others(first, realm, 4)
    lost = [CommittedRequest(MAIN, "mine", b"", secrets.token_bytes(32), seq, b"c" * 32) for seq in (2, 5, 9)]
    backend.write_objects(realm, [request_row(one, 2**52) for one in lost[:2]])
    landed = first.kernel(realm).committer.commit(MAIN, keyed(1))
    assert not landed.replayed and landed.head_seq == 5
    backend.write_objects(realm, [request_row(lost[2], 2**52)])
    others(first, realm, 6)
    again = cold.kernel(realm).committer.commit(MAIN, keyed(1))
    assert again.replayed and again.logged == landed.logged


def test_one_request_that_two_processes_send_at_once_lands_once(backend: Backend, realm: str) -> None:
    """The second is planned, and writes what it writes before its CAS, while the first one's CAS is under way."""
    slow = FaultyBackend(backend, in_two_steps=True)
    quick, late = store_on(FaultyBackend(backend, in_two_steps=True)), store_on(slow)
    others(quick, realm, 2)
    others(late, realm, 1)  # holds the head from here on
    landed = quick.kernel(realm).committer.commit(MAIN, keyed(1))
    again = late.kernel(realm).committer.commit(MAIN, keyed(1))
    assert again.replayed and again.logged == landed.logged
    assert request_ids(whole_log(quick.kernel(realm))).count("mine") == 1


def test_generated_request_ids_use_no_row(backend: Backend, stores: list[Store], realm: str) -> None:
    counted = FaultyBackend(backend)
    lanes = Lanes(store_on(counted).kernel(realm))
    lanes.landed(MAIN, Write(puts={"a": {"v": 0}}))
    before = counted.calls.copy()
    for n in range(3):
        lanes.landed(MAIN, Write(puts={"a": {"v": n}}))
    assert not (counted.calls - before)["fetch_objects"]
    assert not [row for row in scan_all(backend, Table.OBJECTS, realm) if row.type == COMMITTED_REQUEST.name]
    for n in range(3):
        lanes.landed(MAIN, Write(puts={"a": {"v": n}}, request_id=f"r{n}", request_id_is_callers=True))
    assert (counted.calls - before)["fetch_objects"] == 3, "one read for each batch that brings ids along"
    assert sum(row.type == COMMITTED_REQUEST.name for row in scan_all(backend, Table.OBJECTS, realm)) == 3


# ── how long ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def maintained(backend: Backend, realm: str) -> Maintained:
    return Maintained(backend, realm=realm)


def test_a_sweep_keeps_a_request_for_seven_days_and_not_for_ever(maintained: Maintained) -> None:
    maintained.lanes.landed(MAIN, keyed(1))
    maintained.clock.move(7 * DAY - HOUR)
    maintained.sweep(grace_seconds=300)
    assert COMMITTED_REQUEST.name in {row.type for row in maintained.rows()}
    maintained.clock.move(2 * HOUR)
    maintained.sweep(grace_seconds=300)
    assert COMMITTED_REQUEST.name not in {row.type for row in maintained.rows()}


def test_a_request_whose_entry_has_expired_is_never_committed_again(backend: Backend, maintained: Maintained) -> None:
    landed = maintained.lanes.landed(MAIN, keyed(1))
    for n in range(40):
        maintained.lanes.landed(MAIN, Write(puts={"a": {"v": n}}))
    maintained.expire("*=3n")
    maintained.clock.move(DAY)
    maintained.sweep(grace_seconds=300)
    cold = store_on(backend, clock=maintained.clock, cache_bytes=0).kernel(maintained.realm)
    assert landed.object_id not in maintained.ids(), "it is gone"
    if backend.abilities.commits_in_one_transaction:
        again = cold.committer.commit(MAIN, keyed(1))
        assert again.replayed and again.logged is None
        assert (again.head_seq, again.head_commit) == (landed.entry.seq, landed.entry_id)
        with pytest.raises(CursorExpired):
            find_request(cold, MAIN, "mine")
    else:
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            cold.committer.commit(MAIN, keyed(1))
        assert unknown.value.facts["entry_id"] == landed.entry_id.hex()
    assert cold.committer.commit(MAIN, Write(puts={"a": {"v": 99}})).head_seq == 42


def test_a_lane_that_slept_through_a_sweep_finds_a_request_of_expired_history(backend: Backend, maintained: Maintained) -> None:
    """It holds a head whose floor is from before."""
    landed = maintained.lanes.landed(MAIN, keyed(1))
    for n in range(40):
        maintained.lanes.landed(MAIN, Write(puts={"a": {"v": n}}))
    sleeper = Lanes(store_on(backend, clock=maintained.clock, cache_bytes=0).kernel(maintained.realm))
    sleeper.landed(MAIN, Write(puts={"b": {"v": 1}}))
    maintained.expire("*=3n")
    maintained.clock.move(DAY)
    maintained.sweep(grace_seconds=300)
    assert landed.object_id not in maintained.ids(), "it is gone"
    (again,) = sleeper.together(MAIN, keyed(1))
    if backend.abilities.commits_in_one_transaction:
        assert not isinstance(again, BaseException) and again.replayed and again.head_seq == landed.entry.seq
    else:
        assert isinstance(again, CommitOutcomeUnknown)


def test_requests_go_with_a_realm_that_is_exported(backend: Backend, kind: str, tmp_path: Path) -> None:
    clock = ManualClock()
    name = f"{NAME}-{secrets.token_hex(4)}"
    realm = new_realm(backend, clock, name)
    landed = realm.lanes.landed(MAIN, keyed(1))
    others(realm.store, realm.realm, 5)
    there = store_on(memory_backend(), clock=ManualClock(clock.micros + HOUR * 1_000_000))
    report = load(there, export(realm.store, tmp_path, name).file, name)
    again = there.kernel(report.instance).committer.commit(MAIN, keyed(1))
    assert again.replayed and again.logged is not None and again.logged.entry_id == landed.entry_id
