"""What another process committed is seen soon, whatever its clock says and however long it waited: commits, and rights too."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.embedded import Headwater
from headwater.persistence.clock import SystemClock
from headwater.persistence.reading import head_watch
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.reading.pointer_log import LogHead, PointerLog
from headwater.producer.access.grants import realm_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.service.auth.rights.realm_rights import RealmRights

BY_ADMIN = WriteMeta("admin")
SECONDS_MAX = 60.0


class HoursBehind(SystemClock):
    def now_micros(self) -> int:
        return super().now_micros() - 5 * 3_600_000_000


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[tuple[Headwater, Headwater]]:
    """A writer and a reader: two processes, as far as the store can tell."""
    url = f"sqlite:///{tmp_path}/store.db"
    with headwater.open(url, create=True) as writer, headwater.open(url) as reader:
        writer.ensure_realm().ensure_catalog("lake")
        yield writer, reader


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not what():
        assert time.monotonic() < deadline, "it was never seen"
        time.sleep(0.01)


def polls(watch: HeadWatch, count: int) -> None:
    """Wait until it has asked for moves so many times more."""
    for _ in range(count):
        before = watch._polled_at
        until(lambda before=before: watch._polled_at != before)  # type: ignore[misc]


def test_commits_of_a_writer_whose_clock_is_hours_slow_are_seen(engines: tuple[Headwater, Headwater]) -> None:
    writer, reader = engines
    main, watch = writer.realm().catalog("lake").branch(), reader.realm().feed._watch
    watch.head(main.pointer)
    polls(watch, 1)
    writer.store.backend._clock = HoursBehind()  # type: ignore[attr-defined]
    for n in range(3):
        seq = main.commit([Put((f"t{n}",), IcebergTable(f"s3://t/{n}"))]).seq
        assert watch.wait(main.pointer, seq - 1, SECONDS_MAX).seq == seq
        polls(watch, 1)


def test_a_commit_that_waited_for_the_write_lock_is_seen_when_it_lands(engines: tuple[Headwater, Headwater]) -> None:
    writer, reader = engines
    main, watch = writer.realm().catalog("lake").branch(), reader.realm().feed._watch
    path = writer.store.backend._connections.path  # type: ignore[attr-defined]
    watch.head(main.pointer)
    with closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as thread:
        other.execute("BEGIN IMMEDIATE")
        landing = thread.submit(main.commit, [Put(("late",), IcebergTable("s3://late/1"))])
        polls(watch, 5)
        assert not landing.done()
        other.execute("ROLLBACK")
        seq = landing.result(SECONDS_MAX).seq
    assert watch.wait(main.pointer, seq - 1, SECONDS_MAX).seq == seq


def test_a_right_that_a_process_with_a_wrong_clock_revoked_is_gone(engines: tuple[Headwater, Headwater]) -> None:
    writer, reader = engines
    kernel = writer.realm().kernel
    eve = Principals(kernel).create("eve", with_secret=False, meta=BY_ADMIN).principal
    principal_roles(kernel).create("r", properties={}, meta=BY_ADMIN)
    principal_roles(kernel).assign("eve", "r", meta=BY_ADMIN)
    realm_grants(kernel).grant("r", Right.REALM_MANAGE, meta=BY_ADMIN)
    with closing(HeadWatch(reader.realm().kernel)) as watch:
        rights = RealmRights(reader.realm().kernel, watch)

        def is_allowed() -> bool:
            return rights.roles("eve", eve.id, ()).held.allows(Right.REALM_MANAGE)

        assert is_allowed()
        polls(watch, 1)
        writer.store.backend._clock = HoursBehind()  # type: ignore[attr-defined]
        realm_grants(kernel).revoke("r", Right.REALM_MANAGE, meta=BY_ADMIN)
        until(lambda: not is_allowed())


def test_a_move_between_reading_a_head_and_knowing_it_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory, where a move is named once: the other databases name some again."""
    url = f"memory://{secrets.token_hex(8)}"
    with headwater.open(url, create=True) as writer, headwater.open(url) as reader:
        writer.ensure_realm().ensure_catalog("lake")
        _move_while_reading(writer, reader, monkeypatch)


def _move_while_reading(writer: Headwater, reader: Headwater, monkeypatch: pytest.MonkeyPatch) -> None:
    main, watch = writer.realm().catalog("lake").branch(), reader.realm().feed._watch
    watch.head("catalogs")  # it polls from now on
    moved: list[int] = []

    class MovesMeanwhile(PointerLog):
        def head(self) -> LogHead:
            found = super().head()
            if not moved:
                moved.append(main.commit([Put(("t",), IcebergTable("s3://t/1"))]).seq)
                polls(watch, 3)
            return found

    monkeypatch.setattr(head_watch, "PointerLog", MovesMeanwhile)
    watch.head(main.pointer)
    polls(watch, 3)
    assert moved and watch.head(main.pointer).seq == moved[0]
