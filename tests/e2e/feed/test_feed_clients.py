"""Poll and event clients against a real server: what they give equals the log, through kills of either side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import msgspec
import pytest

import headwater
from headwater import Filter, IcebergTable, Put
from headwater.consumers.backoff import Backoff
from headwater.consumers.clients.feed_http import FeedTarget
from headwater.consumers.clients.http_poll import AsyncHttpPoll, HttpPoll
from headwater.consumers.clients.reader import AsyncReader, Reader
from headwater.consumers.clients.sse import AsyncHttpStream, HttpStream
from headwater.embedded import CatalogHandle
from headwater.persistence.rows import Anchor
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import Change, Kind
from headwater.schemas.cursor import POINTERS_MAX, decode_cursor
from headwater.schemas.errors import CursorExpired, CursorReset, FeedUnreachable, RealmNotActive, RealmNotFound
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.fixtures.publisher_runs import log_of
from tests.support.fixtures.whole_history import write_whole_history
from tests.support.servers.feed_server import FeedServer
from tests.support.servers.served import ServedStore, served
from tests.support.servers.servers import FreshUrl


@pytest.fixture(scope="module")
def history(shared_lake: CatalogHandle) -> dict[str, list[Change]]:
    """Every kind of entry, by writers at once; the log of every pointer."""
    return write_everything(shared_lake)


def write_everything(lake: CatalogHandle) -> dict[str, list[Change]]:
    write_whole_history(lake)
    kernel = lake.realm.kernel
    return {name: changes for name, changes in log_of(kernel.store, kernel.realm).items() if changes}


def by_pointer(changes: list[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes:
        found.setdefault(change.pointer, []).append(change)
    return found


@contextmanager
def polling(target: FeedTarget, limit: int = 7) -> Iterator[HttpPoll]:
    with httpx.Client() as client:
        yield HttpPoll(client, target, limit=limit, wait_seconds=0.5)


def read_by(transport: str, target: FeedTarget, count: int, after: str = "earliest") -> list[Change]:
    """The first so many, over that transport."""
    if transport == "poll":
        with polling(target) as poll:
            return list(Reader(poll, after).changes(follow=False))
    if transport == "sse":
        with httpx.Client() as client:
            changes = Reader(HttpStream(client, target), after).changes()
            return [next(changes) for _ in range(count)]

    async def read() -> list[Change]:
        async with httpx.AsyncClient() as client:
            poll = AsyncHttpPoll(client, target, limit=7)
            if transport == "async poll":
                return [change async for change in AsyncReader(poll, after).changes(follow=False)]
            found: list[Change] = []
            if count:
                async for change in AsyncReader(AsyncHttpStream(client, target), after, log=poll).changes():
                    found.append(change)
                    if len(found) == count:
                        break
            return found

    return asyncio.run(read())


@pytest.mark.parametrize("transport", ["poll", "sse", "async poll", "async sse"])
def test_every_transport_gives_the_log_of_every_pointer(
    shared_feed: FeedServer, history: dict[str, list[Change]], transport: str
) -> None:
    check_transport(transport, shared_feed.url, history)


def check_transport(transport: str, url: str, history: dict[str, list[Change]]) -> None:
    """A feed takes up to a hundred pointers: as many feeds as are needed."""
    names, found = list(history), list[Change]()
    for first in range(0, len(names), POINTERS_MAX):
        some = names[first : first + POINTERS_MAX]
        count = sum(len(history[pointer]) for pointer in some)
        part = read_by(transport, FeedTarget(server=url, pointers=tuple(some)), count)
        times = [change.time for change in part]
        assert times == sorted(times) or transport.endswith("sse"), "a feed read from the beginning is merged by time"
        found += part
    assert by_pointer(found) == history
    assert {change.kind for change in found} >= set(Kind)


def test_on_postgresql_every_transport_gives_the_log_too(fresh_postgres: FreshUrl) -> None:
    url = fresh_postgres()
    with served(url) as server, headwater.open(url) as engine:
        history = write_everything(engine.realm().catalog("lake"))
        for transport in ("poll", "sse", "async poll", "async sse"):
            check_transport(transport, server.url, history)


def test_pointers_of_every_kind_can_be_followed(shared_feed: FeedServer, history: dict[str, list[Change]]) -> None:
    assert {"catalogs", "principals", "root"} <= set(history)
    with headwater.connect(shared_feed.url) as remote:
        listed = {info.name: info.seq for info in remote.realm().pointers()}
    assert {pointer: changes[-1].seq for pointer, changes in history.items()} == listed


def test_a_filtered_reader_advances_over_hidden_changes(shared_lake: CatalogHandle, shared_feed: FeedServer) -> None:
    branch = shared_lake.create_branch("filtered")
    for number in range(30):
        branch.commit([Put((f"other{number}",), IcebergTable("s3://x"))])
    target = FeedTarget(server=shared_feed.url, pointers=(branch.pointer,), filter=Filter(prefix=("mine",)))
    with polling(target) as poll:
        reader = Reader(poll)
        assert [change.kind for change in reader.changes(follow=False)] == [Kind.CREATE]
        with headwater.connect(shared_feed.url) as remote:
            remote.realm().catalog("lake").branch("filtered").commit([Put(("mine",), IcebergTable("s3://m"))])
        resumed = Reader(poll, reader.cursor)
        assert [change.seq for change in resumed.changes(follow=False)] == [32]
    with polling(FeedTarget(server=shared_feed.url, pointers=(branch.pointer,))) as poll:
        brought_along = Reader(poll, reader.cursor)
        assert [change.seq for change in brought_along.changes(follow=False)] == [32]


@pytest.mark.parametrize("transport", ["poll", "sse", "async poll", "async sse"])
def test_texts_may_hold_any_separator_of_lines(shared_lake: CatalogHandle, shared_feed: FeedServer, transport: str) -> None:
    branch = shared_lake.create_branch(f"lines-{transport.replace(' ', '-')}")
    message = "a\nb\r\nc\u2028d\u2029e\x85f\x0b\x0cg"
    branch.commit([Put(("t",), IcebergTable("s3://1"))], message=message)
    found = read_by(transport, FeedTarget(server=shared_feed.url, pointers=(branch.pointer,)), 2)
    assert found[1].message == message


# ── dead cursors ────────────────────────────────────────────────────────────────────────────────────────────


def raise_floor(kernel: RealmKernel, pointer: str, floor: int) -> None:
    """What expiring history does to the pointer's row."""
    backend = kernel.store.backend
    row = backend.read_pointer(kernel.realm, pointer)
    assert row is not None
    below = kernel.walk.at(kernel.walk.load(row.head), floor - 1)
    anchor = Anchor(below.entry_id, below.entry.time)
    cut = msgspec.structs.replace(row, floor=floor, anchor=anchor, version=row.version + 1)
    assert backend.cas_pointer(kernel.realm, pointer, row, cut)


@pytest.mark.parametrize("transport", ["poll", "sse", "async poll", "async sse"])
def test_truncated_history_is_a_typed_error_with_a_remedy(
    shared_lake: CatalogHandle, shared_feed: FeedServer, transport: str
) -> None:
    branch = shared_lake.create_branch(f"cut-{transport.replace(' ', '-')}")
    for number in range(5):
        branch.commit([Put(("t",), IcebergTable(f"s3://{number}"))])
    raise_floor(shared_lake.realm.kernel, branch.pointer, 4)
    target = FeedTarget(server=shared_feed.url, pointers=(branch.pointer,))
    deadline = time.monotonic() + 10
    while not _is_expired(transport, target):
        assert time.monotonic() < deadline, "the server has not noticed that history was cut"


def _is_expired(transport: str, target: FeedTarget) -> bool:
    """The server notices moves of others within a moment; until then the old answer is right."""
    try:
        read_by(transport, target, 1, "1")
    except CursorExpired as expired:
        assert (expired.facts["oldest"], expired.facts["head"]) == (4, 6)
        assert str(expired.facts["snapshot_url"]).startswith("/feed/v1/default/snapshot")
        return True
    return False


def test_a_realm_that_was_recreated_resets_old_cursors(shared_feed: FeedServer) -> None:
    """The server notices it within a moment; until then it says that the realm is not there, or not active."""
    with headwater.open(shared_feed.store_url) as engine, headwater.connect(shared_feed.url) as remote:
        engine.create_realm("again")
        reader = remote.realm("again").reader(["root"])
        assert list(reader.changes(follow=False))
        engine.realms.deactivate("again")
        engine.realms.purge("again")
        engine.realms.finish_purge("again")
        engine.realms.delete("again")
        engine.create_realm("again")
        target = FeedTarget(server=shared_feed.url, realm="again", pointers=("root",))
        deadline = time.monotonic() + 10
        with polling(target) as poll, pytest.raises(CursorReset):
            while time.monotonic() < deadline:
                with contextlib.suppress(RealmNotActive, RealmNotFound):
                    list(Reader(poll, reader.cursor).changes(follow=False))


# ── kills ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('clients')}/lake.db") as server:
        yield server


@pytest.mark.parametrize("stream", [False, True], ids=["poll", "sse"])
def test_a_follower_continues_when_the_server_is_killed_and_started_again(own_server: ServedStore, stream: bool) -> None:
    with headwater.connect(own_server.url) as remote, httpx.Client() as client:
        branch = remote.realm().catalog("lake").branch()
        start = branch.info().seq
        target = FeedTarget(server=own_server.url, pointers=(branch.pointer,))
        poll = HttpPoll(client, target, wait_seconds=1.0)
        transport = HttpStream(client, target, heartbeat_seconds=0.5, silent_seconds=2.0) if stream else poll
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            time.sleep(min(seconds, 0.2))

        seen: list[Change] = []
        reader = Reader(transport, str(start), log=poll, backoff=Backoff(seconds_max=0.5), sleep=sleep)

        def follow() -> None:
            for change in reader.changes():
                seen.append(change)
                if change.message == "last":
                    return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        branch.commit([Put(("a",), IcebergTable("s3://1"))])
        own_server.kill9()
        time.sleep(0.3)
        own_server.start()
        branch.commit([Put(("a",), IcebergTable("s3://2"))])
        branch.commit([Put(("a",), IcebergTable("s3://3"))], message="last")
        follower.join(30)
        assert not follower.is_alive() and slept, "the follower never lost the server"
        assert seen == list(branch.changes(start))


@pytest.mark.parametrize("flags", [(), ("--stream",)], ids=["poll", "sse"])
def test_a_consumer_killed_and_restarted_neither_skips_nor_repeats(own_server: ServedStore, flags: tuple[str, ...]) -> None:
    with headwater.connect(own_server.url) as remote:
        branch = remote.realm().catalog("lake").branch()
        cursor, seen = str(branch.info().seq), list[str]()
        expected = [branch.commit([Put(("k",), IcebergTable(f"s3://{n}"))]).commit_id for n in range(40)]
        kills = 0
        while len(seen) < len(expected):
            command = [sys.executable, "-m", "headwater", "subscribe", "--server", own_server.url, "--pointer", branch.pointer]
            command += ["--after", cursor, "--follow", "--json", "--with-cursor", *flags]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for _ in range(16):
                    line = json.loads(process.stdout.readline())
                    seen.append(line["change"]["commit_id"])
                    cursor = line["cursor"]
                    if len(seen) == len(expected):
                        break
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
        assert seen == expected and kills == 3


def test_a_silent_connection_is_dead_and_an_idle_one_is_not(own_server: ServedStore) -> None:
    with socket.socket() as silent, httpx.Client() as client:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        target = FeedTarget(server=f"http://127.0.0.1:{silent.getsockname()[1]}", pointers=("p",))
        stream = HttpStream(client, target, heartbeat_seconds=0.1, silent_seconds=0.2)
        with pytest.raises(FeedUnreachable, match="ReadTimeout"):
            next(stream.receive("earliest", follow=True))
    with httpx.Client() as client:
        target = FeedTarget(server=own_server.url, pointers=("catalogs",))
        idle = HttpStream(client, target, heartbeat_seconds=0.2, silent_seconds=1.0).receive("latest", follow=True)
        bookmarks = [next(idle) for _ in range(8)]
    assert all(frame.from_seq == frame.to_seq for received in bookmarks for frame in received.frames)


def test_a_poller_with_nothing_new_is_answered_with_304(own_server: ServedStore) -> None:
    statuses: list[int] = []
    with httpx.Client(event_hooks={"response": [lambda response: statuses.append(response.status_code)]}) as client:
        target = FeedTarget(server=own_server.url, pointers=("catalogs",))
        polls = HttpPoll(client, target, wait_seconds=0.05).receive("latest", follow=True)
        for _ in range(4):
            next(polls)
    assert statuses[-1] == 304


def test_a_poller_gets_its_starting_cursor_at_once(own_server: ServedStore) -> None:
    """An answer that comes after a wait can be lost with what happened meanwhile; the next `latest` would skip that."""
    waits: list[str | None] = []
    with httpx.Client(event_hooks={"request": [lambda request: waits.append(request.url.params.get("wait"))]}) as client:
        target = FeedTarget(server=own_server.url, pointers=("catalogs",))
        polls = HttpPoll(client, target, wait_seconds=0.05).receive("latest", follow=True)
        began, *_ = [next(polls) for _ in range(3)]
    assert waits == [None, "0.05", "0.05"]
    (at,) = decode_cursor(began.cursor).positions.values()
    assert at.entry_id, "a restored store would not be noticed"


def test_named_subscriptions_keep_the_position_on_the_server(own_server: ServedStore) -> None:
    def subscribe(*arguments: str) -> list[int]:
        ran = run_cli("subscribe", "--server", own_server.url, "--subscription", "billing", "--json", *arguments)
        assert ran.code == 0, ran.err
        return [json.loads(line)["seq"] for line in ran.out.splitlines()]

    with headwater.connect(own_server.url) as remote:
        branch = remote.realm().catalog("lake").branch()
        head = branch.info().seq
        assert subscribe("--after", str(head)) == []
        branch.commit([Put(("s",), IcebergTable("s3://1"))])
        branch.commit([Put(("s",), IcebergTable("s3://2"))])
        assert subscribe() == [head + 1, head + 2]
        assert subscribe() == []
        subscription = remote.realm().subscription("billing")
        subscription.rewind(head + 1)
        assert subscribe() == [head + 2]
        assert subscription.info().lag == {branch.pointer: 0}
        subscription.delete()
