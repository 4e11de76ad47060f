"""A plan as its mutable row: who holds it, until when, and what it pins. Plans never enter the feed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.change import KeyPath

PLAN_TYPE = "plan"
_PAGE_ROWS = 500


class PlanState(StrEnum):
    ACTIVE = "ACTIVE"
    EXPIRED = "EXPIRED"
    """Not renewed in time; within the grace it can still be."""
    ENDED = "ENDED"


class PinnedEntry(msgspec.Struct, frozen=True, array_like=True):
    """The state that a plan reads a reference at."""

    pointer: str
    seq: int
    entry_id: bytes


class PlanInput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table or view that a plan reads, as it was resolved when the plan began. New fields have defaults: rows last a day."""

    catalog: str
    catalog_id: int
    key: KeyPath
    type: str
    content_id: str
    metadata_location: str
    snapshot_id: int | None = None
    """None for a view, and for a table without rows."""
    pin: int = 0
    """Which of the plan's pins it was read at."""
    is_named: bool = True
    """By the caller; else a view of the plan reads it."""
    reads: tuple[int, ...] = ()
    """Of a view: the numbers of the inputs that it reads."""
    connector: str = ""
    """The id of the connector whose source plans it; empty where this server does."""


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float = 60.0
    """The length of a lease, unless the caller says otherwise."""
    seconds_max: float = 3_600.0
    grace_seconds: float = 15.0
    """For which a lease that was not renewed in time still pins, and can still be renewed."""
    age_hours: float = 24.0
    """After which a plan ends, however often it was renewed."""
    plans_max: int = 10_000
    """Of one realm."""
    plans_per_principal_max: int = 1_000
    """Of those: so that one caller cannot take every place."""
    inputs_max: int = 1_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The row's payload. Times in microseconds."""

    id: str
    owner: str
    created_at: int
    expires_at: int
    pinned_until: int
    """The end of the lease and its grace."""
    ends_at: int
    """By its age."""
    pins: tuple[PinnedEntry, ...] = ()
    inputs: tuple[PlanInput, ...] = ()
    is_ended: bool = False
    request: bytes = b""
    """What else the API that began it must know to continue with it."""

    def state(self, now: int) -> PlanState:
        if self.is_ended:
            return PlanState.ENDED
        return PlanState.ACTIVE if now < self.expires_at else PlanState.EXPIRED

    def holds(self, now: int) -> bool:
        return not self.is_ended and now < self.pinned_until

    def leased(self, now: int, seconds: float, grace_seconds: float) -> Plan:
        expires_at = min(now + round(seconds * MICROS), self.ends_at)
        pinned_until = min(expires_at + round(grace_seconds * MICROS), self.ends_at)
        return msgspec.structs.replace(self, expires_at=expires_at, pinned_until=pinned_until)


OBJECT_TYPES.register(ObjectType(PLAN_TYPE, Plan, Life.MUTABLE))


def plan_of(row: MutableRow) -> Plan:
    return msgspec.msgpack.decode(row.payload, type=Plan)


def live_plans(kernel: RealmKernel) -> Iterator[Plan]:
    """All that pin something now."""
    now = kernel.store.clock.now_micros()
    plans = (plan_of(row) for row in kernel.store.backend.all_mutable(kernel.realm, PLAN_TYPE, page=_PAGE_ROWS))
    return (plan for plan in plans if plan.holds(now))
