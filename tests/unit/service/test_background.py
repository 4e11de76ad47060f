"""What a server does beside its requests: by one worker at a time, given back, and ended before the store is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.coordination.claimed_removals import SNAPSHOT_CLAIM, ClaimedRemovals
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.secret_hashes import ScryptCost
from headwater.persistence.store import Store, StoreOptions, open_store
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_rows import PLAN_TYPE, PlanOptions
from headwater.producer.plans.plans import Plans
from headwater.producer.statistics.statistics_checks import SnapshotSchema
from headwater.producer.statistics.statistics_journal import JOURNAL_TYPE
from headwater.producer.statistics.statistics_records import SetKey
from headwater.producer.statistics.statistics_sets import StatisticsSets
from headwater.schemas.statistics import FileStatistics, PutMode
from headwater.service.background import Background
from headwater.service.config import ServeConfig
from headwater.service.idempotency.expiry import CleaningOptions
from headwater.service.usage.measurement import MeasuringOptions
from headwater.service.usage.usage_records import all_usage
from tests.support.faults.manual_clock import ManualClock

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


def test_plans_claims_and_chunks_that_nothing_needs_are_deleted_while_a_server_runs() -> None:
    """Those of a realm that is in use; what still counts stays."""
    clock = ManualClock()
    backend = MemoryBackend(MemoryStore())
    store = Store(backend, StoreOptions(), clock)
    realms = Realms(store, secret_cost=ScryptCost(n=2, r=1, p=1))
    realms.create("shop")
    realms.init("shop")
    kernel = store.kernel(realms.get("shop").instance)
    plans = Plans(kernel, PlanOptions(), PlanCounts())
    gone = plans.begin("ann", [], [], seconds=10)
    kept = plans.begin("ann", [], [], seconds=3_600)
    ClaimedRemovals(backend, kernel.realm, clock).claim(SNAPSHOT_CLAIM, "t", [1])
    write = StatisticsSets(kernel, 1).write(SetKey("t", 1), SnapshotSchema({1: "long"}), PutMode.UPSERT)
    write.add_file(FileStatistics(path="f", row_count=1))
    clock.move(3_000)
    plans.renew(kept.id, "ann", seconds=3_600)
    clock.move(1_300)
    cleaning = Background(store, CONFIG).cleaning()
    while not cleaning.slice()[1]:
        pass
    left = {type: len(list(backend.all_mutable(kernel.realm, type))) for type in (PLAN_TYPE, SNAPSHOT_CLAIM, JOURNAL_TYPE)}
    assert left == {PLAN_TYPE: 1, SNAPSHOT_CLAIM: 0, JOURNAL_TYPE: 0} and cleaning.deleted >= 2
    assert plans.get(kept.id, "ann") and gone.id != kept.id


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
