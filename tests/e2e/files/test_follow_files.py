"""Versions are expanded into the manifest cache as they are committed; the set of files in use is that of a cold mark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.persistence.rows import realm_name_of
from headwater.schemas.errors import InvalidInput, StoreUnavailable
from headwater.settings import Settings
from headwater.streaming.files.kinds import FileKind, kind_by_name
from headwater.streaming.files.marks import cache_proof
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.sweep.file_safeguards import ALL_ON
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.roots import RootRecord, Roots
from headwater.streaming.files.sweep.store_marks import fence_patiently, file_salt
from headwater.streaming.files.upkeep import claimed_roots
from headwater.streaming.files.watch import follow
from headwater.streaming.files.watch.follow import FileFollower
from headwater.streaming.stream.stream_app import StreamApp
from headwater.streaming.stream.stream_status import metrics_text
from headwater.wiring.stream import StreamOptions, stream_app
from tests.support.fixtures.swept_lake import ROWS, SweptLake, swept_lake

CONTAINERS = (FileKind.MANIFEST_LIST, FileKind.MANIFEST)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SweptLake]:
    with swept_lake(tmp_path, cached=True) as lake:
        yield lake


@pytest.fixture(autouse=True)
def no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_proof, "PROVED_AT_LEAST", 0)
    monkeypatch.setattr(cache_proof, "PROVED_ONE_IN", 2**62)


def commits(lake: SweptLake, count: int, name: str = "t") -> None:
    table = lake.table(name, 0)
    for _ in range(count):
        table.append(ROWS)
        lake.put(name, table.metadata_location)


def live_ids(lake: SweptLake, *, cached: bool) -> list[int]:
    """Of every file that a retained state needs."""
    salt = file_salt(lake.store)
    cache = lake.operations.manifest_cache(salt) if cached else None
    live = LiveFiles(lake.operations.storages, (), salt, lake.store.clock, safeguards=ALL_ON, cache=cache)
    live.add(lake.store.backend, lake.realm, fence_patiently(lake.store.backend, lake.realm, lake.store.clock).spans)
    found = list(live.finish())
    live.close()
    return found


def containers_read(lake: SweptLake, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Counter[str]:
    reads: Counter[str] = Counter()
    reading = lake.operations.storages.read

    def read(location: str, bytes_max: int) -> bytes:
        reads[location] += kind_by_name(location) in CONTAINERS
        return reading(location, bytes_max)

    with monkeypatch.context() as counted:
        counted.setattr(lake.operations.storages, "read", read)
        act()
    return +reads


def test_a_sweep_after_a_follower_reads_no_manifest_and_the_same_files_are_in_use(
    lake: SweptLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits(lake, 3)
    follower = FileFollower(lake.store, lake.operations)
    first = follower.turn()
    assert (first.contents, first.read, first.damage) == (3, 6, [])
    commits(lake, 2, "u")
    second = FileFollower(lake.store, lake.operations).turn()
    assert (second.contents, second.read) == (2, 4), "another process continues where the first one was"
    assert not containers_read(lake, monkeypatch, lambda: lake.sweep(threads=1))
    assert live_ids(lake, cached=True) == live_ids(lake, cached=False)


def test_the_sweep_reads_versions_that_a_slow_follower_has_not(lake: SweptLake, monkeypatch: pytest.MonkeyPatch) -> None:
    commits(lake, 3)
    FileFollower(lake.store, lake.operations).turn()
    commits(lake, 2, "late")
    assert sum(containers_read(lake, monkeypatch, lambda: lake.sweep(threads=1)).values()) == 4
    assert live_ids(lake, cached=True) == live_ids(lake, cached=False)


def test_a_follower_that_is_killed_anywhere_reads_it_again_and_one_is_rebuilt(
    lake: SweptLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits(lake, 3)
    whole = live_ids(lake, cached=False)
    reading = lake.operations.storages.read
    for killed_at in range(1, 9):
        reads: list[str] = []

        def read(location: str, bytes_max: int, at: int = killed_at, reads: list[str] = reads) -> bytes:
            reads.append(location)
            if len(reads) == at + 1:  # the first asks where it was
                raise KeyboardInterrupt
            return reading(location, bytes_max)

        with monkeypatch.context() as dying:
            dying.setattr(lake.operations.storages, "read", read)
            with pytest.raises(KeyboardInterrupt):
                FileFollower(lake.store, lake.operations).turn()
    follower = FileFollower(lake.store, lake.operations)
    assert follower.turn().contents == 3 and follower.turn().contents == 0
    follower.rebuild()
    assert follower.turn().contents == 3 and live_ids(lake, cached=True) == whole


def test_a_manifest_that_is_written_again_after_it_was_followed_is_read_again(
    lake: SweptLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits(lake, 1)
    FileFollower(lake.store, lake.operations).turn()
    [manifest] = [one for one in lake.files() if kind_by_name(one) is FileKind.MANIFEST]
    content = lake.operations.storages.read(manifest, 10**7)
    lake.operations.storages.of(manifest).write(manifest, content)
    assert containers_read(lake, monkeypatch, lambda: lake.sweep(threads=1)) == Counter({manifest: 1})


def test_long_logs_are_followed_in_turns_and_expired_entries_are_skipped(
    lake: SweptLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.fixtures.purged_lake import forget_history

    monkeypatch.setattr(follow, "ENTRIES_PER_TURN", 2)
    commits(lake, 5)
    follower = FileFollower(lake.store, lake.operations)
    turns = [follower.turn() for _ in range(3)]
    assert [one.is_behind for one in turns] == [True, True, False] and sum(one.contents for one in turns) == 5
    forget_history(lake)
    commits(lake, 1, "u")
    assert follower.turn().contents == 1
    assert live_ids(lake, cached=True) == live_ids(lake, cached=False)


def test_damaged_metadata_is_reported_when_it_is_committed(lake: SweptLake) -> None:
    table = lake.table("t")
    [broken] = [one for one in lake.needed(table.metadata_location) if kind_by_name(one) is FileKind.MANIFEST]
    Path(broken.removeprefix("file://")).write_bytes(b"damage")
    lake.put("t", table.metadata_location)
    commits(lake, 1, "whole")
    report = FileFollower(lake.store, lake.operations).turn()
    assert report.contents == 2 and len(report.damage) == 1 and table.metadata_location in report.damage[0]


def following_stream(lake: SweptLake, **options: float) -> StreamApp:
    """A stream with this task alone: the others need Spark."""
    settings = Settings(maintenance_dir=lake.cache_folder.removeprefix("file://"))
    app = stream_app(settings, lake.store, cast(Any, None), None, StreamOptions(**options), threading.Event())
    tasks = {name: task for name, task in app._parts.tasks.items() if name == "follow-files"}
    app._parts = app._parts._replace(tasks=tasks)
    return app


def test_a_stream_follows_files_as_one_more_cadence_and_shows_damage(lake: SweptLake) -> None:
    commits(lake, 2)
    table = lake.table("broken")
    [broken] = [one for one in lake.needed(table.metadata_location) if kind_by_name(one) is FileKind.MANIFEST]
    Path(broken.removeprefix("file://")).unlink()
    lake.put("broken", table.metadata_location)
    app = following_stream(lake, follow_files_seconds=60.0)
    app.run_due_tasks()
    [failure] = app.status.tasks["follow-files"].failures
    assert table.metadata_location in failure
    assert 'headwater_stream_task_failures{task="follow-files"} 1' in metrics_text(app.status)
    assert FileFollower(lake.store, lake.operations).turn().contents == 0, "all was followed in the stream"
    assert "follow-files" not in following_stream(lake).status.tasks, "it is off unless asked for"


def test_a_stream_follows_no_files_of_a_store_without_a_claimed_root(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        for root in claimed_roots(lake.store):
            Roots(lake.store.backend, lake.store.clock).put(root, RootRecord(location=root.location))
        commits(lake, 1)
        following_stream(lake, follow_files_seconds=60.0).run_due_tasks()
        assert FileFollower(lake.store, lake.operations).turn().contents == 1


def test_a_realm_that_cannot_be_followed_stops_no_other_and_is_tried_again(
    lake: SweptLake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    second = lake.new_realm("second", f"file://{tmp_path}/second")
    for name, realm in (("t", lake.realm), ("u", second)):
        lake.put(name, lake.table(name).metadata_location, realm)
    reading = lake.store.backend.all_pointers
    follower = FileFollower(lake.store, lake.operations)
    for failing in (lake.realm, second):

        def all_pointers(realm: str, failing: str = failing) -> Any:
            if realm == failing:
                raise StoreUnavailable("away.")
            return reading(realm)

        follower.rebuild()
        with monkeypatch.context() as away:
            away.setattr(lake.store.backend, "all_pointers", all_pointers)
            report = follower.turn()
        assert (report.contents, report.failures) == (1, [f"{realm_name_of(failing)}: away."])
        assert follower.turn().contents == 1, "the next turn reads what is left"
    assert follower.turn(lambda: True).contents == 0


def test_a_follower_needs_a_cache(lake: SweptLake) -> None:
    with pytest.raises(InvalidInput, match="no manifest cache"):
        FileFollower(lake.store, FileOperations(lake.operations.storages))


def test_the_command_follows_once_and_reports_what_it_read(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with swept_lake(tmp_path, url=url) as lake:
        commits(lake, 2)
    where = ["--store", url, "--set", f"maintenance_dir={tmp_path}/kept"]
    command = [sys.executable, "-m", "headwater", *where, "maintain", "files", "follow", "--once", "--json"]
    answers = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(2)]
    assert [(one["contents"], one["read"]) for one in answers] == [(2, 4), (0, 0)]
