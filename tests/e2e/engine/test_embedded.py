"""`headwater.open` as programs use it: reading forward, following, noticing others, snapshots without a seam, cut history."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import msgspec
import pytest

import headwater
from headwater import Change, Delete, Filter, IcebergTable, Kind, Namespace, Put
from headwater.consumers.clients.chain import Chain
from headwater.embedded import CatalogHandle, Headwater, ReferenceHandle
from headwater.persistence.backend import Moves, MoveToken
from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.rows import Anchor, PointerRow, Table
from headwater.persistence.store import Store, StoreOptions
from headwater.schemas.change import KeyPath, Value
from headwater.schemas.cursor import Position, encode_cursor
from headwater.schemas.errors import CursorAhead, CursorExpired, CursorReset, InvalidInput, RealmNotActive
from tests.support.faults.faulty_backend import FaultyBackend
from tests.support.fixtures.contract_stores import fresh_url

NEVER = StoreOptions(poll_seconds=3_600)
"""What is noticed under these was told inside the process."""


def lake_of(engine: Headwater) -> CatalogHandle:
    return engine.ensure_realm().ensure_catalog("lake")


def put(branch: ReferenceHandle, *names: str, version: int = 1) -> str:
    return branch.commit([Put((name,), IcebergTable(f"s3://{name}/{version}")) for name in names]).commit_id


def state(lake: CatalogHandle, at: str = "main") -> dict[KeyPath, Value]:
    return {entry.key: entry.value for entry in lake.snapshot(at)}


def apply(change: Change, to: dict[KeyPath, Value]) -> None:
    for op in change.operations:
        to.pop(op.from_key or op.key, None)
        if op.after is not None:
            to[op.key] = op.after


@pytest.fixture
def engine() -> Iterator[Headwater]:
    with headwater.open("memory://", create=True) as engine:
        yield engine


@pytest.fixture
def lake(engine: Headwater) -> CatalogHandle:
    return lake_of(engine)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, request, tmp_path)


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_changes_are_every_entry_once_and_in_order(lake: CatalogHandle) -> None:
    main = lake.branch()
    commits = [put(main, f"t{n}") for n in range(250)]
    changes = list(main.changes())
    assert [change.seq for change in changes] == list(range(1, 252))
    assert [change.commit_id for change in changes[1:]] == commits
    assert [change.commit_id for change in main.log()] == commits[::-1]
    assert [change.seq for change in main.changes(commits[-3])] == [250, 251]


def test_a_filter_excludes_other_changes_and_still_ends(lake: CatalogHandle) -> None:
    main = lake.branch()
    for n in range(30):
        put(main, f"t{n % 3}", version=n)
    seqs = [change.seq for change in main.changes("1", filter=Filter(prefix=("t1",)))]
    assert seqs == list(range(3, 32, 3))


def test_the_cursor_is_looked_up_when_changes_is_called(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "before")
    later = main.changes("latest")
    put(main, "after")
    assert [change.operations[0].key for change in later] == [("after",)]
    with pytest.raises(CursorAhead):
        main.changes(99)


def test_an_async_reader_ends_at_the_head_or_continues(lake: CatalogHandle) -> None:
    main = lake.branch()
    put(main, "a")

    async def read() -> tuple[list[int], list[int]]:
        first = [change.seq async for change in main.changes_async(follow=False)]
        followed: list[int] = []
        following = main.changes_async("latest")
        writing = asyncio.create_task(write())
        async for change in following:
            followed.append(change.seq)
            if len(followed) == 20:
                break
        await writing
        return first, followed

    async def write() -> None:
        await asyncio.gather(*(main.commit_async([Put((f"t{n}",), Namespace())]) for n in range(20)))

    assert asyncio.run(read()) == ([1, 2], list(range(3, 23)))


# ── following ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_follower_is_woken_at_once_by_commits_of_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.local_logs.FOLLOW_SECONDS", 3_600.0)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True, options=NEVER) as engine:
        main = lake_of(engine).branch()
        following, seen = main.changes("latest", follow=True), SimpleQueue[int]()

        def follow() -> None:
            for change in itertools.islice(following, 10):
                seen.put(change.seq)

        follower = threading.Thread(target=follow)
        follower.start()
        for n in range(10):
            put(main, f"t{n}")
            assert seen.get(timeout=60) == n + 2
        follower.join(60)


def test_an_async_follower_is_woken_at_once_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.local_logs.FOLLOW_SECONDS", 3_600.0)
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True, options=NEVER) as engine:
        main = lake_of(engine).branch()

        async def follow() -> list[int]:
            following = main.changes_async("latest")
            seen = []
            for n in range(10):
                change, _ = await asyncio.gather(anext(following), main.commit_async([Put((f"t{n}",), Namespace())]))
                seen.append(change.seq)
            return seen

        assert asyncio.run(follow()) == list(range(2, 12))


def test_commits_of_others_are_noticed(url: str) -> None:
    """Two engines that know nothing of each other but the store."""
    with headwater.open(url, create=True) as theirs, headwater.open(url) as ours:
        writer, reader = lake_of(theirs).branch(), ours.realm().catalog("lake").branch()
        following = reader.changes("latest", follow=True)
        for n in range(5):
            commit = put(writer, f"t{n}")
            assert next(following).commit_id == commit


def test_an_async_follower_notices_others_too(url: str) -> None:
    with headwater.open(url, create=True) as theirs, headwater.open(url) as ours:
        writer, reader = lake_of(theirs).branch(), ours.realm().catalog("lake").branch()

        async def follow() -> list[str]:
            following = reader.changes_async("latest")
            commits = []
            for n in range(3):
                commit = asyncio.to_thread(put, writer, f"t{n}")
                change, made = await asyncio.gather(anext(following), commit)
                commits += [change.commit_id, made]
            return commits

        commits = asyncio.run(follow())
        assert commits[::2] == commits[1::2]


def test_a_snapshot_and_what_follows_it_leave_no_seam(url: str) -> None:
    with headwater.open(url, create=True) as theirs, headwater.open(url) as ours:
        writer, lake = lake_of(theirs).branch(), ours.realm().catalog("lake")
        put(writer, "begin")
        stop = threading.Event()

        def write() -> None:
            for n in itertools.count():
                put(writer, f"t{n % 7}", f"u{n % 5}", version=n)
                if n % 3 == 2:
                    writer.commit([Delete((f"t{n % 7}",))])
                if stop.is_set():
                    break
            put(writer, "end")

        thread = threading.Thread(target=write)
        thread.start()
        try:
            joined = []
            for _ in range(5):
                snapshot = lake.snapshot("main")
                known = {entry.key: entry.value for entry in snapshot}
                following = lake.branch().changes(snapshot.seq, follow=True)
                for change in itertools.islice(following, 3):
                    apply(change, known)
                joined.append((known, following))
            stop.set()
            for known, following in joined:
                while ("end",) not in known:
                    apply(next(following), known)
        finally:
            stop.set()
            thread.join()
        for known, _ in joined:
            assert known == state(lake)


# ── what it costs ───────────────────────────────────────────────────────────────────────────────────────────


class CountingBackend(FaultyBackend):
    """Also counts the rows that were asked for, and the names that were told."""

    def __init__(self, url: str) -> None:
        super().__init__(open_backend(url))
        self.rows: Counter[str] = Counter()

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        self.rows["read_pointers"] += len(names)
        return super().read_pointers(realm, names)

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        moves = super().moves_since(realm, token)
        self.rows["moves_since"] += len(moves.versions)
        return moves


@pytest.fixture(params=["memory", "sqlite"])
def embedded_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = fresh_url(request.param, request, tmp_path)
    with headwater.open(url, create=True) as engine:
        lake_of(engine)
    return url


@pytest.fixture
def counted(embedded_url: str) -> Callable[[StoreOptions], Headwater]:
    return lambda options: Headwater(Store(CountingBackend(embedded_url), options, SystemClock()))


def backend_of(engine: Headwater) -> CountingBackend:
    assert isinstance(engine.store.backend, CountingBackend)
    return engine.store.backend


def test_a_poll_at_the_head_does_not_access_the_database(counted: Callable[[StoreOptions], Headwater]) -> None:
    with counted(NEVER) as engine:
        lake = engine.realm().catalog("lake")
        main, feed = lake.branch(), lake.realm.feed
        put(main, "a")
        position = feed.page(main.pointer, Position(0, b"")).last
        before = backend_of(engine).calls.copy()
        for _ in range(1_000):
            page = feed.page(main.pointer, position)
            assert not page.frame.changes and page.head.seq == position.seq
        with pytest.raises(StopIteration):
            next(main.changes("latest"))
        assert backend_of(engine).calls == before


def test_a_poll_after_a_commit_of_this_process_does_not_access_the_database(
    counted: Callable[[StoreOptions], Headwater],
) -> None:
    with counted(NEVER) as engine:
        lake = engine.realm().catalog("lake")
        main, feed = lake.branch(), lake.realm.feed
        put(main, "warm")
        last = feed.page(main.pointer, Position(0, b"")).last
        for n in range(20):
            put(main, f"t{n}")
            before = backend_of(engine).calls.copy()
            page = feed.page(main.pointer, last)
            assert len(page.frame.changes) == 1 and backend_of(engine).calls == before
            last = page.last


def test_finding_which_of_many_idle_pointers_moved_does_not_read_them_all(
    embedded_url: str, counted: Callable[[StoreOptions], Headwater]
) -> None:
    idle = [f"idle-{n}" for n in range(1_000)]
    with headwater.open(embedded_url) as writer, counted(StoreOptions()) as engine:
        lake = lake_of(writer)
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lake.create_branch, idle))
        reader = engine.realm().catalog("lake")
        for name in idle:
            reader.realm.feed.start(reader.branch(name).pointer, "latest")
        backend, moved = backend_of(engine), reader.branch("idle-500")
        following = moved.changes("latest", follow=True)
        before, calls = backend.rows.copy(), backend.calls.copy()
        commit = put(lake.branch("idle-500"), "t")
        assert next(following).commit_id == commit
        assert 0 < (backend.rows - before)["read_pointers"] < 30
        assert (backend.rows - before)["moves_since"] < 70 * (backend.calls - calls)["moves_since"]


# ── cut history ─────────────────────────────────────────────────────────────────────────────────────────────


class Cutter:
    """Raises a pointer's floor as expiring history does, and sweeps the entries below it."""

    def __init__(self, engine: Headwater, pointer: str) -> None:
        self._kernel = engine.realm().kernel
        self._pointer = pointer

    def cut(self, floor: int, *, sweep: bool) -> None:
        backend, realm, walk = self._kernel.store.backend, self._kernel.realm, self._kernel.walk
        row = backend.read_pointer(realm, self._pointer)
        assert row is not None
        below = walk.at(walk.load(row.head), floor - 1)
        doomed = {logged.object_id for logged in walk.backward(below, floor - row.floor)} if sweep else set()
        anchor = Anchor(below.entry_id, below.entry.time)
        cut = msgspec.structs.replace(row, floor=floor, anchor=anchor, version=row.version + 1)
        assert backend.cas_pointer(realm, self._pointer, row, cut)
        rows = [row for split in backend.splits(Table.OBJECTS, 1) for row in backend.scan(split, realm=realm)]
        backend.delete_scanned([row for row in rows if row.id in doomed])


@pytest.fixture
def long_log(embedded_url: str) -> str:
    with headwater.open(embedded_url) as engine:
        main = lake_of(engine).branch()
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda n: put(main, f"t{n % 50}", version=n), range(399)))
    return embedded_url


UNCACHED = StoreOptions(cache_bytes=0)


def test_a_slow_reader_of_truncated_history_gets_a_typed_error(long_log: str) -> None:
    with headwater.open(long_log, options=UNCACHED) as ours, headwater.open(long_log, options=UNCACHED) as theirs:
        main = ours.realm().catalog("lake").branch()
        reading = main.changes()
        seen = [next(reading).seq for _ in range(100)]
        Cutter(theirs, main.pointer).cut(250, sweep=True)
        with pytest.raises(CursorExpired) as expired:
            seen += [change.seq for change in reading]
        assert seen == list(range(1, len(seen) + 1)) and len(seen) < 250
        assert (expired.value.facts["oldest"], expired.value.facts["head"]) == (250, 400)
        fresh = theirs.realm().catalog("lake").branch()
        assert [change.seq for change in fresh.changes()] == list(range(250, 401))
        assert next(fresh.changes(249)).seq == 250, "just below the floor nothing is missing"
        with pytest.raises(CursorExpired):
            fresh.changes(248)


def test_readers_that_race_with_cuts_never_skip_an_entry(long_log: str) -> None:
    with headwater.open(long_log, options=UNCACHED) as ours, headwater.open(long_log, options=UNCACHED) as theirs:
        main = ours.realm().catalog("lake").branch()
        feed, cutter = ours.realm().feed, Cutter(theirs, main.pointer)
        expired = Counter[str]()

        def read(start: int) -> None:
            chain, position = Chain(main.pointer, start), Position(start, b"")
            while chain.seq < 400:
                try:
                    page = feed.page(main.pointer, position, limit=7)
                except CursorExpired:
                    expired["yes"] += 1
                    return
                chain.accept(page.frame)
                assert chain.seq == page.last.seq
                position = page.last
            expired["no"] += 1

        starts = [0, 0, 20, 60, 200, 320, 399]
        with ThreadPoolExecutor(len(starts)) as threads:
            reads = [threads.submit(read, start) for start in starts]
            for floor in range(30, 300, 30):
                cutter.cut(floor, sweep=True)
            for one in reads:
                one.result()
        assert expired["no"] >= 2 and expired.total() == len(starts)


def test_a_snapshot_of_a_truncated_state_is_expired(long_log: str) -> None:
    with headwater.open(long_log, options=UNCACHED) as engine:
        lake = engine.realm().catalog("lake")
        old = list(lake.branch().changes())[200]
        assert len(state(lake, old.commit_id)) == 50
        Cutter(engine, lake.branch().pointer).cut(300, sweep=False)
        with pytest.raises(CursorExpired):
            lake.snapshot(old.commit_id)
        assert len(state(lake)) == 50


# ── cursors of elsewhere ────────────────────────────────────────────────────────────────────────────────────


def test_a_cursor_of_another_history_is_reset(lake: CatalogHandle) -> None:
    main, dev = lake.branch(), lake.create_branch("dev")
    put(main, "a")
    foreign = put(dev, "b")
    with pytest.raises(CursorReset) as reset:
        main.changes(foreign)
    assert reset.value.facts == {"oldest": 1, "head": 2, "pointer": main.pointer}
    with pytest.raises(InvalidInput):
        main.changes("somewhere")


def test_the_commit_that_a_branch_was_created_at_is_a_cursor_of_it(lake: CatalogHandle) -> None:
    base = put(lake.branch(), "a")
    dev = lake.create_branch("dev")
    put(dev, "b")
    assert [change.kind for change in dev.changes(base)] == [Kind.COMMIT]


def test_a_token_of_a_realm_that_was_recreated_is_reset(engine: Headwater) -> None:
    main = lake_of(engine).branch()
    put(main, "a")
    feed = engine.realm().feed
    token = encode_cursor(feed.token({main.pointer: feed.start(main.pointer, "latest")}))
    assert list(main.changes(token)) == []
    for step in (engine.realms.deactivate, engine.realms.purge, engine.realms.finish_purge, engine.realms.delete):
        step("default")
    again = lake_of(engine).branch()
    with pytest.raises(CursorReset):
        again.changes(token)


def test_a_closed_realm_serves_no_one(engine: Headwater) -> None:
    main = lake_of(engine).branch()
    engine.realms.deactivate("default")
    with pytest.raises(RealmNotActive):
        engine.realm()
    with pytest.raises(RealmNotActive):
        put(main, "late")
