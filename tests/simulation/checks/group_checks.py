"""What several readers together were given enters; an entry that none of them ever got, though nothing was said, is a loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.schemas.change import Change
from tests.simulation.promises import broken

if TYPE_CHECKING:
    from tests.simulation.world.environment import Environment


class DeliveredLog:
    """At least once, in order for each member, and nothing passed over by all of them."""

    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self.was_told = False
        """The last pass ended with a typed error: nothing was passed over in silence."""
        self._env = env
        self._ids: dict[str, set[str]] = {}
        self._last: dict[str, int] = {}

    def begin_again(self) -> None:
        self.was_told = False
        self._ids.clear()
        self._last.clear()

    def give(self, member: str, change: Change) -> None:
        last = self._last.get(change.pointer)
        if last is not None and change.seq > last + 1:
            broken("same-log", f"{member} was given entry {change.seq} of {change.pointer}; nobody got beyond {last}")
        self._last[change.pointer] = max(change.seq, last or 0)
        self._ids.setdefault(change.pointer, set()).add(change.entry_id)

    def has_all(self, pointers: Iterable[str]) -> bool:
        return self.was_told or not any(self._missing(pointer) for pointer in pointers)

    def check(self, pointers: Iterable[str]) -> None:
        for pointer in () if self.was_told else pointers:
            if missing := self._missing(pointer):
                broken("same-log", f"{self.name}: entries {missing[:9]} of {pointer} never came, and nothing was said")

    def _missing(self, pointer: str) -> list[int]:
        row = self._env.database.peek().read_pointer(self._env.realm_instance, pointer)
        log = self._env.model.logs.get((self._env.realm_instance, pointer), [])
        given = self._ids.get(pointer, set())
        first = 1 if row is None else row.floor
        return [entry.seq for entry in log if entry.seq >= first and entry.entry_id not in given]
