"""Kafka clients and the faust views against a real broker and publisher: what they give equals the log."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
from aiokafka.structs import OffsetAndMetadata

import headwater
from headwater.consumers.audit.kafka_history import KafkaHistory
from headwater.consumers.audit.verify import verify
from headwater.consumers.clients.local_transport import AsyncOf, LocalTransport
from headwater.consumers.kafka.kafka_positions import KafkaPosition, KeptPositions, positions_text
from headwater.consumers.kafka.kafka_reader import KafkaReader
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import find_partitions
from headwater.embedded import CatalogHandle, Headwater
from headwater.schemas.change import Change, Kind
from headwater.schemas.errors import ChainBroken, CursorExpired, KafkaUnavailable, RealmNotFound
from headwater.schemas.frame import Frame
from headwater.schemas.topics import partition_of
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.fixtures.publisher_runs import instance_of, log_of, new_lake, options, publish_rest, put, write_history
from tests.support.fixtures.whole_history import write_whole_history
from tests.support.models.feed_validators import without_repeats
from tests.support.servers.ports import free_port
from tests.support.servers.served import served

REALM = "kafkaconsumers"


class Published(NamedTuple):
    engine: Headwater
    lake: CatalogHandle
    bootstrap: str
    url: str

    @property
    def log(self) -> dict[str, list[Change]]:
        found = log_of(self.engine.store, instance_of(self.engine, REALM))
        return {pointer: changes for pointer, changes in found.items() if changes}

    @property
    def source(self) -> KafkaSource:
        return KafkaSource(bootstrap=self.bootstrap, realm=REALM)

    def publish(self) -> None:
        publish_rest(self.engine.store, options(self.bootstrap, record_bytes_max=4_000))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, kafka_bootstrap: str) -> Iterator[Published]:
    """Every kind of entry, by writers at once, and one Change that is too large for the topic."""
    url = f"sqlite:///{tmp_path_factory.mktemp('kafka')}/lake.db"
    with headwater.open(url, create=True) as engine:
        lake = new_lake(engine, REALM)
        write_whole_history(lake)
        lake.branch().commit([put(f"large{number}", 1) for number in range(60)], message="too large for a record")
        made = Published(engine, lake, kafka_bootstrap, url)
        made.publish()
        yield made


class StoreLog:
    """Repairs from the store, and notes what for."""

    def __init__(self, published: Published) -> None:
        self._log = AsyncOf(LocalTransport(published.engine.realm(REALM).feed, ["root"]))
        self.asked: list[tuple[str, int, int]] = []

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> AsyncIterator[Frame]:
        self.asked.append((pointer, from_seq, to_seq))
        return self._log.frames(pointer, from_seq, to_seq)


def by_pointer(changes: list[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes:
        found.setdefault(change.pointer, []).append(change)
    return found


def read(
    published: Published,
    limit: int | None = None,
    *,
    acknowledge: bool = True,
    log: StoreLog | None = None,
    **changed: Any,
) -> list[Change]:
    source = KafkaSource(bootstrap=published.bootstrap, realm=REALM, **changed)

    async def reading() -> list[Change]:
        found: list[Change] = []
        async with KafkaReader(source, log=log or StoreLog(published)) as reader:
            async for change in reader.changes(follow=limit is not None):
                found.append(change)
                if acknowledge:
                    await reader.acknowledge()
                if len(found) == limit:
                    break
        return found

    return asyncio.run(reading())


def test_the_topic_equals_the_log_of_every_pointer(published: Published) -> None:
    found = read(published)
    assert by_pointer(found) == published.log
    assert {change.kind for change in found} == set(Kind)


def test_single_pointers_can_be_picked(published: Published) -> None:
    main = published.lake.branch().pointer
    assert read(published, pointers=(main,)) == published.log[main]


def test_a_group_continues_after_what_it_acknowledged_without_skip_or_duplicate(published: Published) -> None:
    count = sum(len(changes) for changes in published.log.values())
    found: list[Change] = []
    while len(found) < count:
        found += read(published, min(25, count - len(found)), group="stepwise")
    assert by_pointer(found) == published.log
    assert read(published, group="stepwise") == []


def test_a_group_read_in_portions_gives_each_change_once(published: Published) -> None:
    main = published.lake.branch().pointer
    pointer, wanted = max(((name, log) for name, log in published.log.items() if name != main), key=lambda named: len(named[1]))
    flags = ["--kafka", published.bootstrap, "--realm", REALM, "--pointer", pointer, "--group", "portions", "--json"]
    ran = [run_cli("subscribe", *flags, *limit) for limit in (("--limit", "2"), ("--limit", "1"), ())]
    found = [[msgspec.json.decode(line, type=Change) for line in one.out.splitlines()] for one in ran]
    assert [len(portion) for portion in found[:2]] == [2, 1], [one.err for one in ran]
    assert [change for portion in found for change in portion] == wanted


def test_unacknowledged_changes_are_delivered_again(published: Published) -> None:
    assert len(read(published, 10, acknowledge=False, group="careless")) == 10
    assert by_pointer(read(published, group="careless")) == published.log


def test_a_consumer_killed_and_restarted_by_its_group_misses_nothing(published: Published) -> None:
    """The command acknowledges behind what it has printed: after a kill the last lines may come again, and none is missing."""
    arguments = ["subscribe", "--kafka", published.bootstrap, "--realm", REALM, "--pointer", "cat/1/heads/w0", "--json"]
    arguments += ["--group", "killed", "--follow"]
    with subprocess.Popen([sys.executable, "-m", "headwater", *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(3)]
        os.kill(process.pid, signal.SIGKILL)
    assert all(first)
    found = read(published, group="killed", pointers=("cat/1/heads/w0",))
    seqs = [change.seq for change in found]
    log = published.log["cat/1/heads/w0"]
    assert seqs == list(range(seqs[0], len(log) + 1)) and seqs[0] <= 4


def test_two_readers_of_a_group_share_the_partitions_and_miss_nothing(published: Published) -> None:
    """The second comes while the first reads: what it had not acknowledged then comes again, to one of the two."""
    count = sum(len(changes) for changes in published.log.values())
    seen: list[Change] = []
    took_part: set[str] = set()
    half_way, dealt_out = asyncio.Event(), asyncio.Event()

    async def reading(name: str, source: KafkaSource) -> None:
        async with KafkaReader(source, log=StoreLog(published)) as reader:
            while name == "second" and not reader._consumer.assignment():
                await asyncio.sleep(0.02)
            if name == "second":
                dealt_out.set()
            async for change in reader.changes():
                seen.append(change)
                took_part.add(name)
                if len(seen) % 7 == 0:
                    await reader.acknowledge()
                if len(seen) == 20:
                    half_way.set()
                    await dealt_out.wait()

    async def both() -> None:
        source = KafkaSource(bootstrap=published.bootstrap, realm=REALM, group="shared")
        first = asyncio.create_task(reading("first", source))
        await half_way.wait()
        second = asyncio.create_task(reading("second", source))
        deadline = time.monotonic() + 60
        while len({change.entry_id for change in seen}) < count or len(took_part) < 2:
            assert time.monotonic() < deadline and not (first.done() or second.done())
            await asyncio.sleep(0.05)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    asyncio.run(both())
    found = by_pointer(seen)
    assert {pointer: without_repeats(changes, published.log[pointer]) for pointer, changes in found.items()} == published.log


def test_records_that_the_topic_has_lost_are_read_from_the_log(published: Published) -> None:
    """A group whose kept position lies before its offset, as if the records between had been lost."""
    main = published.log[published.lake.branch().pointer]
    start = main[1]

    async def lose() -> None:
        partitions = await find_partitions(published.source)
        partition = partitions[partition_of(start.pointer, len(partitions))]
        position = KafkaPosition(start.seq, bytes.fromhex(start.entry_id))
        kept = positions_text(KeptPositions(1, False, True, {start.pointer: position}))
        async with KafkaReader(KafkaSource(bootstrap=published.bootstrap, realm=REALM, group="gap")) as reader:
            while not reader._consumer.assignment():
                await asyncio.sleep(0.05)
            await reader._consumer.commit({partition: OffsetAndMetadata(start.seq + 6, kept)})

    asyncio.run(lose())
    log = StoreLog(published)
    assert read(published, group="gap", pointers=(start.pointer,), log=log) == main[start.seq :]
    assert any(from_seq == start.seq and to_seq > from_seq for _, from_seq, to_seq in log.asked), "there was no gap"


def test_a_reader_can_begin_after_any_commit(published: Published) -> None:
    main = published.log[published.lake.branch().pointer]
    start = main[len(main) // 2]
    found = by_pointer(read(published, from_commit=start.entry_id))
    assert found[start.pointer] == main[start.seq :]
    for pointer, changes in published.log.items():
        if pointer != start.pointer:
            assert found.get(pointer, []) == [change for change in changes if change.time > start.time]


def test_a_commit_that_the_topic_does_not_hold_is_expired(published: Published) -> None:
    held = published.log["root"][0].entry_id
    other = held[:63] + ("1" if held.endswith("0") else "0")
    with pytest.raises(CursorExpired):
        read(published, from_commit=other)


def test_a_change_too_large_for_kafka_needs_a_log(published: Published) -> None:
    async def reading() -> None:
        async with KafkaReader(published.source) as reader:
            async for _ in reader.changes(follow=False):
                pass

    with pytest.raises(ChainBroken, match="too large for Kafka"):
        asyncio.run(reading())


def test_missing_realms_and_brokers_are_reported(published: Published) -> None:
    async def opening(bootstrap: str, realm: str) -> None:
        async with KafkaReader(KafkaSource(bootstrap=bootstrap, realm=realm)):
            pass

    with pytest.raises(RealmNotFound):
        asyncio.run(opening(published.bootstrap, "nowhere"))
    with pytest.raises(KafkaUnavailable):
        asyncio.run(opening(f"127.0.0.1:{free_port()}", REALM))


def test_an_audit_of_the_topic_proves_every_chain(published: Published, tmp_path: Path) -> None:
    def fetch(pointer: str, seq: int) -> Change:
        return published.log[pointer][seq - 1]

    history = KafkaHistory(published.source, tmp_path, fetch)
    asyncio.run(history.load())
    assert history.pointers() == sorted(published.log)
    for pointer in history.pointers():
        after_seq, anchor = history.start(pointer)
        verified = verify(pointer, history.changes(pointer), after_seq=after_seq, anchor=anchor)
        assert (verified.is_whole, verified.anchored, verified.entries) == (True, True, len(published.log[pointer]))


# ── views ───────────────────────────────────────────────────────────────────────────────────────────────────


class Views:
    """The faust app as a process."""

    def __init__(self, published: Published, server: str) -> None:
        self.port = free_port()
        self._command = [sys.executable, "-m", "headwater", "--server", server, "views", "--kafka", published.bootstrap]
        self._command += ["--realm", REALM, "--port", str(self.port)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill9(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def get(self, path: str, **query: str) -> Any:
        return httpx.get(f"http://127.0.0.1:{self.port}/{path}/", params=query, timeout=5).json()

    def wait_for(self, log: dict[str, list[Change]]) -> None:
        wanted = {pointer: changes[-1].seq for pointer, changes in log.items()}
        deadline, found = time.monotonic() + 120, {}
        while found != wanted:
            assert self._process is not None and self._process.poll() is None, "the views have ended"
            assert time.monotonic() < deadline, f"{found} instead of {wanted}"
            time.sleep(0.1)
            try:
                found = self.get("positions")
            except (httpx.TransportError, ValueError):
                continue


def test_the_faust_views_equal_the_snapshots_also_after_a_kill(published: Published) -> None:
    with served(published.url) as server:
        views = Views(published, server.url)
        try:
            views.start()
            views.wait_for(published.log)
            check_views(published, views)
            views.kill9()
            write_history(published.lake, 7, 2)
            published.publish()
            views.start()
            views.wait_for(published.log)
            check_views(published, views)
        finally:
            views.kill9()
        ran = run_cli("audit", "verify", "--server", server.url, "--realm", REALM, "--json")
        assert {one["pointer"] for one in ran.json["pointers"]} == set(published.log)
        assert all(one["flaw"] is None and one["anchored"] for one in ran.json["pointers"])
        by_kafka = run_cli(
            "audit", "verify", "--kafka", published.bootstrap, "--server", server.url, "--realm", REALM, "--json"
        )
        assert by_kafka.json == ran.json


def check_views(published: Published, views: Views) -> None:
    references = published.lake.list_references(deleted=True, limit=1_000).references
    assert len(references) > 3
    for reference in references:
        shown = views.get("tables", pointer=reference.pointer)
        found = {tuple(one["key"]): (one["content_id"], one["type"], one["value"]) for one in shown["tables"]}
        expected = {}
        if not reference.deleted:
            snapshot = published.lake.snapshot(reference.name)
            expected = {entry.key: (entry.content_id, entry.type, entry.value) for entry in snapshot}
        assert found == expected, reference.name
    counted = views.get("activity")["changes_per_minute"]
    commits = sum(len({operation.key[:-1] for operation in change.operations} | {
        operation.from_key[:-1] for operation in change.operations if operation.from_key is not None
    }) for changes in published.log.values() for change in changes)  # fmt: skip
    assert sum(count for minute in counted.values() for count in minute.values()) == commits
