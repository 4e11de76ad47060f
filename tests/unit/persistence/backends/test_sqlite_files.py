"""The file of a store: missing, foreign, damaged, of another version, locked, full; nothing is created unasked."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from headwater.persistence.backend import DurabilityLevel
from headwater.persistence.backends.sqlite import open_sqlite
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.schemas.errors import (
    Corruption,
    InvalidInput,
    InvalidStoreUrl,
    OutcomeUnknown,
    StoreNotCreated,
    StoreRefused,
    StoreRestored,
    StoreUnavailable,
    StoreVersionMismatch,
)

REALM = "default@1"


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def pointer(version: int) -> PointerRow:
    return PointerRow(version=version, created_at=1)


def test_a_missing_file_is_not_created_by_looking_at_it(tmp_path: Path) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    for look in (backend.check_schema, backend.durability, lambda: backend.add_name(REALM, "main")):
        with pytest.raises(StoreNotCreated, match="store create"):
            look()
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_a_store_that_was_not_created(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    with pytest.raises(StoreNotCreated, match="store create"):
        backend.check_schema()
    backend.create_schema()
    backend.check_schema()
    backend.close()


def test_the_folder_must_be_there_and_the_path_must_not_be_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidStoreUrl, match="does not exist"):
        open_sqlite(url_of(tmp_path / "nowhere" / "store.db")).create_schema()
    with pytest.raises(InvalidStoreUrl, match="is a folder"):
        open_sqlite(url_of(tmp_path)).create_schema()


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary " * 1_000)
    backend = open_sqlite(url_of(path))
    for touch in (backend.check_schema, backend.create_schema, lambda: backend.add_name(REALM, "main")):
        with pytest.raises(StoreRefused, match="not a SQLite database"):
            touch()
    assert path.read_text() == "dear diary " * 1_000


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "browser.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE cookies (name)")
    with pytest.raises(StoreRefused, match="cookies"):
        open_sqlite(url_of(path)).create_schema()
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("cookies",)]


@pytest.mark.parametrize(("version", "remedy"), [(3, "Upgrade"), (0, "export")])
def test_a_store_of_another_version_is_refused_with_both_versions(tmp_path: Path, version: int, remedy: str) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    backend.create_schema()
    with closing(sqlite3.connect(tmp_path / "store.db")) as other:
        other.execute("UPDATE headwater_schema SET version = ?", (version,))
        other.commit()
    for touch in (backend.check_schema, backend.create_schema):
        with pytest.raises(StoreVersionMismatch, match=f"version {version}.*version 2.*{remedy}"):
            touch()
    backend.close()


def test_damage_is_reported_as_such(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    backend = open_sqlite(url_of(path))
    backend.create_schema()
    backend.write_objects(REALM, [ObjectRow(n, "note", 1, b"x" * 3_000) for n in range(1, 50)])
    backend.close()
    with path.open("r+b") as file:
        file.seek(8_192)
        file.write(b"\xff" * (path.stat().st_size - 8_192))
    damaged = open_sqlite(url_of(path))
    with pytest.raises(Corruption):
        damaged.fetch_objects(REALM, list(range(1, 50)))
    damaged.close()


def test_a_file_locked_for_longer_than_the_timeout_is_unavailable(tmp_path: Path) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db") + "?busy_timeout_seconds=0.1")
    backend.create_schema()
    assert backend.reserve_pointer(REALM, "main", pointer(1))
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            backend.cas_pointer(REALM, "main", pointer(1), pointer(2))
        assert backend.read_pointer(REALM, "main") == pointer(1), "readers do not wait for writers"
        other.execute("ROLLBACK")
    assert backend.cas_pointer(REALM, "main", pointer(1), pointer(2))
    backend.close()


def test_a_deciding_read_waits_for_the_writer_of_another_process(tmp_path: Path) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    backend.create_schema()
    assert backend.reserve_pointer(REALM, "main", pointer(1))
    decided: list[PointerRow | None] = []
    reader = threading.Thread(target=lambda: decided.append(backend.read_pointer(REALM, "main", decide=True)))
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE headwater_pointers SET version = 2")
        reader.start()
        reader.join(0.2)
        assert not decided
        other.execute("COMMIT")
    reader.join(10)
    assert decided == [pointer(2)]
    backend.close()


def test_a_commit_that_fills_the_disk_is_never_reported_as_done(tmp_path: Path) -> None:
    """A limit of the file size stands for a full disk; the store must still be whole and continue afterwards."""
    url = url_of(tmp_path / "store.db")
    backend = open_sqlite(url)
    backend.create_schema()
    assert backend.reserve_pointer(REALM, "main", pointer(1))
    answers = subprocess.run(
        [sys.executable, "-c", _FILL, url], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4]
    ).stdout.split()
    committed = answers.count("True")
    assert set(answers) <= {"True", OutcomeUnknown.__name__, StoreUnavailable.__name__}, answers
    assert committed >= 1 and len(set(answers)) >= 2, "the disk never became full"
    found = backend.read_pointer(REALM, "main", decide=True)
    assert found is not None
    assert found.version >= 1 + committed
    there = backend.fetch_objects(REALM, list(range(1, 100)))
    assert set(there) == set(range(1, found.version))
    assert backend.cas_pointer(REALM, "main", found, pointer(found.version + 1))
    backend.close()


_FILL = """
import resource, signal, sys
from headwater.persistence.backends import open_backend
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.schemas.errors import HeadwaterError
backend = open_backend(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
version = 1
for _ in range(12):
    before, row = PointerRow(version=version, created_at=1), PointerRow(version=version + 1, created_at=1)
    try:
        print(backend.commit("default@1", "main", before, row, [ObjectRow(version, "note", 1, b"x" * 300_000)]))
        version += 1
    except HeadwaterError as error:
        print(type(error).__name__)
        found = backend.read_pointer("default@1", "main")
        version = found.version
"""


def test_a_value_that_no_column_holds_is_bad_input(tmp_path: Path) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    backend.create_schema()
    with pytest.raises(InvalidInput):
        backend.write_objects(REALM, [ObjectRow(2**63, "note", 1, b"")])
    with pytest.raises(InvalidInput):
        backend.fetch_objects(REALM, [2**63])
    with pytest.raises(InvalidInput):
        backend.read_pointer(REALM, "\ud800")
    backend.write_objects(REALM, [ObjectRow(2**63 - 1, "note", 1, b"")])
    assert set(backend.fetch_objects(REALM, [2**63 - 1])) == {2**63 - 1}
    backend.close()


def test_weaker_settings_are_reported_as_weak(tmp_path: Path) -> None:
    open_sqlite(url_of(tmp_path / "store.db")).create_schema()
    backend = open_sqlite(url_of(tmp_path / "store.db") + "?synchronous=NORMAL")
    durability = backend.durability()
    assert durability.level is DurabilityLevel.WEAK
    assert durability.settings["synchronous"] == "NORMAL"
    assert "power cut" in durability.warnings[0]
    backend.close()


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    backend.create_schema()
    backend.close()
    for use in (lambda: backend.read_pointer(REALM, "main"), lambda: backend.add_name(REALM, "main")):
        with pytest.raises(StoreUnavailable, match="closed"):
            use()


def test_a_forked_child_opens_connections_of_its_own(tmp_path: Path) -> None:
    backend = open_sqlite(url_of(tmp_path / "store.db"))
    backend.create_schema()
    backend.add_name(REALM, "parent")
    child = os.fork()
    if child == 0:
        try:
            backend.add_name(REALM, "child")
            os._exit(0 if backend.list_names(REALM) == ["child", "parent"] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    backend.add_name(REALM, "later")
    assert backend.list_names(REALM) == ["child", "later", "parent"]
    backend.close()


# ── another copy of the data ────────────────────────────────────────────────────────────────────────────────


def copied(source: Path, target: Path) -> None:
    """SQLite's own online backup."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as two:
        one.backup(two)


def test_a_backup_that_was_put_back_underneath_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    path, backup = tmp_path / "store.db", tmp_path / "backup.db"
    backend = open_sqlite(url_of(path))
    backend.create_schema()
    assert backend.reserve_pointer(REALM, "main", pointer(1))
    before = backend.data_identity()
    copied(path, backup)
    backend.write_objects(REALM, [ObjectRow(1, "note", 1, b"lost")])
    copied(backup, path)
    with pytest.raises(StoreRestored):
        backend.commit(REALM, "main", pointer(1), pointer(2), [ObjectRow(2, "note", 1, b"rests on what was lost")])
    assert backend.fetch_objects(REALM, [1, 2]) == {}
    with pytest.raises(StoreRestored):
        backend.data_identity()
    assert backend.data_identity() != before
    assert backend.commit(REALM, "main", pointer(1), pointer(2), [])
    backend.close()


def test_a_file_that_was_replaced_by_another_is_not_written_into_the_air(tmp_path: Path) -> None:
    """Who has the old file open continues writing into it, though nobody will ever find it again."""
    path, backup = tmp_path / "store.db", tmp_path / "backup.db"
    backend = open_sqlite(url_of(path))
    backend.create_schema()
    assert backend.reserve_pointer(REALM, "main", pointer(1))
    copied(path, backup)
    assert backend.cas_pointer(REALM, "main", pointer(1), pointer(2))
    for of_the_old in tmp_path.glob("store.db*"):
        of_the_old.unlink()
    with pytest.raises(StoreUnavailable, match="is gone"):
        backend.cas_pointer(REALM, "main", pointer(2), pointer(3))
    backup.rename(path)
    with pytest.raises(StoreRestored):
        backend.cas_pointer(REALM, "main", pointer(2), pointer(3))
    assert not backend.cas_pointer(REALM, "main", pointer(2), pointer(3))
    assert backend.read_pointer(REALM, "main") == pointer(1)
    assert backend.cas_pointer(REALM, "main", pointer(1), pointer(2))
    backend.close()
