"""What a lane and a watch of heads do when the store was restored, or history was swept, while they held something of it."""

from __future__ import annotations

import threading
from pathlib import Path

from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.commit.draft import Draft, Plan
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.rows import Table
from headwater.persistence.store import Store, StoreOptions
from tests.support.models.commit_harness import MAIN, REALM, Lanes, Write, checked_log, cut, new_store, request_ids, whole_log

NEVER_SECONDS = 100_000.0
WAIT_SECONDS = 60.0


class NoticesRestore(Write, frozen=True, kw_only=True):
    """While it is planned for the first time, its process notices that the store was restored."""

    store: Store
    planned_on: list[int] = []

    def plan(self, draft: Draft) -> Plan | None:
        self.planned_on.append(draft.head.seq)
        if len(self.planned_on) == 1:
            self.store.restores.went_back("a test says so")
        return super().plan(draft)


def test_a_plan_made_before_a_restore_was_noticed_is_not_written(tmp_path: Path) -> None:
    """⚠ Its row may be the restored one, so that the CAS would land, while the objects that it rests on are gone."""
    with new_store(f"sqlite:///{tmp_path}/lake.db") as store:
        lanes = Lanes(store.kernel(REALM))
        lanes.commit(MAIN, Write(puts={"a": {"v": 1}}))
        request = NoticesRestore(puts={"b": {"v": 1}}, store=store, planned_on=[])
        sent_before = lanes.stats.cas_sent
        lanes.commit(MAIN, request)
        assert request.planned_on == [1, 1] and lanes.stats.cas_sent == sent_before + 1
        assert request_ids(checked_log(lanes.kernel))[-1] == request.request_id


def test_a_watch_forgets_its_heads_the_moment_a_restore_is_noticed(tmp_path: Path) -> None:
    """Not only with its next poll, which here never comes."""
    backend = open_backend(f"sqlite:///{tmp_path}/lake.db")
    backend.create_schema()
    with Store(backend, StoreOptions(poll_seconds=NEVER_SECONDS), SystemClock()) as store:
        Lanes(store.kernel(REALM)).commit(MAIN, Write(puts={"a": {"v": 1}}))
        watch, woken = HeadWatch(store.kernel(REALM)), threading.Event()
        try:
            watch.head(MAIN)
            watch.add_waiter(MAIN, woken.set)
            assert watch.known(MAIN) is not None
            store.restores.went_back("a test says so")
            assert watch.known(MAIN) is None
            assert woken.wait(WAIT_SECONDS), "waiters must look again"
        finally:
            watch.close()


def test_a_lane_that_slept_through_a_sweep_still_knows_what_was_committed(tmp_path: Path) -> None:
    """Its head and its floor are of before: the history that would tell is gone, so it reads the row again."""
    url = f"sqlite:///{tmp_path}/lake.db"
    with new_store(url, cache_bytes=0) as asleep, new_store(url) as other:
        sleeper, worker = Lanes(asleep.kernel(REALM)), Lanes(other.kernel(REALM))
        request = Write(puts={"a": {"v": 1}}, request_id="key-1", request_id_is_callers=True)
        first = worker.landed(MAIN, request)
        for number in range(60):
            worker.commit(MAIN, Write(puts={"b": {"v": number}}))
        sleeper.commit(MAIN, Write(puts={"c": {"v": 1}}))  # it holds this head, and does not know the key
        for number in range(60):
            worker.commit(MAIN, Write(puts={"b": {"v": number}}))
        _cut_and_sweep(other, floor=100)
        again = sleeper.commit(MAIN, request)
        assert again.replayed and again.head_seq == first.entry.seq
        assert "key-1" not in request_ids(whole_log(worker.kernel))


def _cut_and_sweep(store: Store, floor: int) -> None:
    """Raise the floor, and delete the entries far below it, which no state needs any more."""
    kernel = store.kernel(REALM)
    log = whole_log(kernel)
    cut(kernel, MAIN, floor)
    gone = {logged.object_id for logged in log if logged.entry.seq < floor - 40}
    splits = store.backend.splits(Table.OBJECTS, 1)
    scanned = [row for split in splits for row in store.backend.scan(split, realm=REALM)]
    rows = [row for row in scanned if row.id in gone and row.type == "entry"]
    assert rows
    store.backend.delete_scanned(rows)
