"""Live views hold what the Changes add up to, also across creates and assigns, in whatever order pointers arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.consumers.audit.replay import replay
from headwater.consumers.views import live_views
from headwater.consumers.views.live_views import LiveViews
from headwater.schemas.change import Base, Change, Kind, Op, Operation
from headwater.schemas.errors import ChainBroken, CursorExpired
from tests.support.models.feed_histories import History, put

MAIN, DEV = "cat/1/heads/main", "cat/1/heads/dev"


def delete(*key: str) -> Operation:
    return Operation(op=Op.DELETE, key=key, content_id="00000000-0000-0000-0000-000000000000", type="ICEBERG_TABLE")


def rename(old: str, new: str, value: int) -> Operation:
    operation = put("db", new, value=value)
    return Operation(
        op=Op.RENAME, key=operation.key, from_key=("db", old), content_id=operation.content_id, type=operation.type,
        before=operation.after, after=operation.after,
    )  # fmt: skip


def values(state: live_views.LiveViews, pointer: str) -> dict[str, int]:
    return {".".join(key): held.value["v"] for key, held in state.newest(pointer).items()}


def two_pointers() -> tuple[list[Change], list[Change]]:
    """dev is made from main's third entry, goes its own way, is moved to main's fifth, and continues."""
    main, dev = History(MAIN), History(DEV)
    for seq in range(1, 8):
        main.add(put("db", f"t{seq}", value=seq))

    def base(seq: int) -> Base:
        return Base(pointer=MAIN, seq=seq, commit_id=main.changes[seq - 1].commit_id)

    dev.add(kind=Kind.CREATE, base=base(3))
    dev.add(put("db", "own", value=1))
    dev.add(kind=Kind.ASSIGN, base=base(5))
    dev.add(put("db", "t1", value=100))
    return main.changes, dev.changes


EXPECTED_DEV = {"db.t1": 100, "db.t2": 2, "db.t3": 3, "db.t4": 4, "db.t5": 5}


@given(st.lists(st.booleans(), min_size=11, max_size=40))
def test_views_are_the_same_in_any_order_of_the_pointers(choices: list[bool]) -> None:
    main, dev = two_pointers()
    waiting = {True: list(main), False: list(dev)}
    state = LiveViews()
    for choice in [*choices, *[True] * 7, *[False] * 4]:
        if waiting[choice]:
            state.apply(waiting[choice].pop(0))
    assert values(state, DEV) == EXPECTED_DEV and state.held == 0
    assert values(state, MAIN) == {f"db.t{seq}": seq for seq in range(1, 8)}


def test_a_base_that_was_passed_long_ago_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_views, "UNDO_CHANGES_MAX", 1)
    main, dev = two_pointers()
    alone = LiveViews()
    for change in main:
        alone.apply(change)
    with pytest.raises(CursorExpired):
        alone.apply(dev[0])

    def ask(base: Base) -> live_views.State:
        past = LiveViews()
        for change in main[: base.seq]:
            past.apply(change)
        return dict(past.newest(MAIN))

    asking = LiveViews(ask)
    for change in [*main, *dev]:
        asking.apply(change)
    assert values(asking, DEV) == EXPECTED_DEV


def test_deletes_and_renames_leave_no_old_keys() -> None:
    main, state = History(MAIN), LiveViews()
    main.add(put("db", "a", value=1), put("db", "b", value=2))
    main.add(rename("a", "c", 1))
    main.add(delete("db", "b"))
    for change in main.changes:
        state.apply(change)
    assert values(state, MAIN) == {"db.c": 1}
    main.add(kind=Kind.DELETE)
    state.apply(main.changes[-1])
    assert values(state, MAIN) == {}


def test_changes_are_counted_by_minute_and_namespace_once_each() -> None:
    main, state = History(MAIN), LiveViews(minutes_max=2)
    main.add(put("db", "a", value=1), put("db", "b", value=1), put("x", "c", value=1), at_micros=1_000_000)
    main.add(put("db", "a", value=2), at_micros=59_000_000)
    main.add(put("top", value=2), at_micros=61_000_000)
    for change in [*main.changes, *main.changes]:
        state.apply(change)
    assert state.minutes == {"1970-01-01T00:00": {("db",): 2, ("x",): 1}, "1970-01-01T00:01": {(): 1}}
    main.add(put("db", "a", value=3), at_micros=121_000_000)
    state.apply(main.changes[-1])
    assert list(state.minutes) == ["1970-01-01T00:01", "1970-01-01T00:02"]


def test_a_skipped_change_is_noticed() -> None:
    main, _ = two_pointers()
    state = LiveViews()
    state.apply(main[0])
    with pytest.raises(ChainBroken):
        state.apply(main[2])


def test_tables_that_swap_names_or_keys_in_one_change_all_remain() -> None:
    main, state = History(MAIN), LiveViews()
    main.add(put("db", "a", value=1), put("db", "b", value=2))
    main.add(rename("a", "b", 1), rename("b", "a", 2))
    main.add(put("db", "a", value=3), delete("db", "a"))
    for change in main.changes:
        state.apply(change)
    assert values(state, MAIN) == {"db.a": 3, "db.b": 1}
    replayed = replay(main.changes[:2], lambda _: {})
    assert {key[1]: one.value["v"] for key, one in replayed.items()} == {"a": 2, "b": 1}
