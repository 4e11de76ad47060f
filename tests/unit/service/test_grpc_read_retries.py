"""Reads over gRPC are tried again while the store is away, within bounds."""

from __future__ import annotations

import asyncio

import pytest

from headwater.schemas.errors import NotFound, StoreUnavailable
from headwater.service.grpc.call_context import CallContext, call_context
from headwater.service.grpc.read_retries import RETRIES_MAX, SECONDS_LEAST, SECONDS_MOST, read_again


class _Store:
    """Fails so often before it answers."""

    def __init__(self, failures: int, error: type[Exception] = StoreUnavailable) -> None:
        self.failures, self.error, self.asked = failures, error, 0
        self.pauses: list[float] = []

    async def read(self) -> str:
        self.asked += 1
        if self.asked <= self.failures:
            raise self.error("away.")
        return "read"

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def _context(seconds_left: float | None = None) -> CallContext:
    return call_context("m", [], "ipv4:127.0.0.1:5", seconds_left, "r")


def _read(store: _Store, seconds_left: float | None = None) -> str:
    return asyncio.run(read_again(_context(seconds_left), store.read, sleep=store.sleep))


def test_a_store_that_comes_back_is_read_after_pauses_within_bounds() -> None:
    store = _Store(RETRIES_MAX)
    assert _read(store) == "read"
    assert len(store.pauses) == RETRIES_MAX
    assert all(SECONDS_LEAST <= pause <= SECONDS_MOST for pause in store.pauses)


def test_a_store_that_stays_unreachable_is_reported_after_the_last_try() -> None:
    store = _Store(100)
    with pytest.raises(StoreUnavailable):
        _read(store)
    assert store.asked == RETRIES_MAX + 1


def test_a_deadline_that_is_near_ends_the_tries() -> None:
    store = _Store(100)
    with pytest.raises(StoreUnavailable):
        _read(store, seconds_left=0.0)
    assert (store.asked, store.pauses) == (1, [])


def test_other_errors_are_raised_at_once() -> None:
    store = _Store(1, NotFound)
    with pytest.raises(NotFound):
        _read(store)
    assert store.asked == 1
