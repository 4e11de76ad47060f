"""Writes that wait together share one transaction, and each of them gets its own answer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.persistence.backends.sqlite.group_commit import GROUP_MAX, GroupCommit
from headwater.persistence.backends.sqlite.sqlite_errors import sqlite_error
from headwater.schemas.errors import InvalidInput, OutcomeUnknown, StoreUnavailable


class Connection(sqlite3.Connection):
    """A real one that counts commits, and whose next COMMIT can be made to fail."""

    commits = 0
    fail_commit_with: sqlite3.OperationalError | KeyboardInterrupt | None = None

    def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:
        if sql == "COMMIT":
            self.commits += 1
            if self.fail_commit_with is not None:
                error, self.fail_commit_with = self.fail_commit_with, None
                raise error
        return super().execute(sql, *parameters)  # type: ignore[arg-type]


class Writer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened: list[Connection] = []
        self.current: Connection | None = None

    def begin(self) -> sqlite3.Connection:
        if self.current is None:
            self.current = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, factory=Connection)
            self.opened.append(self.current)
        self.current.execute("BEGIN IMMEDIATE")
        return self.current

    def abandon(self, *, in_doubt: bool) -> None:
        assert self.current is not None
        if self.current.in_transaction:
            self.current.execute("ROLLBACK")
        if in_doubt:
            self.current.close()
            self.current = None

    def error(self, error: Exception, *, committing: bool) -> Exception:
        return sqlite_error(error, "store", committing=committing)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path / "numbers.db")
    with closing(sqlite3.connect(made.path)) as connection:
        connection.execute("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")
    yield made
    for connection in made.opened:
        connection.close()


def numbers(writer: Writer) -> list[int]:
    with closing(sqlite3.connect(writer.path)) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def insert(group: GroupCommit, n: int) -> int:
    return group.run(lambda connection: connection.execute("INSERT INTO numbers VALUES (?)", (n,)).rowcount)


def run_together(group: GroupCommit, values: list[int]) -> dict[int, object]:
    """All wait while one holds the lock, then go in groups; the answer or error of each."""
    outcomes: dict[int, object] = {}

    def work(n: int) -> None:
        try:
            outcomes[n] = insert(group, n)
        except (InvalidInput, OutcomeUnknown, StoreUnavailable, KeyboardInterrupt) as error:
            outcomes[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in values]

    def queue_all() -> None:
        for thread in threads:
            thread.start()
        while len(group._waiting) < len(threads):
            pass

    group.exclusively(queue_all)
    for thread in threads:
        thread.join()
    return outcomes


def test_writes_that_wait_together_share_one_commit(writer: Writer) -> None:
    group = GroupCommit(writer)
    assert insert(group, 0) == 1
    assert run_together(group, list(range(1, 21))) == dict.fromkeys(range(1, 21), 1)
    assert numbers(writer) == list(range(21))
    assert writer.opened[0].commits == 2


def test_a_group_is_bounded(writer: Writer) -> None:
    group = GroupCommit(writer)
    run_together(group, list(range(GROUP_MAX + 1)))
    assert numbers(writer) == list(range(GROUP_MAX + 1))
    assert writer.opened[0].commits == 2


def test_a_write_that_fails_fails_alone(writer: Writer) -> None:
    group = GroupCommit(writer)
    insert(group, 5)
    outcomes = run_together(group, list(range(10)))
    assert isinstance(outcomes.pop(5), InvalidInput)
    assert outcomes == dict.fromkeys((0, 1, 2, 3, 4, 6, 7, 8, 9), 1)
    assert numbers(writer) == list(range(10))
    assert writer.opened[0].commits == 2


def test_a_commit_that_fails_is_unknown_to_every_request_in_it(writer: Writer) -> None:
    group = GroupCommit(writer)
    insert(group, 0)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    writer.opened[0].fail_commit_with = error
    outcomes = run_together(group, [1, 2, 3])
    assert [type(outcome) for outcome in outcomes.values()] == [OutcomeUnknown] * 3
    assert len({id(outcome) for outcome in outcomes.values()}) == 3
    assert insert(group, 4) == 1
    assert len(writer.opened) == 2, "a connection in doubt was used again"


def test_a_commit_that_found_the_file_busy_changed_nothing(writer: Writer) -> None:
    group = GroupCommit(writer)
    insert(group, 0)
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    writer.opened[0].fail_commit_with = error
    with pytest.raises(StoreUnavailable):
        insert(group, 1)
    assert numbers(writer) == [0]


def test_an_interrupt_while_committing_leaves_the_others_with_an_unknown_outcome(writer: Writer) -> None:
    group = GroupCommit(writer)
    insert(group, 0)
    writer.opened[0].fail_commit_with = KeyboardInterrupt()
    outcomes = run_together(group, [1, 2, 3])
    assert sorted(type(outcome).__name__ for outcome in outcomes.values()) == ["KeyboardInterrupt", *["OutcomeUnknown"] * 2]
    assert insert(group, 4) == 1
