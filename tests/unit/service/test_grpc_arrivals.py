"""Places for messages that are on their way: few for each caller, in the order of asking, and none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from headwater.schemas.errors import RequestTooSlow, TooManyRequests
from headwater.service.grpc import runtime
from headwater.service.grpc.runtime import ARRIVING_MAX, WAITING_MAX, Arrivals


def _full(arrivals: Arrivals, owner: str) -> None:
    for _ in range(ARRIVING_MAX):
        assert arrivals.enter(owner) is None


def _waiting(arrivals: Arrivals, owner: str) -> asyncio.Task[None]:
    place = arrivals.enter(owner)
    assert place is not None

    async def wait(place: Awaitable[None]) -> None:
        await place

    return asyncio.ensure_future(wait(place))


def _left(arrivals: Arrivals) -> tuple[int, int]:
    return len(arrivals._reading), len(arrivals._waiting)


def test_places_go_to_the_longest_waiting_caller_and_others_have_their_own() -> None:
    async def run() -> None:
        arrivals, order = Arrivals(), list[int]()
        _full(arrivals, "ada")
        assert arrivals.enter("bob") is None
        waiting = [_waiting(arrivals, "ada") for _ in range(3)]
        for number, one in enumerate(waiting):
            one.add_done_callback(lambda _, number=number: order.append(number))
        await asyncio.sleep(0)
        for _ in range(3):
            arrivals.leave("ada")
            await asyncio.sleep(0.001)
        assert order == [0, 1, 2]
        for _ in range(ARRIVING_MAX):
            arrivals.leave("ada")
        arrivals.leave("bob")
        assert _left(arrivals) == (0, 0)

    asyncio.run(run())


@pytest.mark.parametrize("has_place", [False, True], ids=["while it waits", "once it has a place"])
def test_a_caller_that_disconnects_frees_its_place(has_place: bool) -> None:
    async def run() -> None:
        arrivals = Arrivals()
        _full(arrivals, "ada")
        first, second = _waiting(arrivals, "ada"), _waiting(arrivals, "ada")
        await asyncio.sleep(0)
        if has_place:
            arrivals.leave("ada")  # the first one's, which it has not seen yet
        first.cancel()
        await asyncio.sleep(0.001)
        assert second.done() == has_place
        if not has_place:
            arrivals.leave("ada")
        await asyncio.wait_for(second, 5)
        for _ in range(ARRIVING_MAX):
            arrivals.leave("ada")
        assert _left(arrivals) == (0, 0)

    asyncio.run(run())


def test_so_many_wait_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        arrivals = Arrivals()
        _full(arrivals, "ada")
        waiting = [_waiting(arrivals, "ada") for _ in range(WAITING_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await _waiting(arrivals, "ada")
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        monkeypatch.setattr(runtime, "WAITING_SECONDS_MAX", 0.01)
        with pytest.raises(RequestTooSlow):
            await _waiting(arrivals, "ada")
        assert _left(arrivals) == (1, 0)

    asyncio.run(run())
