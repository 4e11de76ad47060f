"""When lanes of one process step back for those of others."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.persistence.commit.contention import (
    MET_TURN_ROUND_TRIPS,
    STEP_BACK_ROUND_TRIPS,
    TURN_MAX,
    TURN_MIN,
    ContentionControl,
)
from headwater.persistence.commit.retries import RetryPolicy

ROUND_TRIP = 2_000


def run_batches(turns: ContentionControl, now: int, count: int) -> tuple[int, list[int]]:
    """Back to back, each of one round trip; the batches after which the lane stepped back."""
    pauses = []
    for n in range(count):
        pause_seconds = turns.landed(now, now + ROUND_TRIP)
        now += ROUND_TRIP + round(pause_seconds * 1_000_000)
        if pause_seconds:
            pauses.append(n)
            assert turns.stepped_back and round(pause_seconds * 1_000_000) == STEP_BACK_ROUND_TRIPS * ROUND_TRIP
    return now, pauses


def test_a_lane_without_competitors_yields_ever_more_rarely() -> None:
    _, pauses = run_batches(ContentionControl(), 10**15, 5_000)
    turns = [later - earlier for earlier, later in zip([-1, *pauses], pauses, strict=False)]
    assert turns[0] == TURN_MIN * STEP_BACK_ROUND_TRIPS and turns[-1] == TURN_MAX * STEP_BACK_ROUND_TRIPS
    assert turns == sorted(turns)


def test_a_lane_that_met_other_writers_yields_after_a_few_batches_until_they_stop() -> None:
    turns = ContentionControl()
    now, _ = run_batches(turns, 10**15, 5_000)
    turns.met_others(now)
    now, pauses = run_batches(turns, now, 20)
    assert pauses[1] - pauses[0] == MET_TURN_ROUND_TRIPS
    _, later = run_batches(turns, now, 5_000)
    assert later[-1] - later[-2] == TURN_MAX * STEP_BACK_ROUND_TRIPS


def test_a_lane_that_leaves_gaps_by_itself_never_steps_back() -> None:
    turns, now = ContentionControl(), 10**15
    for _ in range(1_000):
        assert turns.landed(now, now + ROUND_TRIP) == 0.0
        now += ROUND_TRIP + 2 * STEP_BACK_ROUND_TRIPS * ROUND_TRIP


def test_setting_the_clock_makes_no_pause_negative_or_endless() -> None:
    turns, now = ContentionControl(), 10**15
    for step in (0, -(10**12), 10**12, -1, 0):
        now += step
        assert 0.0 <= turns.landed(now, now - 5) <= 1.0
        assert 0.0 <= turns.landed(now, now + ROUND_TRIP) <= 1.0
        assert turns.retry_seconds >= 0.0


def test_the_retry_policy_is_documented_as_it_is() -> None:
    costs = (Path(__file__).parents[3] / "docs" / "costs.md").read_text()
    for field in msgspec.structs.fields(RetryPolicy):
        assert f"| `{field.name}` | {field.default} |" in costs
