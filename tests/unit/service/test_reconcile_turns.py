"""Turns of connectors are fair between realms."""

from __future__ import annotations

from headwater.service.reconciling.reconcile_turns import Turn, next_turn


def turns(realm: str, count: int) -> list[Turn]:
    return [Turn(realm, f"{realm}{number}") for number in range(count)]


def test_a_realm_whose_sources_hang_leaves_a_slot_to_others() -> None:
    waiting, running = turns("many", 10), list[Turn]()
    while (turn := next_turn(waiting, running, {}, 4)) is not None:
        running.append(turn)
    assert len(running) == 3, "none of them ends, and one slot is left"
    assert next_turn([*waiting, *turns("few", 1)], running, {}, 4) == Turn("few", "few0")


def test_the_realm_with_the_fewest_running_jobs_is_next_then_the_longest_waiting() -> None:
    first, second = turns("a", 2)
    other = Turn("b", "b0")
    assert next_turn([first, second, other], [Turn("a", "a9")], {}, 4) == other
    assert next_turn([first, second], [], {first: 2.0, second: 1.0}, 4) == second


def test_a_connector_runs_once_at_a_time_and_slots_are_limited() -> None:
    (only,) = turns("a", 1)
    assert next_turn([only], [only], {}, 4) is None
    assert next_turn([only], [Turn("b", "b0")], {}, 1) is None
    assert next_turn([only], [], {}, 1) == only
