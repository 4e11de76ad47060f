"""Computes the state that Changes add up to, and how it differs from another state. Pure.

A create or assign begins with the state of its base, which the caller looks up; a delete begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, Base, Change, KeyPath, Op, Operation, Value
from headwater.schemas.errors import ChainBroken, PointerNotFound

BASES_MAX = 1_000
"""How many branches of branches one replay follows."""


class Replayed(msgspec.Struct, frozen=True):
    """The content of a key."""

    content_id: str
    type: str
    value: Value


State = dict[KeyPath, Replayed]
BaseStateOf = Callable[[Base], State]


class Mismatch(msgspec.Struct, frozen=True):
    key: KeyPath
    expected: Replayed | None
    found: Replayed | None


class History(Protocol):
    """What an audit asks of a store or a server."""

    def pointers(self) -> Iterator[str]:
        """All pointers with a history, in order of name."""

    def range(self, pointer: str) -> tuple[int, int]:
        """The oldest and the newest existing seq."""

    def anchor(self, pointer: str) -> str | None:
        """The entry id before the oldest entry, if history was cut and the id is known."""

    def changes(self, pointer: str, after_seq: int, to_seq: int) -> Iterator[Change]:
        """Entries (after_seq, to_seq], oldest first."""

    def position(self, pointer: str, cursor: str) -> int:
        """The seq of the newest entry at a commit or not later than a time."""

    def stored_state(self, pointer: str, seq: int) -> State:
        """The state as the index has it; `CursorExpired` if a part is missing."""


def replayed_state(history: History, pointer: str, to_seq: int, depth: int = 0) -> State:
    """The state as the Changes add up: from the first entry, or, if history was cut, on top of the oldest remaining state."""
    if depth > BASES_MAX:
        raise PointerNotFound(f"more than {BASES_MAX} branches stand on one another.", field="pointer")

    def state_of_base(base: Base) -> State:
        return replayed_state(history, base.pointer, base.seq, depth + 1) if base.seq else {}

    oldest, _ = history.range(pointer)
    if to_seq < oldest:
        return history.stored_state(pointer, to_seq)
    start = 0 if oldest == 1 else oldest
    return replay(history.changes(pointer, start, to_seq), state_of_base, history.stored_state(pointer, start))


def replay(changes: Iterable[Change], state_of_base: BaseStateOf, state: State | None = None) -> State:
    """Fold the Changes, oldest first, over `state`."""
    state = {} if state is None else dict(state)
    for change in changes:
        if change.kind in COMMITTING_KINDS:
            _apply(state, change)
        else:
            state = {} if change.base is None else state_of_base(change.base)
    return state


def mismatches(expected: State, found: State) -> Iterator[Mismatch]:
    """In key order; nothing where both are equal."""
    for key in sorted(expected.keys() | found.keys()):
        if expected.get(key) != found.get(key):
            yield Mismatch(key, expected.get(key), found.get(key))


def _apply(state: State, change: Change) -> None:
    """⚠ Keys are emptied first, then filled: two tables may swap names, and a table may take the place of another one."""
    for op in sorted(change.operations, key=_fills):
        source = op.key if op.from_key is None else op.from_key
        before = state.pop(source, None)
        if (before.value if before else None) != op.before:
            raise ChainBroken(
                f"{change.pointer}: entry {change.seq} says that {'.'.join(source)!r} held something else before it.",
                seq=change.seq,
            )
    for op in change.operations:
        if op.op != Op.DELETE and op.after is not None:
            state[op.key] = Replayed(op.content_id, op.type, op.after)


def _fills(op: Operation) -> bool:
    """A put on a key that the same Change empties finds nothing there, wherever it comes in the Change."""
    return op.op == Op.PUT
