"""A lane waits for callers that it has just answered, a little, and only for those that come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.persistence.commit.linger import LOOKS, OWN_WORK_MAX, SHARE_MAX, Linger


class Naps:
    """A clock that counts how long it was slept on."""

    def __init__(self) -> None:
        self.slept_seconds: list[float] = []

    def now_micros(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        self.slept_seconds.append(seconds)


def wait(callers: int, store_micros: int, coming: Iterator[int], own_micros: int = 0) -> list[float]:
    clock = Naps()
    gathering = Linger(clock)
    gathering.landed(callers, own_micros, store_micros)
    gathering.wait(lambda: next(coming))
    return clock.slept_seconds


@pytest.mark.parametrize("callers", [0, 1])
def test_a_single_caller_is_never_waited_for(callers: int) -> None:
    assert wait(callers, 10_000, iter([])) == []


def test_it_ends_when_all_are_back() -> None:
    assert len(wait(8, 8_000, iter([0, 5, 8]))) == 2


def test_it_ends_when_no_request_arrives() -> None:
    assert len(wait(8, 8_000, iter([4, 4]))) == 1


def test_a_lane_waits_at_most_a_fraction_of_a_store_call_however_many_requests_arrive() -> None:
    slept = wait(1_000, 10_000, iter(range(1_000)))
    assert len(slept) == LOOKS
    assert sum(slept) == pytest.approx(0.010 * SHARE_MAX)


def test_a_lane_does_not_wait_where_its_own_work_outweighs_the_store() -> None:
    assert wait(64, 1_000, iter([]), own_micros=1_000 * OWN_WORK_MAX + 1) == []
    assert wait(64, 1_000, iter([64]), own_micros=1_000 * OWN_WORK_MAX) == []
    assert len(wait(64, 1_000, iter([9, 64]), own_micros=1_000 * OWN_WORK_MAX)) == 1


def test_a_lane_that_rested_starts_at_once() -> None:
    clock = Naps()
    gathering = Linger(clock)
    gathering.landed(8, 0, 10_000)
    gathering.rest()
    gathering.wait(lambda: 1)
    assert clock.slept_seconds == []
