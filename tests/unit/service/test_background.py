"""What a server does beside its requests: by one worker at a time, given back, and ended before the store is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from headwater.persistence.store import Store, StoreOptions, open_store
from headwater.service.background import Background
from headwater.service.config import ServeConfig
from headwater.service.idempotency.expiry import CleaningOptions
from headwater.service.usage.measurement import MeasuringOptions
from headwater.service.usage.usage_records import all_usage

CONFIG = ServeConfig(
    store="memory://",
    store_options=StoreOptions(),
    idempotency_cleaning=CleaningOptions(every_seconds=0.01),
    usage=MeasuringOptions(every_seconds=0.01, rest_seconds=0.0),
)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://", create=True) as opened:
        yield opened


def test_usage_is_measured_while_a_server_runs(store: Store) -> None:
    async def serve() -> None:
        background = Background(store, CONFIG)
        background.start()
        for _ in range(500):
            if list(all_usage(store)):
                break
            await asyncio.sleep(0.01)
        await background.stop()

    asyncio.run(serve())
    assert "::system::" in dict(all_usage(store))


def test_one_of_two_workers_has_the_turn(store: Store) -> None:
    first, second = Background(store, CONFIG), Background(store, CONFIG)
    assert first._is_mine("usage") and not second._is_mine("usage") and first._is_mine("usage")
    asyncio.run(first.stop())
    assert second._is_mine("usage"), "who stops gives it back"
    assert not first._is_mine("usage")


def test_a_slice_at_work_is_waited_for_when_the_server_ends(store: Store) -> None:
    started, done = threading.Event(), threading.Event()

    def slice() -> bool:
        started.set()
        threading.Event().wait(0.2)
        done.set()
        return True

    async def serve() -> None:
        background = Background(store, CONFIG)
        background._tasks = [asyncio.ensure_future(background._repeat("work", slice, 60.0, 60.0))]
        await asyncio.to_thread(started.wait, 5)
        await background.stop()
        assert done.is_set()

    asyncio.run(serve())
    assert started.is_set()
