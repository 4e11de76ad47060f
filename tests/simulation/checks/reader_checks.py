"""What a reader was given enters, Change by Change; a skipped, doubled or foreign one is a broken promise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.schemas.change import Change
from headwater.schemas.errors import CursorExpired, CursorReset, HeadwaterError
from tests.simulation.promises import broken

if TYPE_CHECKING:
    from tests.simulation.world.environment import Environment


class ReadLog:
    """Of one reader: what it was given of each pointer since it began, or began again."""

    def __init__(
        self, env: Environment, reader: str, promise: str, *, may_repeat: bool = False, realm: str = "default"
    ) -> None:
        self._env = env
        self._reader = reader
        self._promise = promise
        self._realm = realm
        self._began_in = env.instance_of(realm)
        self._opened = ""
        self._may_repeat = may_repeat
        """At least once: what was given may come again, from any place on, in order."""
        self.given: dict[str, dict[int, str]] = {}
        """Pointer → seq → entry id."""
        self._last: dict[str, int] = {}
        self._restores: dict[str, int] = {}

    def give(self, change: Change) -> None:
        given = self.given.setdefault(change.pointer, {})
        last = self._last.get(change.pointer)
        self._env.happened[f"{self._reader} given"] += 1
        if last is not None and change.seq != last + 1:
            again = self._may_repeat and change.seq <= last and given.get(change.seq) == change.entry_id
            if not again:
                broken(self._promise, f"{self._reader} was given entry {change.seq} of {change.pointer} behind entry {last}")
        if given.get(change.seq, change.entry_id) != change.entry_id:
            broken(self._promise, f"{self._reader} was given two entries {change.seq} of {change.pointer}")
        given[change.seq] = change.entry_id
        self._last[change.pointer] = change.seq
        self._restores.setdefault(change.pointer, self._env.model.restores)
        self._began_in = self._began_in or self._opened or self._env.instance_of(self._realm)

    def open(self, instance: str) -> None:
        """⚠ The realm that the reader has opened, which may be another one by now than its name means."""
        self._opened = instance

    def lost_its_place(self, pointer: str, error: HeadwaterError) -> None:
        """A typed answer with the way out: the reader begins again. It must have a reason."""
        self._env.happened[f"{self._reader} {type(error).__name__}"] += 1
        self._check_reason(pointer, error)
        self.begin_again(pointer)

    def begin_again(self, pointer: str) -> None:
        self.given.pop(pointer, None)
        self._last.pop(pointer, None)
        self._restores.pop(pointer, None)
        self._began_in = self._opened = ""

    def _check_reason(self, pointer: str, error: HeadwaterError) -> None:
        last = self._last.get(pointer, 0)
        instance = self._env.instance_of(self._realm)
        row = self._env.database.peek().read_pointer(instance, pointer) if instance else None
        restored = self._env.model.restores > self._restores.get(pointer, 0) or not self._last or instance != self._began_in
        # An entry that a restore removed may be given until the reader's process notices.
        is_lost = last > 0 and self.given[pointer][last] not in self._wanted(pointer)
        if isinstance(error, CursorReset) and not restored and not is_lost:
            broken("cursor", f"{self._reader} was reset at entry {last} of {pointer} for no reason: {error}")
        if isinstance(error, CursorExpired) and not restored and row is not None and row.floor <= last + 1:
            broken("cursor", f"{self._reader} expired at entry {last} of {pointer}, the floor is {row.floor}")

    # ── at the end ──────────────────────────────────────────────────────────────────────────────────────────

    def has_reached_heads(self, pointers: Iterable[str]) -> bool:
        return all(self._last.get(pointer, 0) == len(self._wanted(pointer)) for pointer in pointers)

    def check(self, pointers: Iterable[str], promise: str) -> None:
        for pointer in pointers:
            wanted = self._wanted(pointer)
            given = self.given.get(pointer, {})
            if not wanted:
                continue
            first = min(given, default=0)
            expected = {seq: wanted[seq - 1] for seq in range(max(1, first), len(wanted) + 1)}
            if given != expected:
                missing = sorted(set(expected) - set(given))
                other = [seq for seq in given if given[seq] != expected.get(seq)]
                broken(
                    promise,
                    f"{self._reader}: of {pointer}, which ends at {len(wanted)}, entries {missing[:9]} never came and "
                    f"{other[:9]} are of another history; nothing was said",
                )

    def _wanted(self, pointer: str) -> list[str]:
        return [entry.entry_id for entry in self._env.model.logs.get((self._env.instance_of(self._realm), pointer), [])]
