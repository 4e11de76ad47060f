"""The directory of a catalog against plain listings, over branches, renames, merges, assignments, checkpoints and restarts."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest

from headwater.persistence.log.log_entry import CONTENT, LogRecord
from headwater.persistence.records.directory_checkpoints import PART_TYPE, DirectoryCheckpoints
from headwater.persistence.rows import Table
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.merging.merge import MergeRequest, commit_merge
from headwater.schemas.change import KeyPath
from headwater.schemas.entry_ids import content_id_bytes
from headwater.schemas.errors import CursorExpired, HeadwaterError
from headwater.service.directory import followed_logs
from headwater.service.directory.catalog_directory import CatalogDirectory, DirectoryOptions
from headwater.service.directory.directories import Directories
from tests.support.fixtures.catalog_lake import META, Lake, open_lake
from tests.support.fixtures.contract_rows import scan_all

SEEDS = 150 if os.environ.get("HEADWATER_SOAK") else 10
STEPS = 60
KEYS: tuple[KeyPath, ...] = tuple((letter,) for letter in "abcdefg")
SOON = DirectoryOptions(changed_least=1, entries_most=3, left_least=4)

fired: Counter[str] = Counter()


class Run:
    """One store, one directory at a time, and every state and id that there ever was."""

    def __init__(self, lake: Lake, chance: Random) -> None:
        self.lake = lake
        self.chance = chance
        self.states: list[LogRecord] = []
        self.ids: set[str] = set()
        self.directory = self.started()

    def started(self) -> CatalogDirectory:
        return CatalogDirectory(self.lake.kernel, self.lake.catalog.id, SOON, threading.Event().is_set)

    def branches(self) -> list[str]:
        return [one.name for one in self.lake.refs.list().references]

    def step(self) -> None:
        moves = (
            self.commit,
            self.commit,
            self.commit,
            self.branch,
            self.merge,
            self.assign,
            self.delete,
            self.expire,
            self.restart,
            self.look,
        )
        move = self.chance.choice(moves)
        try:
            move()
            fired[move.__name__] += 1
        except HeadwaterError:
            fired["refused"] += 1
        for name in self.branches():
            self.states.append(self.lake.refs.resolve(name).logged)

    def commit(self) -> None:
        name = self.chance.choice(self.branches())
        there = self.lake.keys(name)
        free = [key for key in KEYS if key not in there]
        operations: list[CatalogOperation] = [Put(self.chance.choice(KEYS), IcebergTable(f"s3://{self.chance.random()}"))]
        if there and free and self.chance.random() < 0.4:
            operations = [Rename(self.chance.choice(there), self.chance.choice(free))]
        elif there and self.chance.random() < 0.3:
            operations = [Delete(self.chance.choice(there))]
        self.lake.commit(*operations, on=name)

    def branch(self) -> None:
        source = self.chance.choice(self.branches())
        self.lake.refs.create(self.chance.choice(["dev", "fix", "old"]), source, meta=META)

    def merge(self) -> None:
        source, target = self.chance.choice(self.branches()), self.chance.choice(self.branches())
        resolved, pointer = self.lake.refs.resolve(source), self.lake.pointer(target)
        request = MergeRequest(self.lake.kernel, resolved.logged, resolved.pointer, META)
        request.prepare(pointer)
        commit_merge(self.lake.kernel, pointer, request)

    def assign(self) -> None:
        name, source = self.chance.choice(self.branches()), self.chance.choice(self.branches())
        head = self.lake.refs.resolve(name).commit_id
        if self.lake.refs.assign(name, source, expected_head=head, meta=META).change is not None:
            fired["assigned"] += 1

    def delete(self) -> None:
        self.lake.refs.delete(self.chance.choice([one for one in self.branches() if one != "main"] or ["none"]), meta=META)

    def expire(self) -> None:
        """What expiry and a sweep do to the older part of a log. Tags and other branches may still stand on its states."""
        pointer = self.lake.pointer(self.chance.choice(self.branches()))
        row, kernel = self.lake.kernel.read_pointer(pointer), self.lake.kernel
        assert row is not None
        kept_from = row.seq - self.chance.randrange(4)
        if kept_from <= max(row.floor, 1):
            return
        head = kernel.walk.load(row.head)
        gone = {kernel.walk.at(head, seq).object_id for seq in range(max(row.floor, 1), kept_from - 1)}
        self.lake.raise_floor(pointer, kept_from)
        rows = [one for one in scan_all(kernel.store.backend, Table.OBJECTS, kernel.realm) if one.id in gone]
        fired["expired"] += kernel.store.backend.delete_scanned(rows).deleted
        kernel.store.cache.clear()

    def restart(self) -> None:
        if self.directory.needs_checkpoint():
            fired["saved"] += self.directory.save()
        self.directory = self.started()

    def look(self) -> None:
        """Every id in one state that there was, the newest ones more often."""
        if not self.states:
            return
        at = self.chance.choice(self.states[-6:] if self.chance.random() < 0.6 else self.states)
        row = self.lake.kernel.read_pointer(at.entry.pointer)
        try:
            if row is not None and at.entry.seq < row.floor:
                raise CursorExpired("whoever asks for it is refused before the directory is asked.")
            listed = {one.content_id: one.key for one in self.lake.snapshots.entries(at)}
        except CursorExpired:
            fired["gone"] += 1
            return
        self.ids |= listed.keys()
        self.directory.cover(at)
        assert self.directory.covers(at)
        for id in self.ids:
            found = self.directory.find(at, content_id_bytes(id))
            assert (None if found is None else found.key) == listed.get(id), (at.entry.pointer, at.entry.seq, id)
        fired["found"] += len(listed)
        fired["not there"] += len(self.ids) - len(listed)
        fired["walks"] += self.directory.walks
        if self.directory.needs_checkpoint() and self.chance.random() < 0.5:
            fired["saved"] += self.directory.save()


@pytest.mark.parametrize("followed_max", [3, 10_000])
def test_an_id_is_found_in_exactly_the_states_that_hold_it(followed_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few entries between, logs are also walked, joined and forgotten."""
    fired.clear()
    monkeypatch.setattr(followed_logs, "FOLLOWED_MAX", followed_max)
    for seed in range(SEEDS):
        with open_lake(f"memory://directory-{os.urandom(6).hex()}") as lake:
            run = Run(lake, Random(seed))
            for _ in range(STEPS):
                run.step()
            run.look()
    wanted = {"commit", "branch", "merge", "assigned", "delete", "restart", "saved", "found", "not there", "walks"}
    wanted |= {"expired", "gone"}
    assert wanted <= {name for name, count in fired.items() if count}, fired


def _filled(lake: Lake, count: int) -> LogRecord:
    lake.commit(*(Put((f"t{number:04}",), IcebergTable(f"s3://{number}")) for number in range(count)))
    return lake.refs.resolve("main").logged


def _directory(lake: Lake) -> CatalogDirectory:
    return CatalogDirectory(lake.kernel, lake.catalog.id, SOON, threading.Event().is_set)


def _contents_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Content objects that are fetched from here on."""
    read, objects = Counter[str](), type(lake.kernel.objects)
    fetch_many = objects.fetch_many

    def counted(self: object, object_type: object, ids: object) -> object:
        wanted = list(ids)  # type: ignore[call-overload]
        read["contents"] += len(wanted) if object_type is CONTENT else 0
        return fetch_many(self, object_type, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(objects, "fetch_many", counted)
    return read


def test_a_restart_reads_the_checkpoint_and_later_commits_without_a_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, count = f"sqlite:///{tmp_path}/lake.db", 2_000
    with open_lake(url) as lake:
        at = _filled(lake, count)
        first = _directory(lake)
        first.cover(at)
        assert first.walks == 1 and first.save()
        lake.put("later")
        lake.commit(Rename(("t0001",), ("renamed",)))
    with open_lake(url) as lake:
        again, at = _directory(lake), lake.refs.resolve("main").logged
        listed = {one.content_id: one.key for one in lake.snapshots.entries(at)}
        read = _contents_read(lake, monkeypatch)
        again.cover(at)
        assert (again.walks, read["contents"]) == (0, 0)
        for id in [id for id, key in listed.items() if key in {("later",), ("renamed",), ("t0002",), ("t1999",)}]:
            found = again.find(at, content_id_bytes(id))
            assert found is not None and found.key == listed[id]
        assert read["contents"] == 4
        assert again.find(at, bytes(16)) is None


def test_a_damaged_checkpoint_is_not_used(tmp_path: Path) -> None:
    with open_lake(f"sqlite:///{tmp_path}/lake.db") as lake:
        at = _filled(lake, 50)
        first = _directory(lake)
        first.cover(at)
        assert first.save()
        backend, realm = lake.store.backend, lake.kernel.realm
        [part] = [one for one in backend.all_mutable(realm, PART_TYPE) if one.payload]
        assert backend.update_mutable(realm, part, msgspec.structs.replace(part, version=2, payload=part.payload[:-1] + b"?"))
        again = _directory(lake)
        again.cover(at)
        assert again.walks == 1
        assert again.save() and _walks_after_restart(lake, at) == 0


def test_a_checkpoint_of_a_lost_history_is_not_used(tmp_path: Path) -> None:
    """A store that was restored from a backup has other entries under the same numbers."""
    with open_lake(f"sqlite:///{tmp_path}/one.db") as lost, open_lake(f"sqlite:///{tmp_path}/two.db") as lake:
        directory = CatalogDirectory(lost.kernel, lost.catalog.id, SOON, threading.Event().is_set)
        directory.cover(_filled(lost, 50))
        assert directory.save()
        at = _filled(lake, 60)
        for type in ("directory", PART_TYPE):
            for row in lost.store.backend.all_mutable(lost.kernel.realm, type):
                assert lake.store.backend.insert_mutable(lake.kernel.realm, row)
        again = _directory(lake)
        again.cover(at)
        assert again.walks == 1 and again.save()
        assert _walks_after_restart(lake, at) == 0


def test_parts_that_no_head_names_go_with_the_next_checkpoint_and_all_with_the_catalog(tmp_path: Path) -> None:
    with open_lake(f"sqlite:///{tmp_path}/lake.db") as lake:
        checkpoints = DirectoryCheckpoints(lake.kernel, lake.catalog.id)
        directory = _directory(lake)
        for number in range(3):
            directory.cover(_filled(lake, 20))
            lake.put(f"more-{number}")
            directory.cover(lake.refs.resolve("main").logged)
            assert directory.save()
            head = checkpoints.head()
            assert head is not None
            assert _parts(lake) == sorted(ref.key for ref in (*head.base, *head.later))
        checkpoints.delete()
        assert _parts(lake) == [] and checkpoints.head() is None


def test_one_worker_at_a_time_writes_and_an_older_view_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    with open_lake(f"sqlite:///{tmp_path}/lake.db") as lake:
        behind, ahead = _directory(lake), _directory(lake)
        behind.cover(_filled(lake, 20))
        lake.put("later")
        newest = lake.refs.resolve("main").logged
        ahead.cover(newest)
        held = DirectoryCheckpoints(lake.kernel, lake.catalog.id).lease()
        assert held is not None and not ahead.save()
        held.release()
        assert ahead.save() and not behind.save()
        assert _walks_after_restart(lake, newest) == 0


@pytest.mark.parametrize("loss", ["room for another catalog", "a restore of the store"])
def test_an_id_is_found_although_its_directory_is_dropped_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    cover, lost = CatalogDirectory.cover, Counter[str]()

    async def find(lake: Lake, at: LogRecord, id: str) -> KeyPath | None:
        found = await directories.find(lake.kernel, lake.catalog.id, at, id)
        return None if found is None else found.key

    with open_lake(f"sqlite:///{tmp_path}/lake.db") as lake:
        directories = Directories(DirectoryOptions(bytes_max=0))

        def covered_and_lost(self: CatalogDirectory, at: LogRecord) -> None:
            cover(self, at)
            if loss == "a restore of the store":
                lake.store.restores.went_back("a test")
            else:
                directories.of(lake.kernel, lake.catalog.id + 1)
                directories._make_room()
            lost[loss] += directories.of(lake.kernel, lake.catalog.id) is not self

        monkeypatch.setattr(CatalogDirectory, "cover", covered_and_lost)
        at = _filled(lake, 20)
        ids = {one.content_id: one.key for one in lake.snapshots.entries(at)}
        try:
            for id, key in ids.items():
                assert asyncio.run(find(lake, at, id)) == key
        finally:
            directories.close()
    assert lost[loss] == len(ids)


def test_logs_of_branches_that_are_no_longer_requested_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_logs, "_LOGS_MAX", 5)
    with open_lake(f"sqlite:///{tmp_path}/lake.db") as lake:
        _filled(lake, 20)
        directory = _directory(lake)
        for number in range(12):
            lake.refs.create(f"b{number}", "main", meta=META)
            lake.put(f"only-{number}", on=f"b{number}")
        for number in (*range(12), 0):
            at = lake.refs.resolve(f"b{number}").logged
            directory.cover(at)
            for entry in lake.snapshots.entries(at):
                found = directory.find(at, content_id_bytes(entry.content_id))
                assert found is not None and found.key == entry.key
        assert len(directory._logs.newest_first()) <= 7


def _walks_after_restart(lake: Lake, at: LogRecord) -> int:
    directory = _directory(lake)
    directory.cover(at)
    return directory.walks


def _parts(lake: Lake) -> list[str]:
    return sorted(one.key for one in lake.store.backend.all_mutable(lake.kernel.realm, PART_TYPE))
