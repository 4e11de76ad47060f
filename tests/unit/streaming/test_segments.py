"""The segment arithmetic against a model that knows every state as a set: exact on thousands of random histories."""

from __future__ import annotations

import os
import random

import pytest

from headwater.schemas.errors import ChainBroken, RetainedIncomplete
from headwater.streaming.reachability.segments import BaseAt, Histories, SegmentStep

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
HISTORIES = 20_000 if SOAK else 3_000
POINTERS = ("main", "dev", "tag", "old")


class Model:
    """Every state of every pointer as the set of what it reaches, moved together with the arithmetic."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.states: dict[str, list[frozenset[int]]] = {}
        self.floors: dict[str, int] = {}
        self.histories = Histories()
        self._next_object = 1

    def run(self, steps: int) -> None:
        for _ in range(steps):
            match self.chance.choices(("commit", "move", "floor", "compact", "forget"), (14, 5, 3, 1, 0.3))[0]:
                case "commit":
                    self._commit(self.chance.choice(POINTERS))
                case "move":
                    self._move(self.chance.choice(POINTERS))
                case "floor":
                    self._raise_floor()
                case "compact":
                    self.histories.compact(self.floors)
                case "forget":
                    self._seed_again()

    def _new(self, count: int) -> list[int]:
        first = self._next_object
        self._next_object += count
        return list(range(first, self._next_object))

    def _commit(self, pointer: str) -> None:
        before = self.states.get(pointer, [])
        live = before[-1] if before else frozenset()
        released = self.chance.sample(sorted(live), self.chance.randint(0, min(3, len(live))))
        added = self._new(self.chance.randint(1, 3))
        gone = [number for number in range(1, self._next_object) if number not in live and number not in added]
        if gone and self.chance.random() < 0.05:
            added.append(self.chance.choice(gone))  # an object that comes back
        self._append(pointer, (live | set(added)) - set(released), added, released)

    def _move(self, pointer: str) -> None:
        """Create, assign or delete: from any state at or above a floor, or from nothing."""
        known = [(name, seq) for name in self.states for seq in range(self.floors[name], len(self.states[name]) + 1)]
        added = self._new(1)
        if not known or self.chance.random() < 0.3:
            self._append(pointer, frozenset(added), added, [], opens=True)
            return
        base = BaseAt(*self.chance.choice(known))
        live = self.states[base.pointer][base.seq - 1]
        released = self.chance.sample(sorted(live), self.chance.randint(0, min(2, len(live))))
        self._append(pointer, (live | set(added)) - set(released), added, released, opens=True, base=base)

    def _append(
        self,
        pointer: str,
        state: frozenset[int],
        added: list[int],
        released: list[int],
        *,
        opens: bool = False,
        base: BaseAt | None = None,
    ) -> None:
        states = self.states.setdefault(pointer, [])
        self.floors.setdefault(pointer, 1)
        states.append(frozenset(state))
        seq = len(states)
        step = SegmentStep(
            pointer=pointer, seq=seq, entry_id=f"{pointer}-{seq}", opens=opens, base=base, added=added, released=released
        )
        assert self.histories.apply(step)
        assert not self.histories.apply(step)  # once more: known already

    def _raise_floor(self) -> None:
        if self.states:
            pointer = self.chance.choice(sorted(self.states))
            self.floors[pointer] = self.chance.randint(self.floors[pointer], len(self.states[pointer]))

    def _seed_again(self) -> None:
        """All of it, from a walk of each floor's state and the entries behind it: a base may lie in any pointer."""
        fresh = Histories()
        for pointer, states in self.states.items():
            floor = self.floors[pointer]
            fresh.seed(pointer, floor, f"{pointer}-{floor}", states[floor - 1])
            for seq in range(floor + 1, len(states) + 1):
                before, after = states[seq - 2], states[seq - 1]
                fresh.apply(
                    SegmentStep(
                        pointer=pointer,
                        seq=seq,
                        entry_id=f"{pointer}-{seq}",
                        opens=False,
                        added=sorted(after - before),
                        released=sorted(before - after),
                    )
                )
        self.histories = fresh

    def retained(self) -> set[int]:
        return {
            number
            for pointer, states in self.states.items()
            for state in states[self.floors[pointer] - 1 :]
            for number in state
        }

    def check(self) -> None:
        assert self.histories.retained(self.floors) == self.retained()
        for pointer, states in self.states.items():
            for seq in range(self.floors[pointer], len(states) + 1):
                assert self.histories.live(pointer, seq) == states[seq - 1]


@pytest.mark.parametrize("share", range(6))
def test_the_arithmetic_retains_exactly_what_the_states_above_the_floors_reach(share: int) -> None:
    for seed in range(share, HISTORIES, 6):
        model = Model(seed)
        for _ in range(3):
            model.run(12)
            model.check()


def test_a_set_that_does_not_follow_bases_loses_reachable_objects() -> None:
    """The mutant "base ignored" is killed here."""
    losing = 0
    for seed in range(200):
        model = Model(seed)
        model.run(30)
        losing += not model.histories.retained(model.floors, follow_base=False) >= model.retained()
    assert losing > 20


def test_compaction_keeps_no_more_rows_than_live_intervals_need() -> None:
    histories = Histories()
    for seq in range(1, 1_001):
        histories.apply(
            SegmentStep(
                pointer="main", seq=seq, entry_id=str(seq), opens=False, added=[seq], released=[seq - 1] if seq > 1 else []
            )
        )
    histories.apply(SegmentStep(pointer="dev", seq=1, entry_id="dev", opens=True, base=BaseAt("main", 500), added=[5_000]))
    histories.compact({"main": 1_000, "dev": 1})
    assert sum(1 for segments in histories.segments.values() for it in segments for _ in it.intervals()) == 3
    assert histories.retained({"main": 1_000, "dev": 1}) == {1_000, 500, 5_000}


def test_a_gap_is_refused_and_so_is_another_entry_in_the_place_of_one() -> None:
    histories = Histories()
    histories.apply(SegmentStep(pointer="main", seq=1, entry_id="a", opens=False, added=[1]))
    with pytest.raises(RetainedIncomplete):
        histories.apply(SegmentStep(pointer="main", seq=3, entry_id="c", opens=False, added=[3]))
    with pytest.raises(RetainedIncomplete):
        histories.apply(SegmentStep(pointer="other", seq=2, entry_id="b", opens=False, added=[3]))
    with pytest.raises(ChainBroken):
        histories.apply(SegmentStep(pointer="main", seq=1, entry_id="z", opens=False, added=[1]))


def test_a_base_that_is_not_in_the_set_is_incomplete_never_empty() -> None:
    histories = Histories()
    histories.apply(SegmentStep(pointer="dev", seq=1, entry_id="a", opens=True, base=BaseAt("main", 7), added=[1]))
    with pytest.raises(RetainedIncomplete):
        histories.retained({"dev": 1})
