"""What a reader who may not see everything sees of a Change, and that the chain still proves itself."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.clients.chain import Chain
from headwater.producer.commits.commit_meta import CommitMeta, check_meta
from headwater.schemas.change import Change, KeyPath, Kind, Op, Operation
from headwater.schemas.entry_ids import recomputed_entry_id
from headwater.schemas.errors import ChainBroken, InvalidInput
from headwater.schemas.frame import Frame
from headwater.schemas.redaction import WITHHELD_HEADER, as_seen, is_partial

EMPTY_HEX = "00" * 32
CONTENT_ID = "11111111-2222-4333-8444-555555555555"
_keys = st.sampled_from([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")])


def _change(*operations: Operation, kind: Kind = Kind.COMMIT, seq: int = 1, previous: str = "") -> Change:
    made = Change(
        realm="r",
        pointer="cat/1/heads/main",
        seq=seq,
        entry_id=EMPTY_HEX,
        kind=kind,
        commit_id=EMPTY_HEX,
        parent_id=EMPTY_HEX,
        head_before=EMPTY_HEX,
        time="2026-11-16T00:00:00.000000Z",
        author="someone",
        message="drop b.secret",
        headers={"about": "b.secret"},
        request_id="key",
        operations=operations,
        objects_added=("0000000000000001",),
        objects_released=(),
    )
    entry_id = recomputed_entry_id(made, previous)
    return msgspec.structs.replace(made, entry_id=entry_id, commit_id=entry_id)


def _put(*key: str) -> Operation:
    return Operation(op=Op.PUT, key=key, content_id=CONTENT_ID, type="ICEBERG_TABLE", after={"at": ".".join(key)})


def _sees_a(key: KeyPath) -> bool:
    return key[:1] == ("a",)


def test_a_change_that_may_be_seen_wholly_is_the_very_same() -> None:
    change = _change(_put("a", "x"))
    assert as_seen(change, _sees_a) is change


def test_a_change_of_other_keys_is_withheld_whole() -> None:
    assert as_seen(_change(_put("b", "x")), _sees_a) is None


def test_moves_of_the_pointer_itself_are_always_seen() -> None:
    change = _change(kind=Kind.ASSIGN)
    assert as_seen(change, lambda _: False) is change


def test_of_a_mixed_change_only_the_permitted_part_is_shown() -> None:
    seen = as_seen(_change(_put("a", "x"), _put("b", "secret")), _sees_a)
    assert seen is not None and is_partial(seen)
    assert [operation.key for operation in seen.operations] == [("a", "x")]
    assert seen.headers == {WITHHELD_HEADER: "1"}
    assert b"secret" not in msgspec.json.encode(seen)


@pytest.mark.parametrize(
    ("source", "target", "op", "key"),
    [
        (("a", "x"), ("b", "secret"), Op.DELETE, ("a", "x")),
        (("b", "secret"), ("a", "x"), Op.PUT, ("a", "x")),
    ],
)
def test_a_rename_into_or_out_of_view_is_shown_as_a_put_or_a_delete(
    source: KeyPath, target: KeyPath, op: Op, key: KeyPath
) -> None:
    rename = Operation(
        op=Op.RENAME, key=target, from_key=source, content_id=CONTENT_ID, type="T", before={"v": 1}, after={"v": 1}
    )
    seen = as_seen(_change(rename), _sees_a)
    assert seen is not None
    (shown,) = seen.operations
    assert (shown.op, shown.key, shown.from_key) == (op, key, None)
    assert b"secret" not in msgspec.json.encode(seen)


@given(st.lists(_keys, min_size=1, max_size=4, unique=True), st.sets(_keys))
def test_a_reader_sees_each_operation_that_it_may_and_none_that_it_may_not(keys: list[KeyPath], visible: set[KeyPath]) -> None:
    seen = as_seen(_change(*(_put(*key) for key in keys)), lambda key: key in visible)
    shown = [] if seen is None else [operation.key for operation in seen.operations]
    assert shown == [key for key in keys if key in visible]


def test_the_change_after_a_partial_one_still_proves_its_id() -> None:
    first = _change(_put("a", "x"), _put("b", "secret"))
    second = _change(_put("a", "y"), seq=2, previous=first.entry_id)
    seen = as_seen(first, _sees_a)
    assert seen is not None
    frame = Frame(pointer=first.pointer, from_seq=0, to_seq=2, changes=(seen, second), filtered=True)
    assert len(Chain(first.pointer, 0).accept(frame)) == 2
    lying = msgspec.structs.replace(seen, entry_id="ab" * 32)
    with pytest.raises(ChainBroken):
        Chain(first.pointer, 0).accept(msgspec.structs.replace(frame, changes=(lying, second)))


def test_the_header_that_marks_a_partial_change_cannot_be_committed() -> None:
    with pytest.raises(InvalidInput, match=WITHHELD_HEADER):
        check_meta(CommitMeta("someone", headers={WITHHELD_HEADER: "1"}))
