"""Folds Changes into live views: the newest state of every table, and counts of what happens where. Pure.

A create or assign begins with the state of its base. That is taken from what was seen of the base's pointer, rolled back if it
has advanced since; until the base has been seen, the pointer's Changes are held. A base further back than the kept history is
requested. ⚠ A base that was not seen yet is not requested: its partition may simply be read later, and others may not have it
any more.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping

import msgspec

from headwater.schemas.change import COMMITTING_KINDS, Base, Change, KeyPath, Op, Value
from headwater.schemas.errors import ChainBroken, CursorExpired

UNDO_CHANGES_MAX = 10_000
"""Entries kept per pointer: how far back a base may lie."""
WHOLE_STATES_MAX = 20
"""States kept per pointer: there is one before each create, assign and delete."""
HELD_CHANGES_MAX = 100_000
MINUTES_MAX = 24 * 60


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a key, and since when."""

    content_id: str
    type: str
    value: Value
    seq: int
    time: str


State = dict[KeyPath, TableState]
StateOfBase = Callable[[Base], State | None]
"""None if it is not available."""


class Effect(msgspec.Struct, frozen=True):
    """What a committing Change does to a state: keys with what they hold afterwards, None for keys that are now empty."""

    after: dict[KeyPath, TableState | None]
    namespaces: frozenset[KeyPath]


def effect_of(change: Change) -> Effect:
    """⚠ Keys are emptied first, then filled: two tables may swap names, and a table may take the place of another one."""
    after: dict[KeyPath, TableState | None] = {}
    for op in change.operations:
        after[op.key if op.from_key is None else op.from_key] = None
    for op in change.operations:
        if op.op != Op.DELETE and op.after is not None:
            after[op.key] = TableState(content_id=op.content_id, type=op.type, value=op.after, seq=change.seq, time=change.time)
    return Effect(after, frozenset(key[:-1] for key in after))


class PointerView:
    """One pointer's newest state, and what is needed to look back from it."""

    def __init__(self) -> None:
        self.seq = 0
        self.state: State = {}
        self._undo: deque[tuple[int, State | None, dict[KeyPath, TableState | None]]] = deque(maxlen=UNDO_CHANGES_MAX)
        """Newest last: seq before, the whole state before where it was replaced, else the keys that were touched."""

    def apply(self, change: Change) -> frozenset[KeyPath]:
        effect = effect_of(change)
        touched = {key: self.state.get(key) for key in effect.after}
        self._undo.append((self.seq, None, touched))
        for key, now in effect.after.items():
            if now is None:
                self.state.pop(key, None)
            else:
                self.state[key] = now
        self.seq = change.seq
        return effect.namespaces

    def begin(self, seq: int, state: State) -> None:
        self._undo.append((self.seq, self.state, {}))
        self.seq, self.state = seq, state
        while sum(whole is not None for _, whole, _ in self._undo) > WHOLE_STATES_MAX:
            self._undo.popleft()

    def at(self, seq: int) -> State | None:
        """The state after that entry; None if it lies too far back, or ahead."""
        state, reached = dict(self.state), self.seq
        for before, whole, touched in reversed(self._undo):
            if reached <= seq:
                break
            reached = before
            if whole is not None:
                state = dict(whole)
            for key, old in touched.items():
                if old is None:
                    state.pop(key, None)
                else:
                    state[key] = old
        return state if reached == seq else None


class LiveViews:
    def __init__(self, state_of_base: StateOfBase | None = None, *, minutes_max: int = MINUTES_MAX) -> None:
        self.pointers: dict[str, PointerView] = {}
        self.minutes: OrderedDict[str, dict[KeyPath, int]] = OrderedDict()
        """By minute (`2026-01-31T12:00`), by namespace: how many Changes touched it."""
        self._state_of_base = state_of_base
        self._minutes_max = minutes_max
        self._held: dict[str, deque[Change]] = {}

    @property
    def held(self) -> int:
        """Changes that wait for a base."""
        return sum(len(waiting) for waiting in self._held.values())

    @property
    def waiting(self) -> dict[str, Change]:
        """By pointer: the create or assign that waits for its base."""
        return {pointer: held[0] for pointer, held in self._held.items()}

    def begin_at_base(self, pointer: str, state: State) -> None:
        """The base, in another pointer, of the create or assign that waits."""
        waiting = self._held[pointer]
        self.pointers.setdefault(pointer, PointerView()).begin(waiting.popleft().seq, state)
        self._release()

    def newest(self, pointer: str) -> Mapping[KeyPath, TableState]:
        view = self.pointers.get(pointer)
        return {} if view is None else view.state

    def start(self, pointer: str, seq: int, state: State) -> None:
        """Begin with a snapshot: the Changes that follow are those after its seq."""
        self._held.pop(pointer, None)
        self.pointers[pointer] = view = PointerView()
        view.seq, view.state = seq, dict(state)
        self._release()

    def forget(self, pointer: str) -> None:
        """It is gone, or starts over with another history."""
        self.pointers.pop(pointer, None)
        self._held.pop(pointer, None)

    def apply(self, change: Change) -> None:
        """⚠ Each once and in order: the chain check ensures that, and a repeated one is skipped here."""
        if change.pointer in self._held:
            self._hold(change)
            return
        if self._try(change):
            self._release()
        else:
            self._hold(change)

    def _try(self, change: Change) -> bool:
        view = self.pointers.setdefault(change.pointer, PointerView())
        if change.seq <= view.seq:
            return True
        if change.kind in COMMITTING_KINDS:
            if change.seq != view.seq + 1:
                raise ChainBroken(f"{change.pointer}: entry {change.seq} follows {view.seq}.", seq=change.seq)
            self._count(change, view.apply(change))
            return True
        state = {} if change.base is None or change.base.seq == 0 else self._base(change.base)
        if state is None:
            return False
        view.begin(change.seq, state)
        return True

    def _base(self, base: Base) -> State | None:
        known = self.pointers.get(base.pointer)
        if known is None or known.seq < base.seq:
            return None
        if (state := known.at(base.seq)) is not None:
            return state
        if self._state_of_base is not None:
            return self._state_of_base(base)
        raise CursorExpired(
            f"{base.pointer}: the state at entry {base.seq} is further back than the kept history.",
            remedy="Give the views a server or a store to ask for it.",
        )

    def _hold(self, change: Change) -> None:
        if self.held >= HELD_CHANGES_MAX:
            raise ChainBroken(f"{self.held} Changes wait for bases that do not come.", pointer=change.pointer)
        self._held.setdefault(change.pointer, deque()).append(change)

    def _release(self) -> None:
        """A pointer has moved: Changes held for it may continue, and release more."""
        moved = True
        while moved:
            moved = False
            for pointer, waiting in list(self._held.items()):
                while waiting and self._try(waiting[0]):
                    waiting.popleft()
                    moved = True
                if not waiting:
                    del self._held[pointer]

    def _count(self, change: Change, namespaces: frozenset[KeyPath]) -> None:
        counts = self.minutes.setdefault(minute_of(change.time), {})
        for namespace in namespaces:
            counts[namespace] = counts.get(namespace, 0) + 1
        while len(self.minutes) > self._minutes_max:
            del self.minutes[min(self.minutes)]


def minute_of(time: str) -> str:
    return time[:16]
