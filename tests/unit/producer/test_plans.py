"""Plans are leases: they pin until they end, expire or grow too old, and only their owner sees them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.coordination import claimed_removals
from headwater.persistence.store import RealmKernel
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.producer.plans.plan_pins import plan_pins
from headwater.producer.plans.plan_rows import PLAN_TYPE, PinnedEntry, Plan, PlanInput, PlanOptions, PlanState
from headwater.producer.plans.plans import Plans, clean_plans
from headwater.schemas.errors import InvalidInput, PlanNotFound, SnapshotExpired, TooManyPlans
from headwater.service.auth.caller import Caller
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.catalog_lake import EMBEDDED, embedded_url, open_lake
from tests.support.fixtures.plan_race import SEQ, PlanRace

OPTIONS = PlanOptions(plans_max=3, inputs_max=2)


class Rig:
    def __init__(self, kernel: RealmKernel, clock: ManualClock, pointer: str) -> None:
        self.kernel, self.clock, self.pointer = kernel, clock, pointer
        self.plans = Plans(kernel, OPTIONS, PlanCounts())

    def begin(self, owner: str = "ann", seconds: float | None = None, seq: int = 1) -> Plan:
        return self.plans.begin(owner, [], [PinnedEntry(self.pointer, seq, b"")], seconds=seconds)

    def pinned(self) -> list[str]:
        return [pin.holder.removeprefix("plan ") for pin in plan_pins(self.kernel, self.clock.now_micros())]


@pytest.fixture(params=EMBEDDED)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    clock = ManualClock()
    with open_lake(embedded_url(request.param, tmp_path), clock=clock) as lake:
        yield Rig(lake.kernel, clock, lake.pointer("main"))


def test_a_plan_pins_until_its_lease_and_grace_are_over(rig: Rig) -> None:
    plan = rig.begin(seconds=60)
    assert rig.pinned() == [plan.id] and rig.plans.get(plan.id, "ann") == plan
    rig.clock.move(61)
    assert rig.plans.get(plan.id, "ann").state(rig.clock.now_micros()) is PlanState.EXPIRED
    assert rig.pinned() == [plan.id], "within the grace it still pins"
    renewed = rig.plans.renew(plan.id, "ann", seconds=30)
    assert renewed.state(rig.clock.now_micros()) is PlanState.ACTIVE
    rig.clock.move(30 + 15)
    assert rig.pinned() == []
    with pytest.raises(PlanNotFound):
        rig.plans.renew(plan.id, "ann")
    assert clean_plans(rig.kernel) == (1, False)
    with pytest.raises(PlanNotFound):
        rig.plans.get(plan.id, "ann")


def test_a_renewal_never_makes_a_lease_shorter_whatever_the_worker_s_clock_says(rig: Rig) -> None:
    plan = rig.begin(seconds=600)
    assert rig.plans.renew(plan.id, "ann", seconds=1).expires_at == plan.expires_at
    rig.clock.move(-3_000)
    assert rig.plans.renew(plan.id, "ann", seconds=60).pinned_until == plan.pinned_until
    rig.clock.move(3_000 + 590)
    assert rig.pinned() == [plan.id]
    assert rig.plans.renew(plan.id, "ann", seconds=60).expires_at > plan.expires_at


def test_ending_a_plan_frees_its_pins_at_once_and_twice_is_once(rig: Rig) -> None:
    plan = rig.begin()
    for _ in range(2):
        assert rig.plans.end(plan.id, "ann").state(rig.clock.now_micros()) is PlanState.ENDED
    assert rig.pinned() == []
    with pytest.raises(PlanNotFound):
        rig.plans.renew(plan.id, "ann")


def test_no_renewal_outlives_the_maximum_age(rig: Rig) -> None:
    plan = rig.begin(seconds=3_600)
    for _ in range(23):
        rig.clock.move(3_590)
        plan = rig.plans.renew(plan.id, "ann", seconds=3_600)
    rig.clock.move(3_590)
    plan = rig.plans.renew(plan.id, "ann", seconds=3_600)
    assert plan.pinned_until == plan.expires_at == plan.ends_at
    rig.clock.move(300)
    assert rig.pinned() == []


def test_the_plan_of_another_principal_is_not_found(rig: Rig) -> None:
    plan = rig.begin("ann")
    for call in (rig.plans.get, rig.plans.renew, rig.plans.end):
        with pytest.raises(PlanNotFound) as refused:
            call(plan.id, "bob")
        with pytest.raises(PlanNotFound) as absent:
            call("0" * 32, "bob")
        assert str(refused.value).replace(plan.id, "") == str(absent.value).replace("0" * 32, "")
    assert rig.pinned() == [plan.id]


def test_no_plan_is_evicted_for_another(rig: Rig) -> None:
    plans = [rig.begin() for _ in range(3)]
    with pytest.raises(TooManyPlans):
        rig.begin()
    assert sorted(rig.pinned()) == sorted(plan.id for plan in plans)
    rig.plans.end(plans[0].id, "ann")
    rig.begin()
    rig.clock.move(3_700)
    rig.begin()


def caller(name: str, issuer: str) -> str:
    return Caller(name=name, realm="r", instance="r#1", issuer=f"https://{issuer}.example").owner_id


def test_one_principal_cannot_use_all_plans(rig: Rig) -> None:
    """Principals of one name whom two issuers signed for are two."""
    ann, other_ann = caller("ann", "one"), caller("ann", "other")
    rig.plans = Plans(rig.kernel, PlanOptions(plans_max=4, plans_per_principal_max=2), PlanCounts())
    own = [rig.begin(ann) for _ in range(2)]
    with pytest.raises(TooManyPlans, match="this principal has 2 plans") as refused:
        rig.begin(ann)
    assert refused.value.remedy
    rig.begin(other_ann)
    for _ in range(2):  # again is once
        rig.plans.end(own[0].id, ann)
    rig.begin(ann)
    with pytest.raises(TooManyPlans, match="this principal"):
        rig.begin(ann)
    rig.begin("bob")
    with pytest.raises(TooManyPlans, match="the realm has 4 plans"):
        rig.begin("bob")


def test_a_plan_that_is_refused_takes_no_place(rig: Rig) -> None:
    for _ in range(5):
        with pytest.raises(SnapshotExpired):
            rig.begin(seq=0)
    for _ in range(3):
        rig.begin()


def test_a_place_that_another_worker_freed_is_found_by_counting_again(rig: Rig) -> None:
    plans = [rig.begin() for _ in range(3)]
    Plans(rig.kernel, OPTIONS, PlanCounts()).end(plans[0].id, "ann")
    with pytest.raises(TooManyPlans):
        rig.begin()
    rig.clock.move(1)
    rig.begin()


@pytest.mark.parametrize("seconds", [0.0, -1.0, 3_601.0, float("nan"), float("inf")])
def test_a_lease_out_of_range_is_refused(rig: Rig, seconds: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        rig.begin(seconds=seconds)
    assert refused.value.field == "seconds" and rig.pinned() == []


def test_too_many_inputs_and_what_is_below_the_floor_are_refused(rig: Rig) -> None:
    one = PlanInput(catalog="lake", catalog_id=1, key=("t",), type="ICEBERG_TABLE", content_id="c", metadata_location="m")
    with pytest.raises(InvalidInput, match="inputs"):
        rig.plans.begin("ann", [one] * 3, [])
    with pytest.raises(SnapshotExpired):
        rig.begin(seq=0)
    assert list(rig.kernel.store.backend.all_mutable(rig.kernel.realm, PLAN_TYPE)) == []


def test_without_claims_some_order_loses_what_a_plan_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the contract of plans and removals can fail."""
    monkeypatch.setattr(claimed_removals, "_live", lambda row, now: ())
    backend = MemoryBackend(MemoryStore())
    lost = []
    for number, steps in enumerate(itertools.product(range(8), range(16))):
        race = PlanRace(backend, "realm#1", number)
        plan, _ = race.race(race.expire, steps)
        lost.append(isinstance(plan.result, Plan) and race.floor() > SEQ)
    assert any(lost)
