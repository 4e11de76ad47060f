"""Many readers of one branch, in one process with the whole service: what they share, and that each gets all its entries."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from headwater.producer.access.rights import Right
from headwater.schemas.cursor import decode_cursor
from headwater.schemas.filters import NO_FILTER
from headwater.service.auth.caller import development_caller
from headwater.service.auth.feed_view import Viewer
from headwater.service.operations import fan_out, feed_hub
from headwater.service.operations.feed_hub import Hubs
from headwater.service.operations.feed_pages import Page
from headwater.service.operations.feed_polls import wait_for_page
from tests.support.fixtures.access_rig import Rig, access_rig
from tests.support.servers.feed_server import Event, events

REALM = "alpha"
MAIN = "cat/1/heads/main"
WAIT_SECONDS = 60.0


@contextmanager
def streaming_rig(folder: Path, stall_seconds: float) -> Iterator[Rig]:
    """Its streams end as those of a server that stops."""

    async def stop() -> None:
        made.service.stopping.set()

    with access_rig(folder, stall_seconds=stall_seconds) as made:
        yield made
        made.run(stop())
        wait_until(lambda: not made.service.streams.open)
        assert made.service.hubs.followers == 0


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with streaming_rig(tmp_path, WAIT_SECONDS) as made:
        yield made


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Reader:
    """A connection in the hands of the test: it takes frames or not, and goes when it is told to."""

    def __init__(self, rig: Rig, token: str, query: str = f"pointer={MAIN}&after=latest", last_event_id: str = "") -> None:
        self._rig = rig
        self._text = ""
        self.is_open = True
        headers = [(b"authorization", f"Bearer {token}".encode()), (b"last-event-id", last_event_id.encode())]
        self._scope = {
            "type": "http", "method": "GET", "path": f"/feed/v1/{REALM}/stream", "query_string": query.encode(),
            "headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1",
        }  # fmt: skip
        rig.run(self._start())

    async def _start(self) -> None:
        self._takes, self._gone = asyncio.Event(), asyncio.Event()
        self._takes.set()
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            await self._rig.gate(self._scope, self._receive, self._send)
        finally:
            self.is_open = False

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if not self._takes.is_set():
            await self._takes.wait()
        self._text += message.get("body", b"").decode()

    def stall(self) -> None:
        self._rig.run(self._call(self._takes.clear))

    def go_on(self) -> None:
        self._rig.run(self._call(self._takes.set))

    def leave(self) -> None:
        self._rig.run(self._call(self._gone.set))
        wait_until(lambda: not self.is_open)

    @staticmethod
    async def _call(call: Callable[[], None]) -> None:
        call()

    @property
    def events(self) -> list[Event]:
        return list(events(iter(self._text[: self._text.rfind("\n\n") + 2].splitlines())))

    @property
    def changes(self) -> list[dict[str, Any]]:
        return [change for event in self.events if event.event == "changes" for change in event.data["changes"]]

    @property
    def seqs(self) -> list[int]:
        return [change["seq"] for change in self.changes]

    def ranges_are_whole(self) -> bool:
        """Whether each event continues where the previous one ended, and the last one says where."""
        ranges = [event.data["range"] for event in self.events if event.event != "end"]
        return all(before["to"] == after["from"] for before, after in pairwise(ranges))


def follow(rig: Rig, *readers: Reader) -> None:
    """Until all of them stand in hubs."""

    def all_follow() -> bool:
        assert all(reader.is_open for reader in readers)
        return rig.service.hubs.followers == len(readers)

    wait_until(all_follow)


class Counts:
    def __init__(self, hubs: Hubs) -> None:
        self._hubs = hubs.fan_out
        self._before = self._now()

    def _now(self) -> tuple[int, int, int]:
        return self._hubs.wakes, self._hubs.built, self._hubs.handed_out

    def since(self) -> tuple[int, int, int]:
        """Wakes, pages built, pages handed out."""
        wakes, built, handed_out = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return wakes, built, handed_out


# ── what is shared ──────────────────────────────────────────────────────────────────────────────────────────


def test_readers_at_one_position_cost_one_wake_and_one_page_for_each_commit(rig: Rig) -> None:
    readers = [Reader(rig, rig.token(REALM)) for _ in range(40)]
    follow(rig, *readers)
    counts = Counts(rig.service.hubs)
    for number in range(1, 6):
        rig.commit(REALM, (f"n{number}",))
        wait_until(lambda number=number: all(len(reader.seqs) == number for reader in readers))  # type: ignore[misc]
        assert counts.since() == (number, number, number * len(readers))
    assert all(reader.seqs == readers[0].seqs and reader.ranges_are_whole() for reader in readers)
    assert len({reader.events[-1].id for reader in readers}) == 1


def test_readers_with_a_filter_share_their_pages_too(rig: Rig) -> None:
    readers = [Reader(rig, rig.token(REALM), f"pointer={MAIN}&after=latest&prefix=a") for _ in range(10)]
    follow(rig, *readers)
    counts = Counts(rig.service.hubs)
    rig.commit(REALM, ("a",))
    wait_until(lambda: all(reader.changes for reader in readers))
    assert counts.since() == (1, 1, 10)
    rig.commit(REALM, ("b",))
    wait_until(lambda: all(reader.events[-1].event == "bookmark" for reader in readers))
    assert counts.since() == (2, 2, 20), "what a filter hides moves the range of all by one page"
    assert all(len(reader.changes) == 1 and reader.ranges_are_whole() for reader in readers)


def test_readers_who_may_see_the_same_share_a_page_and_no_other(rig: Rig) -> None:
    everything = [Reader(rig, rig.token(REALM)) for _ in range(3)]
    of_a = [Reader(rig, rig.principal(REALM, name, Right.FEED_READ, path=("a",))) for name in ("ann", "abe", "amy")]
    of_b = [Reader(rig, rig.principal(REALM, "ben", Right.FEED_READ, path=("b",))) for _ in range(1)]
    follow(rig, *everything, *of_a, *of_b)
    rig.commit(REALM, ("warm",))  # rights were changed: this one looks them up
    wait_until(lambda: all(reader.events[-1].data["range"]["to"] == 2 for reader in [*everything, *of_a, *of_b]))
    follow(rig, *everything, *of_a, *of_b)
    counts = Counts(rig.service.hubs)
    rig.commit(REALM, ("a",), ("b",), ("c",))
    wait_until(lambda: all(reader.events[-1].data["range"]["to"] == 3 for reader in [*everything, *of_a, *of_b]))
    assert counts.since() == (1, 3, 7), "one page for each of the three views"

    def keys(reader: Reader) -> list[list[str]]:
        return [operation["key"] for operation in reader.changes[-1]["operations"]]

    assert [keys(reader) for reader in everything] == [[["a"], ["b"], ["c"]]] * 3
    assert [keys(reader) for reader in of_a] == [[["a"]]] * 3 and [keys(reader) for reader in of_b] == [[["b"]]]
    assert all(reader.events[-1].data["withheld"] for reader in [*of_a, *of_b])


def test_long_polls_wait_in_the_hub_and_get_its_page(rig: Rig) -> None:
    reader = Reader(rig, rig.token(REALM))
    follow(rig, reader)
    path, token = f"/feed/v1/{REALM}/changes?pointer={MAIN}&after=latest&wait=50", rig.token(REALM)

    async def poll() -> Any:
        transport = httpx.ASGITransport(app=rig.gate)
        async with httpx.AsyncClient(transport=transport, base_url="http://headwater.test", timeout=60) as client:
            return (await client.get(path, headers={"authorization": f"Bearer {token}"})).json()

    polls = [asyncio.run_coroutine_threadsafe(poll(), rig._loop) for _ in range(5)]
    wait_until(lambda: rig.service.hubs.followers == 6)
    counts = Counts(rig.service.hubs)
    rig.commit(REALM, ("a",))
    pages = [one.result(WAIT_SECONDS) for one in polls]
    assert all(page == pages[0] for page in pages) and [change["seq"] for change in pages[0]["changes"]] == [2]
    wait_until(lambda: reader.seqs == [2])
    assert counts.since() == (1, 1, 6)
    assert pages[0]["cursor"] == reader.events[-1].id


# ── who gets what ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_reader_that_does_not_take_a_frame_continues_by_itself_and_joins_again(rig: Rig) -> None:
    slow, quick = Reader(rig, rig.token(REALM)), Reader(rig, rig.token(REALM))
    follow(rig, slow, quick)
    slow.stall()
    for number in range(2, 152):
        rig.commit(REALM, (f"n{number}",))
    wait_until(lambda: quick.seqs == list(range(2, 152)))
    assert slow.seqs == [] and rig.service.hubs.followers == 1
    slow.go_on()
    wait_until(lambda: slow.seqs == list(range(2, 152)))
    follow(rig, slow, quick)
    rig.commit(REALM, ("last",))
    wait_until(lambda: slow.seqs[-1] == quick.seqs[-1] == 152)
    assert slow.ranges_are_whole() and quick.ranges_are_whole()


def test_a_slow_reader_ends_with_its_cursor_and_the_others_do_not_notice(tmp_path: Path) -> None:
    with streaming_rig(tmp_path, 0.3) as rig:
        slow, quick = Reader(rig, rig.token(REALM)), Reader(rig, rig.token(REALM))
        follow(rig, slow, quick)
        slow.stall()
        rig.commit(REALM, ("a",))
        rig.commit(REALM, ("b",))
        wait_until(lambda: quick.seqs == [2, 3])
        time.sleep(0.45)  # longer than a stall, shorter than two
        slow.go_on()
        wait_until(lambda: not slow.is_open)
        end = slow.events[-1]
        assert (end.event, end.data["reason"]) == ("end", "slow") and end.id == end.data["cursor"]
        again = Reader(rig, rig.token(REALM), last_event_id=end.id, query="")
        wait_until(lambda: slow.seqs + again.seqs == [2, 3])
        assert quick.is_open and rig.service.streams.slow_ended == 1


def test_a_reader_whose_right_is_revoked_sees_nothing_that_comes_after(rig: Rig) -> None:
    ann = Reader(rig, rig.principal(REALM, "ann", Right.FEED_READ))
    stays = Reader(rig, rig.token(REALM))
    follow(rig, ann, stays)
    rig.commit(REALM, ("before",))
    wait_until(lambda: ann.seqs == stays.seqs == [2])
    rig.revoke(REALM, "ann", Right.FEED_READ)
    rig.commit(REALM, ("unseen",))
    wait_until(lambda: not ann.is_open and stays.seqs == [2, 3])
    assert ann.seqs == [2] and "unseen" not in json.dumps([event.data for event in ann.events])
    assert ann.events[-1].data["problem"]["code"] == "POINTER_NOT_FOUND"


def test_readers_that_join_lag_and_leave_at_any_time_get_each_entry_once_and_in_order(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With slices so short that readers come, go and stall in the middle of every fan-out."""
    monkeypatch.setattr(fan_out, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(feed_hub, "SLICE_READERS_MIN", 1)
    monkeypatch.setattr(feed_hub, "FRAME_CHANGES_MAX", 3)
    chance = random.Random(7)
    seen: dict[int, list[str]] = {number: [] for number in range(12)}
    open_readers: dict[int, Reader] = {}
    cursors: dict[int, str] = {}

    def come(number: int) -> None:
        last = cursors.get(number, "")
        query = "" if last else f"pointer={MAIN}&after=earliest"
        open_readers[number] = Reader(rig, rig.token(REALM), query, last_event_id=last)

    def leave(number: int) -> None:
        """What a reader saw counts when it comes back with its last event's id."""
        reader = open_readers.pop(number)
        reader.go_on()
        reader.leave()
        assert reader.ranges_are_whole()
        seen[number] += [change["entry_id"] for change in reader.changes]
        cursors[number] = reader.events[-1].id if reader.events else cursors.get(number, "")

    made = 0
    for _ in range(250):
        number, what = chance.randrange(len(seen)), chance.random()
        if number not in open_readers:
            come(number)
        elif what < 0.15:
            open_readers[number].stall()
        elif what < 0.35:
            open_readers[number].go_on()
        elif what < 0.45:
            leave(number)
        else:
            made += 1
            assert rig.commit(REALM, (f"n{made}",)).status_code == 200
    whole = rig.get(f"/feed/v1/{REALM}/changes?pointer={MAIN}&limit=1000", rig.token(REALM)).json()["changes"]
    log = [change["entry_id"] for change in whole]
    assert len(log) == made + 1 > 50
    for number in seen:
        if number in open_readers:
            open_readers[number].go_on()
        else:
            come(number)
    for number, reader in list(open_readers.items()):
        wait_until(lambda number=number, reader=reader: len(seen[number]) + len(reader.changes) >= len(log))  # type: ignore[misc]
        leave(number)
    assert all(found == log for found in seen.values())


def test_a_commit_between_reading_and_joining_is_delivered_at_once(rig: Rig) -> None:
    rig.commit(REALM, ("a",))
    page = rig.get(f"/feed/v1/{REALM}/changes?pointer={MAIN}&limit=1", rig.token(REALM)).json()
    assert page["range"]["to"] == 1
    positions = decode_cursor(page["cursor"]).positions
    feed = rig.service.feeds.require(REALM)
    viewer = Viewer(rig.service.access, development_caller(REALM, feed.kernel.realm), feed)

    async def wait() -> Page | None:
        async def read(_: object) -> Page:
            raise AssertionError("the hub has it")

        return await wait_for_page(rig.service.hubs, feed, NO_FILTER, 100, viewer, positions, WAIT_SECONDS, read)

    found = rig.run(wait())
    assert found is not None and [entry.seq for entry in found.entries] == [2]
    assert rig.service.hubs.followers == 0


def test_rights_found_for_one_token_do_not_apply_to_an_expired_one(rig: Rig) -> None:
    """Readers of one principal are looked up together, each with the end of its own token."""
    rig.principal(REALM, "ann", Right.FEED_READ, path=("a",))
    feed = rig.service.feeds.require(REALM)

    async def views() -> None:
        scope = {"headers": [(b"authorization", f"Bearer {rig.token(REALM, 'ann')}".encode())]}
        caller = await rig.service.access.caller(scope, REALM)
        good = Viewer(rig.service.access, caller, feed)
        ended = Viewer(rig.service.access, msgspec.structs.replace(caller, expires_at=1), feed)
        other = Viewer(rig.service.access, msgspec.structs.replace(caller, secret_id="another"), feed)
        await good.view([MAIN])
        found: dict[Hashable, Any] = {}
        for _ in range(2):
            assert good.known_view((MAIN,), found) is not None
            assert ended.known_view((MAIN,), found) is None
            assert other.known_view((MAIN,), found) is None

    rig.token(REALM, "ann")
    rig.run(views())
