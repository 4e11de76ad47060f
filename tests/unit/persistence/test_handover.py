"""Commits that one worker hands over to another: the same answers, once each, whatever becomes of that other worker."""

from __future__ import annotations

import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.persistence.commit import landed_elsewhere
from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.landed_elsewhere import LogPosition, landed_since
from headwater.persistence.handover import handover
from headwater.persistence.handover.fault_points import FaultPoint
from headwater.persistence.handover.messages import Closing, frame
from headwater.persistence.log.head import load_head
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import open_store
from headwater.producer.commits.operations import Delete, Put
from headwater.producer.content.content_types import Namespace
from headwater.producer.merging.merge import MergeRequest, commit_merge
from headwater.producer.merging.transplant import TransplantRequest
from headwater.schemas.errors import CommitConflict, CommitOutcomeUnknown, HeadwaterError, IdempotencyKeyReused
from tests.support.fixtures.catalog_lake import META, Lake
from tests.support.fixtures.shared_lanes import Worker, two_workers

WAIT_SECONDS = 60.0


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Worker, Worker]]:
    with two_workers(f"sqlite:///{tmp_path}/lake.db", tmp_path) as both:
        yield both


def ids_in_log(worker: Worker) -> list[str]:
    log = PointerLog(worker.lake.kernel, worker.pointer)
    newest = log.head().newest
    entries = worker.lake.kernel.walk.between(newest, 1, newest.entry.seq)
    assert [logged.entry.seq for logged in entries] == list(range(1, len(entries) + 1))
    return [logged.entry.request_id for logged in entries]


def commit(worker: Worker, key: str, request_id: str | None = None) -> CommitOutcome:
    return worker.lake.kernel.committer.commit(worker.pointer, worker.put(key, request_id))


# ── the same answers ────────────────────────────────────────────────────────────────────────────────────────


def test_the_holder_commits_for_both_and_everyone_gets_their_own_outcome(workers: tuple[Worker, Worker]) -> None:
    _, sender = workers
    before = sender.committed
    with ThreadPoolExecutor(8) as pool:
        keys = [f"{worker.handover.name}-{number}" for number in range(25) for worker in workers]
        both = [worker for _ in range(25) for worker in workers]
        outcomes = list(pool.map(commit, both, keys))
    assert sender.committed == before, "the sender raced for the row"
    landed = {outcome.logged.entry.seq: outcome.logged.entry for outcome in outcomes if outcome.logged is not None}
    by_key = {entry.operations[0].key[0]: entry.seq for entry in landed.values()}
    assert [by_key[key] for key in keys] == [outcome.head_seq for outcome in outcomes]
    assert len(ids_in_log(sender)) == len(set(ids_in_log(sender))) == max(landed)


def test_a_refusal_is_typed_as_the_lane_gave_it(workers: tuple[Worker, Worker]) -> None:
    _, sender = workers
    sender.lake.commit(Put(("there",), Namespace()))
    with pytest.raises(CommitConflict) as refused:
        sender.lake.commit(Put(("there",), Namespace(), must_not_exist=True), Delete(("nowhere",)))
    assert [conflict["kind"] for conflict in refused.value.facts["conflicts"]] == ["KEY_EXISTS", "KEY_DOES_NOT_EXIST"]  # type: ignore[union-attr,call-overload,index]
    assert sender.passed.count(FaultPoint.ANSWERED) >= 2


def test_a_key_is_done_once_through_either_worker(workers: tuple[Worker, Worker]) -> None:
    holder, sender = workers
    first = commit(sender, "x", "key-1")
    again = commit(holder, "x", "key-1")
    assert not first.replayed and again.replayed and again.logged == first.logged
    with pytest.raises(IdempotencyKeyReused):
        commit(sender, "y", "key-1")


def test_a_key_that_another_server_has_committed_meanwhile_is_a_replay(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    """The sender's position is older than that commit, so it might take it for its own."""
    _, sender = workers
    with open_store(f"sqlite:///{tmp_path}/lake.db") as server:
        lake = Lake(server)
        first = lake.commit(Put(("x",), Namespace()), request_id="key-1")
        before = sender.committed
        again = commit(sender, "x", "key-1")
        assert again.replayed and again.head_commit.hex() == first.commit_id and sender.committed == before
        lake.commit(Put(("y",), Namespace()), request_id="key-2")
        with pytest.raises(IdempotencyKeyReused):
            commit(sender, "z", "key-2")


def test_merges_transplants_and_moves_are_handed_over(workers: tuple[Worker, Worker]) -> None:
    holder, sender = workers
    lake = sender.lake
    for name in ("one", "two"):
        lake.refs.create(name, "main", meta=META)
        lake.commit(Put((f"on-{name}",), Namespace()), on=name)
    source, commits = (lake.refs.resolve(name).logged for name in ("one", "two"))
    committer, before = lake.kernel.committer, sender.committed
    merged = commit_merge(lake.kernel, sender.pointer, MergeRequest(lake.kernel, source, "one", META)).logged
    moved = committer.commit(sender.pointer, TransplantRequest(lake.kernel, [commits], META)).logged
    assert merged is not None and moved is not None
    assigned = lake.refs.assign("main", merged.commit.hex(), meta=META)
    assert sender.committed == before, "the sender raced for the row"
    assert (merged.entry.kind, moved.entry.kind) == ("merge", "transplant")
    assert assigned.change is not None and assigned.change.kind == "assign"
    keys = set(holder.lake.keys())
    assert ("on-one",) in keys and ("on-two",) not in keys


def test_a_caller_finds_its_commit_through_the_worker_that_answered_it(workers: tuple[Worker, Worker]) -> None:
    _, sender = workers
    watch = HeadWatch(sender.lake.kernel)
    try:
        watch.head(sender.pointer)
        for number in range(20):
            outcome = commit(sender, f"k{number}")
            known = watch.known(sender.pointer)
            assert known is not None and known.seq >= outcome.head_seq
    finally:
        watch.close()


def test_the_first_commit_of_a_worker_is_its_own(tmp_path: Path) -> None:
    with two_workers(f"sqlite:///{tmp_path}/lake.db", tmp_path) as (_, sender):
        sender.handover._forget()
        before = sender.committed
        commit(sender, "a")
        commit(sender, "b")
        assert sender.committed == before + 1


# ── workers that are lost ───────────────────────────────────────────────────────────────────────────────────


def cut(worker: Worker) -> None:
    """What a kill does to its connections."""
    for connection in worker.handover._taken_from:
        connection.socket.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("callers_key", [None, "key-1"])
def test_a_commit_that_landed_before_its_worker_was_lost_is_answered_as_landed(
    workers: tuple[Worker, Worker], callers_key: str | None
) -> None:
    holder, sender = workers
    fired = threading.Event()

    def at(point: FaultPoint) -> None:
        if point is FaultPoint.LANDED and not fired.is_set():
            fired.set()
            cut(holder)

    holder.at = at
    outcome = commit(sender, "x", callers_key)
    assert fired.is_set()
    assert outcome.logged is not None and not outcome.replayed, "it is the first outcome that anybody gets"
    assert ids_in_log(sender).count(outcome.logged.entry.request_id) == 1


@pytest.mark.parametrize("callers_key", [None, "key-1"])
def test_a_slow_worker_does_not_commit_what_its_sender_has_committed(
    workers: tuple[Worker, Worker], callers_key: str | None
) -> None:
    """It stops with the request in hand, the sender commits by itself, and then it continues."""
    holder, sender = workers
    go_on, taken = threading.Event(), threading.Event()

    def at(point: FaultPoint) -> None:
        if point is FaultPoint.TAKEN and not taken.is_set():
            taken.set()
            cut(holder)
            assert go_on.wait(WAIT_SECONDS)

    holder.at = at
    outcome = commit(sender, "x", callers_key)
    assert taken.is_set() and outcome.logged is not None
    go_on.set()
    commit(holder, "y")  # on a head that holds the request: behind it in the same lane
    holder.store.close()
    ids = ids_in_log(sender)
    assert ids.count(outcome.logged.entry.request_id) == 1
    assert len(ids) == len(set(ids))


def test_a_silent_worker_is_not_waited_for(workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    holder, sender = workers
    monkeypatch.setattr(handover, "SILENT_SECONDS_MAX", 0.3)
    monkeypatch.setattr(handover, "PING_SECONDS", 0.1)
    go_on, taken = threading.Event(), threading.Event()

    def at(point: FaultPoint) -> None:
        if point is FaultPoint.TAKEN and not taken.is_set():
            taken.set()
            assert go_on.wait(WAIT_SECONDS)

    holder.at = at
    outcome = commit(sender, "x")
    assert taken.is_set() and outcome.logged is not None
    before = sender.committed
    commit(sender, "y")
    assert sender.committed == before + 1, "it is offered nothing before it says that it lives"
    go_on.set()
    holder.store.close()
    assert ids_in_log(sender).count(outcome.logged.entry.request_id) == 1


def test_a_worker_that_stops_finishes_accepted_requests_and_the_others_continue(workers: tuple[Worker, Worker]) -> None:
    holder, sender = workers
    outcomes: list[CommitOutcome | HeadwaterError] = []

    def write() -> None:
        for number in range(100):
            try:
                outcomes.append(commit(sender, f"k{number}"))
            except HeadwaterError as refused:
                outcomes.append(refused)

    writer = threading.Thread(target=write)
    writer.start()
    while len(outcomes) < 20 and writer.is_alive():
        time.sleep(0.001)
    holder.store.close()
    writer.join(WAIT_SECONDS)
    landed = [outcome.logged.entry for outcome in outcomes if isinstance(outcome, CommitOutcome) and outcome.logged]
    assert len(landed) == 100
    seqs = [entry.seq for entry in landed]
    assert seqs == sorted(set(seqs))
    ids = ids_in_log(sender)
    assert len(ids) == len(set(ids))


def test_a_replaced_history_leaves_the_outcome_unknown(workers: tuple[Worker, Worker]) -> None:
    holder, _ = workers
    kernel = holder.lake.kernel
    logged = [outcome.logged for outcome in (commit(holder, f"k{n}", f"key-{n}") for n in range(4)) if outcome.logged]
    head = load_head(kernel.objects, kernel.store.backend.read_pointer(kernel.realm, holder.pointer))
    first = LogPosition(logged[0].entry.seq, logged[0].entry_id)
    found = landed_since(kernel.walk, head, first, "key-2")
    assert found is not None and not isinstance(found, Exception) and found.entry_id == logged[2].entry_id
    assert landed_since(kernel.walk, head, first, "key-0") is None, "only what comes after counts"
    other = LogPosition(first.seq, logged[1].entry_id)
    assert isinstance(landed_since(kernel.walk, head, other, "key-2"), CommitOutcomeUnknown)
    ahead = LogPosition(head.seq + 1, b"x" * 32)
    assert isinstance(landed_since(kernel.walk, head, ahead, "key-2"), CommitOutcomeUnknown)


def test_an_old_position_is_not_handed_over(workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    _, sender = workers
    commit(sender, "first")
    before = sender.committed
    commit(sender, "handed over")
    assert sender.committed == before
    monkeypatch.setattr(handover, "POSITION_SECONDS_MAX", 0.0)
    commit(sender, "by itself")
    assert sender.committed == before + 1


def test_an_idle_connection_is_not_taken_for_a_silent_worker(workers: tuple[Worker, Worker]) -> None:
    _, sender = workers
    [peer] = sender.handover._peers.values()
    peer.connection.heard_at -= 3_600
    commit(sender, "after an hour")
    assert list(sender.handover._peers.values()) == [peer] and peer.is_live
    assert peer.silent_seconds < handover.SILENT_SECONDS_MAX


@pytest.mark.parametrize("keyed", [False, True])
def test_a_worker_that_has_not_committed_for_long_commits_by_itself(
    workers: tuple[Worker, Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    """Its position lies too far back to look for the request: the holder declines, and nobody is told that it is unknown.

    A caller's key is found by its row, however far back.
    """
    _, sender = workers
    commit(sender, "first")
    monkeypatch.setattr(landed_elsewhere, "ENTRIES_MAX", 3)
    with open_store(f"sqlite:///{tmp_path}/lake.db") as server:
        lake = Lake(server)
        for number in range(5):
            lake.commit(Put((f"other-{number}",), Namespace()))
    before = sender.committed
    outcome = commit(sender, "late", "key-late" if keyed else None)
    assert outcome.logged is not None and not outcome.replayed
    by_itself = before + (not keyed)
    assert sender.committed == by_itself
    again = commit(sender, "soon after")
    assert again.head_seq == outcome.head_seq + 1 and sender.committed == by_itself, "it is not handed over again"
    assert len(ids_in_log(sender)) == len(set(ids_in_log(sender)))


# ── strangers ───────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_servers_user_may_use_its_sockets(workers: tuple[Worker, Worker]) -> None:
    folder = workers[0].handover._folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize("said", [b"\xff\xff\xff\xff", b"\0\0\0\x02\xff\xff", frame([Closing()])])
def test_nonsense_on_a_socket_ends_that_connection_alone(workers: tuple[Worker, Worker], said: bytes) -> None:
    holder, sender = workers
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(holder.handover._folder / f"{holder.handover.name}.lane"))
        stranger.settimeout(WAIT_SECONDS)
        stranger.sendall(said)
        assert stranger.recv(1) == b""
    before = sender.committed
    assert commit(sender, "x").logged is not None and sender.committed == before


def test_the_socket_of_a_dead_worker_is_removed(tmp_path: Path) -> None:
    with two_workers(f"sqlite:///{tmp_path}/lake.db", tmp_path) as (holder, _):
        left = holder.handover._folder / "dead.lane"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(left))
        deadline = time.monotonic() + WAIT_SECONDS
        while left.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not left.exists()
