"""A process that runs through a restore serves nothing from memory that the restored store does not hold. SQLite, for speed."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater import Headwater, IcebergTable, Put
from headwater.embedded import CatalogHandle
from headwater.persistence.coordination.restore_watch import SETTLE_SECONDS
from headwater.persistence.ids.snowflake import id_time_micros
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.schemas.cursor import Position
from headwater.schemas.errors import CatalogNotFound, CursorAhead, CursorReset
from headwater.schemas.filters import NO_FILTER
from headwater.service.auth.caller import development_caller
from headwater.service.auth.feed_view import Viewer
from headwater.service.auth.rights.realm_rights import RealmRights
from headwater.service.feed.stream import OpenStreams, StreamLimits, serve_stream
from headwater.service.http.responses import Message
from headwater.service.operations.feed_hub import Hubs
from headwater.service.operations.realm_feeds import RealmFeed, RealmFeeds
from headwater.service.operations.stopping import Stopping
from tests.support.servers.feed_server import events

NEVER_SECONDS = 100_000.0
WAIT_SECONDS = 120.0


class Restorable:
    """A store with a catalog `lake`, a process that runs, and others that come and go."""

    def __init__(self, folder: Path) -> None:
        self._path, self._backup = folder / "lake.db", folder / "backup.db"
        self.running = headwater.open(self.url, create=True)
        self.lake: CatalogHandle = self.running.ensure_realm().ensure_catalog("lake")
        self.lake.branch().commit(put("first"))
        _copy(self._path, self._backup)

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    def restore(self) -> None:
        _copy(self._backup, self._path)

    def other(self) -> Headwater:
        return headwater.open(self.url)


def put(key: str) -> list[Put]:
    return [Put((key,), IcebergTable(f"s3://lake/{key}"))]


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source, timeout=60)) as one, closing(sqlite3.connect(target, timeout=60)) as two:
        one.backup(two)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Restorable]:
    made = Restorable(tmp_path)
    yield made
    made.running.close()


def test_catalogs_and_rights_that_were_read_before_are_not_served_for_others_of_the_same_number(store: Restorable) -> None:
    feeds = RealmFeeds(store.running.store, encoded_bytes_max=1_000_000)
    feed = feeds.require("default")
    rights = RealmRights(feed.kernel, feed.watch)
    store.running.realm().create_catalog("lost")
    assert feed.read_catalog("lost").name == "lost" and feed.known_catalog("lost") is not None
    number = feed.read_catalog("lost").id
    assert feed.read_catalog_name(number) == "lost"
    assert rights.principal("nobody") is None
    store.restore()
    with store.other() as other:
        other.realm().create_catalog("other")
    store.running.store.restores.check()
    assert feed.watch.head("catalogs").seq == feed.watch.head("catalogs").row.seq
    assert feed.known_catalog("lost") is None
    with pytest.raises(CatalogNotFound):
        feed.read_catalog("lost")
    assert feed.read_catalog("other").name == "other"
    assert feed.known_catalog_name(number) is None
    feeds.close()


def test_pages_that_were_encoded_before_are_not_served_for_others_of_the_same_number(store: Restorable) -> None:
    feeds = RealmFeeds(store.running.store, encoded_bytes_max=1_000_000)
    pages, pointer = feeds.require("default").pages, store.lake.branch().pointer
    store.lake.branch().commit(put("lost"))
    at = {pointer: Position(2, b"")}
    (lost,) = pages.read(at, 10, NO_FILTER).entries
    store.restore()
    with store.other() as other:
        other.realm().catalog("lake").branch().commit(put("other"))
        other.realm().catalog("lake").branch().commit(put("more"))
    store.running.store.restores.check()
    found = pages.from_memory(at, 1, NO_FILTER) or pages.read(at, 1, NO_FILTER)
    assert [entry.seq for entry in found.entries] == [3]
    assert found.entries[0].entry_id != lost.entry_id and b"other" in found.entries[0].json
    with pytest.raises(CursorReset):
        pages.read({pointer: Position(3, lost.entry_id)}, 10, NO_FILTER)
    feeds.close()


def test_a_node_that_was_leased_in_lost_history_makes_no_more_ids(store: Restorable) -> None:
    """The restored rows do not know the lease: another process may take the node at once."""
    running = store.running.store
    store.lake.branch().commit(put("lost"))
    ids = running._ids
    assert ids is not None
    held = ids.lease
    store.restore()
    running.restores.check()
    assert ids.lease is None, "given up with the restore"
    store.lake.branch().commit(put("after"))
    (first,) = running.take(1)
    assert ids.lease is not None and held is not None and ids.lease.holder != held.holder
    settled = running.restores.incarnation.since + int(SETTLE_SECONDS * 1_000_000)
    assert id_time_micros(first) >= settled - 1_000


def test_a_follower_that_waits_at_a_lost_entry_is_woken_and_reset(store: Restorable) -> None:
    """The entry that has its number now is not the one that it has seen: nobody waits for what comes behind it."""
    store.lake.branch().commit(put("lost"))
    feed, pointer = store.running.realm().feed, store.lake.branch().pointer
    at = feed.page(pointer, Position(0, b"")).last
    told: list[BaseException] = []

    def follow() -> None:
        try:
            feed.page(pointer, at, wait_seconds=NEVER_SECONDS)
        except (CursorAhead, CursorReset) as refused:  # as it is noticed before or after the other commit
            told.append(refused)

    waiting = threading.Thread(target=follow, daemon=True)
    waiting.start()
    store.restore()
    with store.other() as other:
        other.realm().catalog("lake").branch().commit(put("other"))
    waiting.join(WAIT_SECONDS)
    assert len(told) == 1
    again = threading.Thread(target=follow, daemon=True)
    again.start()
    again.join(WAIT_SECONDS)
    assert [type(one) for one in told[1:]] == [CursorReset]


def test_a_reader_ahead_of_a_head_that_is_known_too_late_is_reset(store: Restorable) -> None:
    """As of another worker, whose watch has not seen yet what came behind the restore."""
    store.lake.branch().commit(put("lost"))
    log = PointerLog(store.running.realm().kernel, store.lake.branch().pointer)
    seen = log.head()
    store.restore()
    store.running.store.restores.check()
    known = log.head()
    with store.other() as other:
        other.realm().catalog("lake").branch().commit(put("other"))
    assert known.seq < seen.seq == log.head().seq
    with pytest.raises(CursorReset):
        log.page(Position(seen.seq, seen.newest.entry_id), 10, known)


def test_readers_that_follow_in_a_hub_are_reset_when_their_history_is_lost(store: Restorable) -> None:
    feeds = RealmFeeds(store.running.store, encoded_bytes_max=1_000_000)
    feed, pointer = feeds.require("default"), store.lake.branch().pointer
    store.lake.branch().commit(put("lost"))

    async def follow() -> list[str]:
        hubs, sent = Hubs(Stopping()), [b"", b"", b""]
        readers = [asyncio.ensure_future(_stream(feed, pointer, hubs, sent, number)) for number in range(3)]
        while hubs.followers < 3:
            await asyncio.sleep(0.01)
        store.restore()
        with store.other() as other:
            other.realm().catalog("lake").branch().commit(put("other"))
        await asyncio.to_thread(store.running.store.restores.check)
        await asyncio.wait_for(asyncio.gather(*readers), WAIT_SECONDS)
        assert hubs.followers == 0
        return [text.decode() for text in sent]

    for text in asyncio.run(follow()):
        last = list(events(iter(text.splitlines())))[-1]
        assert [last.event, last.data["reason"], last.data["problem"]["code"]] == ["end", "failed", "CURSOR_RESET"]
        assert '"key":["other"]' not in text
    feeds.close()


async def _stream(feed: RealmFeed, pointer: str, hubs: Hubs, sent: list[bytes], number: int) -> None:
    """One reader, in this process."""

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent[number] += message.get("body", b"")

    access: Any = None  # the development principal is asked for nothing
    await serve_stream(
        feed,
        {"query_string": f"pointer={pointer}&after=latest".encode(), "headers": []},
        receive,
        send,
        b"request",
        limits=StreamLimits(heartbeat_seconds=WAIT_SECONDS, stall_seconds=WAIT_SECONDS),
        hubs=hubs,
        streams=OpenStreams(),
        viewer=Viewer(access, development_caller(feed.name, feed.kernel.realm), feed),
    )
