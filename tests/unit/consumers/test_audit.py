"""Audits find what was altered, lost, doubled or exchanged, and say where."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.audit.files import read_changes, write_changes
from headwater.consumers.audit.replay import Mismatch, Replayed, mismatches, replay
from headwater.consumers.audit.verify import verify
from headwater.schemas.change import Change, Kind, Op, Operation
from headwater.schemas.errors import ChainBroken, InvalidInput
from tests.support.models.changes_sample import FULL_CHANGE
from tests.unit.consumers.test_chain import LOG, POINTER


def test_a_whole_history_is_whole() -> None:
    found = verify(POINTER, LOG)
    assert found.is_whole
    assert found.anchored
    assert (found.entries, found.first_seq, found.last_seq, found.last_entry_id) == (20, 1, 20, LOG[-1].entry_id)


def test_a_cut_history_is_verified_from_its_anchor() -> None:
    assert verify(POINTER, LOG[7:], after_seq=7, anchor=LOG[6].entry_id).is_whole
    wrong = verify(POINTER, LOG[7:], after_seq=7, anchor=LOG[5].entry_id)
    assert wrong.flaw is not None
    assert wrong.flaw.seq == 8


def test_a_cut_history_without_anchor_says_so() -> None:
    found = verify(POINTER, LOG[7:], after_seq=7)
    assert found.is_whole
    assert not found.anchored


@given(st.integers(0, 19), st.data())
def test_a_flipped_bit_is_found_at_its_entry_or_the_next(at: int, data: st.DataObject) -> None:
    raw = bytearray(msgspec.json.encode(LOG[at]))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        altered = msgspec.json.decode(bytes(raw), type=Change)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return  # no longer a Change at all: reading the file says so
    if altered == LOG[at]:
        return  # e.g. the name of a field that may be absent
    found = verify(POINTER, [*LOG[:at], altered, *LOG[at + 1 :]])
    if altered.realm != LOG[at].realm and msgspec.structs.replace(altered, realm=LOG[at].realm) == LOG[at]:
        assert found.is_whole  # the realm's name is not part of the chain
        return
    assert found.flaw is not None
    assert found.last_seq in (at, at + 1)


@pytest.mark.parametrize(
    ("changes", "seq"),
    [([*LOG[:4], *LOG[5:]], 6), ([*LOG[:5], LOG[4], *LOG[5:]], 5), ([*LOG[:4], LOG[5], LOG[4], *LOG[6:]], 6), (LOG[1:], 2)],
    ids=["lost", "doubled", "exchanged", "beginning lost"],
)
def test_lost_doubled_and_exchanged_entries_are_named(changes: list[Change], seq: int) -> None:
    found = verify(POINTER, changes)
    assert found.flaw is not None
    assert found.flaw.seq == seq


def test_an_entry_of_another_pointer_is_named() -> None:
    found = verify("cat/2/heads/main", LOG)
    assert found.flaw is not None
    assert "belongs to" in found.flaw.reason


def test_replay_adds_operations_up() -> None:
    changes = [_put(1, ("a",), None, {"v": 1}), _put(2, ("a",), {"v": 1}, {"v": 2}), _put(3, ("b",), None, {"v": 3})]
    state = replay(changes, lambda _: {})
    assert state == {("a",): Replayed("c", "UDF", {"v": 2}), ("b",): Replayed("c", "UDF", {"v": 3})}


def _put(seq: int, key: tuple[str, ...], before: dict[str, int] | None, after: dict[str, int] | None) -> Change:
    operation = Operation(op=Op.PUT if after else Op.DELETE, key=key, content_id="c", type="UDF", before=before, after=after)
    return msgspec.structs.replace(FULL_CHANGE, seq=seq, kind=Kind.COMMIT, operations=(operation,), base=None)


def test_replay_detects_a_before_value_that_was_not_there() -> None:
    with pytest.raises(ChainBroken, match="held something else"):
        replay([_put(1, ("a",), {"v": 9}, {"v": 1})], lambda _: {})


def test_create_assign_and_delete_begin_with_their_base_or_nothing() -> None:
    base_state = {("b",): Replayed("c", "UDF", {"v": 7})}
    create = msgspec.structs.replace(FULL_CHANGE, kind=Kind.CREATE, operations=())
    delete = msgspec.structs.replace(create, kind=Kind.DELETE, base=None)
    assert replay([_put(1, ("a",), None, {"v": 1}), create], lambda _: base_state) == base_state
    assert replay([create, delete], lambda _: base_state) == {}


def test_mismatches_name_both_sides() -> None:
    one, other = Replayed("c", "UDF", {"v": 1}), Replayed("c", "UDF", {"v": 2})
    assert list(mismatches({("a",): one, ("b",): one}, {("b",): other, ("c",): one})) == [
        Mismatch(("a",), one, None),
        Mismatch(("b",), one, other),
        Mismatch(("c",), None, one),
    ]


@pytest.mark.parametrize("name", ["h.jsonl", "h.parquet"])
def test_a_file_gives_back_every_change(tmp_path: Path, name: str) -> None:
    changes = [*LOG, FULL_CHANGE]
    assert write_changes(tmp_path / name, changes) == len(changes)
    assert list(read_changes(tmp_path / name)) == changes


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text("mine")
    with pytest.raises(InvalidInput, match="exists already"):
        write_changes(tmp_path / "h.jsonl", LOG)
    assert (tmp_path / "h.jsonl").read_text() == "mine"


def test_a_line_that_is_not_a_change_is_named(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(msgspec.json.encode(LOG[0]) + b"\n{]\n")
    with pytest.raises(InvalidInput, match="line 2 is not a Change"):
        list(read_changes(tmp_path / "h.jsonl"))
