"""The history that plans pin, for expiry."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.persistence.records.subscriptions import Pin
from headwater.persistence.store import RealmKernel
from headwater.producer.plans.plan_rows import live_plans


def plan_pins(kernel: RealmKernel, now: int) -> Iterator[Pin]:
    """The pinned entry itself stays: the floor may rise up to it."""
    for plan in live_plans(kernel):
        for pin in plan.pins:
            yield Pin(pointer=pin.pointer, seq=pin.seq - 1, until=plan.pinned_until, holder=f"plan {plan.id}")
