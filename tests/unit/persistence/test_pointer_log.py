"""Cursors at the edges of a log: the floor, the head, ids that only look right."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.rows import Anchor
from headwater.persistence.store import RealmKernel
from headwater.schemas.cursor import Position
from headwater.schemas.entry_ids import EMPTY
from headwater.schemas.errors import CursorAhead, CursorExpired, CursorReset
from tests.support.models.commit_harness import MAIN, REALM, Bump, Lanes, cut, move_row, new_store

FLOOR, NEWEST = 40, 60


@pytest.fixture
def kernel() -> Iterator[RealmKernel]:
    with new_store("memory://") as store:
        yield store.kernel(REALM)


@pytest.fixture
def entries(kernel: RealmKernel) -> list[LogRecord]:
    """All that were committed; the log serves those from the floor on."""
    lanes = Lanes(kernel)
    made = [lanes.landed(MAIN, Bump(writer="w")) for _ in range(NEWEST)]
    cut(kernel, MAIN, FLOOR)
    return made


def seqs_after(kernel: RealmKernel, cursor: str | int) -> list[int]:
    return [logged.entry.seq for logged in PointerLog(kernel, MAIN).forward(cursor, page_entries=7)]


def test_a_reader_that_has_seen_the_entry_just_below_the_floor_misses_nothing(
    kernel: RealmKernel, entries: list[LogRecord]
) -> None:
    served = list(range(FLOOR, NEWEST + 1))
    for cursor in ("earliest", FLOOR - 1, entries[FLOOR - 2].entry_id.hex()):
        assert seqs_after(kernel, cursor) == served
    assert seqs_after(kernel, "latest") == seqs_after(kernel, NEWEST) == []


def test_a_reader_that_has_seen_less_gets_cursor_expired(kernel: RealmKernel, entries: list[LogRecord]) -> None:
    for cursor in (0, FLOOR - 2, entries[FLOOR - 3].entry_id.hex(), EMPTY.hex()):
        with pytest.raises(CursorExpired):
            seqs_after(kernel, cursor)


@pytest.mark.parametrize("seq", [FLOOR - 1, FLOOR, NEWEST])
def test_an_id_that_only_begins_like_an_entrys_is_not_a_cursor(kernel: RealmKernel, entries: list[LogRecord], seq: int) -> None:
    entry_id = entries[seq - 1].entry_id
    with pytest.raises(CursorReset):
        seqs_after(kernel, (entry_id[:-1] + bytes([entry_id[-1] ^ 1])).hex())


def test_an_entry_seen_beyond_the_head_is_a_reset_and_a_bare_number_may_still_come(
    kernel: RealmKernel, entries: list[LogRecord]
) -> None:
    log, head = PointerLog(kernel, MAIN), PointerLog(kernel, MAIN).head()
    with pytest.raises(CursorAhead):
        log.page(NEWEST + 1, 10, head)
    with pytest.raises(CursorReset):
        log.page(Position(NEWEST + 1, bytes(31) + b"x"), 10, head)


def test_reading_backward_ends_at_the_floor_wherever_it_begins(kernel: RealmKernel, entries: list[LogRecord]) -> None:
    log = PointerLog(kernel, MAIN)
    assert list(log.backward()) == entries[FLOOR - 1 :][::-1]
    assert list(log.backward(FLOOR)) == [entries[FLOOR - 1]]
    assert list(log.backward(FLOOR - 1)) == []
    with pytest.raises(CursorAhead):
        list(log.backward(NEWEST + 1))


def test_a_log_that_was_cut_to_its_end_serves_nothing_and_continues(kernel: RealmKernel, entries: list[LogRecord]) -> None:
    lanes, last = Lanes(kernel), entries[-1]
    anchor = Anchor(last.entry_id, last.entry.time)
    move_row(kernel.store.backend, MAIN, lambda row: msgspec.structs.replace(row, floor=NEWEST + 1, anchor=anchor))
    assert seqs_after(kernel, "earliest") == [] and list(PointerLog(kernel, MAIN).backward()) == []
    lanes.commit(MAIN, Bump(writer="w"))
    assert seqs_after(kernel, NEWEST) == [NEWEST + 1]
