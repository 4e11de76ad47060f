"""The chain check delivers each Change once and in order, and catches every mistake that a transport can make."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.clients.chain import Chain, Gap
from headwater.schemas.change import Change, Kind, Op, Operation
from headwater.schemas.entry_ids import EMPTY, recomputed_entry_id, time_text
from headwater.schemas.errors import ChainBroken, CursorReset
from headwater.schemas.frame import Frame

POINTER = "cat/1/heads/main"


def history(length: int) -> list[Change]:
    """A valid log, each entry chained to the previous one."""
    changes: list[Change] = []
    for seq in range(1, length + 1):
        previous = changes[-1].entry_id if changes else ""
        operation = Operation(
            op=Op.PUT, key=("t",), content_id="00000000-0000-0000-0000-000000000000", type="ICEBERG_TABLE", after={"v": seq}
        )
        unhashed = f"{seq:016x}" + "0" * 48
        draft = Change(
            realm="r", pointer=POINTER, seq=seq, entry_id=unhashed, kind=Kind.COMMIT, commit_id=unhashed,
            parent_id=previous or EMPTY.hex(), head_before=previous or EMPTY.hex(), time=time_text(seq), author="a", message="",
            headers={}, request_id=str(seq), operations=(operation,), objects_added=(f"{seq:016x}",), objects_released=(),
        )  # fmt: skip
        entry_id = recomputed_entry_id(draft, previous)
        changes.append(msgspec.structs.replace(draft, entry_id=entry_id, commit_id=entry_id))
    return changes


LOG = history(20)


def frame(from_seq: int, to_seq: int, changes: list[Change] | None = None, *, filtered: bool = False) -> Frame:
    held = LOG[from_seq:to_seq] if changes is None else changes
    return Frame(pointer=POINTER, from_seq=from_seq, to_seq=to_seq, changes=tuple(held), filtered=filtered)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)).map(sorted), max_size=30))
def test_any_overlapping_frames_deliver_each_change_once_and_in_order(ranges: list[list[int]]) -> None:
    chain, delivered = Chain(POINTER, 0), []
    for from_seq, to_seq in ranges:
        if from_seq > chain.seq:
            with pytest.raises(Gap) as gap:
                chain.accept(frame(from_seq, to_seq))
            delivered += chain.accept(frame(gap.value.from_seq, gap.value.to_seq))
        delivered += chain.accept(frame(from_seq, to_seq))
    assert delivered == LOG[: len(delivered)]
    assert chain.seq == len(delivered)


def test_a_dropped_record_is_a_gap() -> None:
    chain = Chain(POINTER, 0)
    chain.accept(frame(0, 3))
    with pytest.raises(Gap, match="entries 4 to 5 are missing"):
        chain.accept(frame(5, 6))
    assert chain.seq == 3


def test_a_repeated_record_is_dropped() -> None:
    chain = Chain(POINTER, 0)
    chain.accept(frame(0, 5))
    assert chain.accept(frame(2, 7)) == LOG[5:7]


def test_a_repeated_seq_with_another_entry_is_another_history() -> None:
    chain = Chain(POINTER, 0)
    chain.accept(frame(0, 5))
    other = msgspec.structs.replace(LOG[3], entry_id="f" * 64)
    with pytest.raises(CursorReset, match="history was replaced"):
        chain.accept(frame(3, 4, [other]))


@pytest.mark.parametrize(
    "changes", [[LOG[1], LOG[0]], [LOG[0], LOG[0]], [LOG[0]], [LOG[0], LOG[2]], [LOG[1], LOG[2]]],
    ids=["swapped", "doubled", "one missing", "hole and beyond", "shifted"],
)  # fmt: skip
def test_a_frame_that_does_not_hold_its_range_is_refused(changes: list[Change]) -> None:
    with pytest.raises(ChainBroken):
        Chain(POINTER, 0).accept(frame(0, 2, changes))


def test_an_altered_change_is_noticed() -> None:
    chain = Chain(POINTER, 0)
    chain.accept(frame(0, 4))
    with pytest.raises(ChainBroken, match="entry 5 does not follow"):
        chain.accept(frame(4, 5, [msgspec.structs.replace(LOG[4], author="mallory")]))


def test_a_filtered_reader_advances_by_bookmarks_and_sees_gaps() -> None:
    chain = Chain(POINTER, 0)
    assert chain.accept(frame(0, 10, [LOG[6]], filtered=True)) == [LOG[6]]
    assert chain.accept(frame(10, 15, [], filtered=True)) == []
    assert chain.seq == 15
    with pytest.raises(Gap):
        chain.accept(frame(16, 17, filtered=True))


def test_a_frame_of_another_pointer_is_refused() -> None:
    with pytest.raises(ChainBroken, match="came to the reader"):
        Chain("other", 0).accept(frame(0, 1))


def test_a_reader_that_resumes_checks_the_first_change_against_its_last() -> None:
    assert Chain(POINTER, 4, LOG[3].entry_id).accept(frame(4, 6)) == LOG[4:6]
    with pytest.raises(ChainBroken):
        Chain(POINTER, 4, LOG[2].entry_id).accept(frame(4, 6))
