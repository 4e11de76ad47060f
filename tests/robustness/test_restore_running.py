"""A real backup is put back under processes that write, read and serve: nothing acknowledged afterwards is lost, and no reader
is led from one history into another without being told."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.embedded import CatalogHandle
from headwater.schemas.change import Change
from headwater.schemas.entry_ids import recomputed_entry_id
from tests.support.fixtures.restorable_stores import RestorableStore, restorable_store
from tests.support.fixtures.standby_store import StandbyStore
from tests.support.processes.restore_readers import EmbeddedReader, HttpReader, RestoreReader
from tests.support.processes.restore_writer import RestoreWriter
from tests.support.servers.feed_server import feed_server
from tests.support.servers.servers import local_server

WAIT_SECONDS = 240.0
BACKED_UP = 12
"""Entries at least that the backup has, that are lost behind it, and that come after it."""


@pytest.fixture(params=["sqlite", "postgresql", "postgresql in place", "standby"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RestorableStore]:
    """A standby that is promoted lacks what the primary committed last: a restore like the others."""
    if request.param != "standby":
        yield restorable_store(request, tmp_path)
        return
    with local_server("postgres") as primary:
        yield StandbyStore(primary)


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_backup_is_restored_under_writers_and_readers(store: RestorableStore) -> None:
    with ExitStack() as running:
        engine = running.enter_context(headwater.open(store.url, create=True))
        server = running.enter_context(feed_server(store.url))
        lake = engine.ensure_realm().ensure_catalog("lake")
        main = lake.branch()
        first_incarnation = engine.store.incarnation
        readers: list[RestoreReader] = [EmbeddedReader(store.url, main.pointer), HttpReader(server.feed, main.pointer)]
        for reader in readers:
            running.enter_context(reader)
        writers = [running.enter_context(RestoreWriter(store.url, name)) for name in ("ada", "ben")]
        branches = MergingWriter(lake)

        eventually(lambda: all(len(one.acknowledged) >= BACKED_UP for one in writers), "nobody commits")
        branches.merge_some()
        kept = [key for one in writers for _, key in one.acknowledged] + branches.acknowledged
        store.back_up()
        behind = newest(lake).seq

        branches.merge_some()
        lost_from = {one: len(one.acknowledged) + BACKED_UP for one in writers}
        eventually(lambda: all(len(one.acknowledged) >= lost_from[one] for one in writers), "nobody commits what is lost")
        eventually(lambda: all(one.last.seq > behind + BACKED_UP for one in readers), "readers do not come behind the backup")
        store.restore()
        restored_at = time.time()

        def came_after(writer: RestoreWriter) -> list[str]:
            return [key for began, key in writer.acknowledged if began > restored_at]

        branches.merge_some()
        eventually(lambda: all(len(came_after(one)) >= BACKED_UP for one in writers), "nobody commits after the restore")
        eventually(lambda: all("CURSOR_RESET" in one.told for one in readers), "readers are not told")
        for writer in writers:
            writer.stop()
        with headwater.open(store.url) as fresh:
            log = list(fresh.realm().catalog("lake").branch().changes())
            keys = {entry.key[0] for entry in fresh.realm().catalog("lake").snapshot("main")}
            newest_incarnation = fresh.store.incarnation
        eventually(lambda: all(one.last.entry_id == log[-1].entry_id for one in readers), "readers do not reach the head")
        for reader in readers:
            reader.stop()
        engine.store.restores.check()
        assert engine.store.incarnation == newest_incarnation != first_incarnation
        assert len(list(main.changes())) == len(log), "the process that ran through it reads the same log"

    check_chain(log)
    written = Counter(op.key[0] for change in log for op in change.operations)
    acknowledged = [*kept, *(key for one in writers for key in came_after(one)), *branches.acknowledged_since(restored_at)]
    assert {key: written[key] for key in acknowledged if written[key] != 1} == {}, "once each"
    assert set(acknowledged) <= keys
    for reader in readers:
        check_told(reader, log)
    subprocess.run([sys.executable, "-m", "headwater", "--store", store.url, "maintain", "check"], check=True)


class MergingWriter:
    """In the process of the test: brings what branches hold to main, so that entries refer to objects of other pointers."""

    def __init__(self, lake: CatalogHandle) -> None:
        self.lake = lake
        self._acknowledged: list[tuple[float, str]] = []
        self._branches = 0

    @property
    def acknowledged(self) -> list[str]:
        return [key for _, key in self._acknowledged]

    def acknowledged_since(self, began: float) -> list[str]:
        return [key for when, key in self._acknowledged if when > began]

    def merge_some(self) -> None:
        for _ in range(3):
            self._branches += 1
            name, began = f"branch{self._branches}", time.time()
            patiently(lambda name=name: self.lake.create_branch(name))  # type: ignore[misc]
            keys = [f"{name}-{n}" for n in range(5)]
            puts = [Put((key,), IcebergTable(f"s3://lake/{key}")) for key in keys]
            patiently(lambda name=name, puts=puts: self.lake.branch(name).commit(puts))  # type: ignore[misc]
            patiently(lambda name=name: self.lake.merge(name))  # type: ignore[misc]
            self._acknowledged += [(began, key) for key in keys]


def patiently(act: Callable[[], object]) -> None:
    """While the database is away or is another one than a moment ago."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            act()
            return
        except headwater.HeadwaterError as error:
            assert error.retriable and time.monotonic() < deadline, error
            time.sleep(0.05)


def newest(lake: CatalogHandle) -> Change:
    *_, last = lake.branch().changes()
    return last


def check_chain(log: list[Change]) -> None:
    assert [change.seq for change in log] == list(range(1, len(log) + 1))
    previous = ""
    for change in log:
        assert recomputed_entry_id(change, previous) == change.entry_id
        previous = change.entry_id


def check_told(reader: RestoreReader, log: list[Change]) -> None:
    """⚠ In one run a reader may see entries that are in the log and then lost ones, never the reverse, and none twice."""
    ids = {change.entry_id for change in log}
    assert reader.told.count("CURSOR_RESET") >= 1, reader.told
    for run in reader.runs:
        assert [seen.seq for seen in run] == list(range(1, len(run) + 1))
        in_log = [seen.entry_id in ids for seen in run]
        assert in_log == sorted(in_log, reverse=True), "two histories without a reset"
    assert any(seen.entry_id not in ids for run in reader.runs for seen in run), "nothing that was lost was ever seen"
    assert [seen.entry_id for seen in reader.runs[-1]] == [change.entry_id for change in log]
