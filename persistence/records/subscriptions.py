"""Positions of named readers, moved by one reader at a time, which also pin history.

A subscription is a mutable row of its realm instance: every write is a CAS on the row that was read, so of two readers on
one name, the second one gets an error when the first has moved it. Moving it is not a log entry.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, delete_row, next_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.cursor import Position
from headwater.schemas.errors import SubscriptionExists, SubscriptionMoved, SubscriptionNotFound
from headwater.schemas.filters import NO_FILTER, Filter

SUBSCRIPTION_TYPE = "subscription"
PAGE_SUBSCRIPTIONS_MAX = 1_000


class SubscriptionRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    positions: dict[str, Position]
    """By pointer: the last entry that was acknowledged."""
    filter: Filter = NO_FILTER
    pin_seconds: int = 0
    updated_at: int = 0
    """Microseconds; the pin counts from here."""
    owner: str = ""
    """Identity of the principal that created it: its name and the id of its record."""
    moved_by: str = ""
    """Request id of the write, if its caller supplied a key: a repeated write is then recognised."""


OBJECT_TYPES.register(ObjectType(SUBSCRIPTION_TYPE, SubscriptionRecord, Life.MUTABLE))


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    record: SubscriptionRecord
    row: MutableRow

    @property
    def created_at(self) -> int:
        return self.row.created_at

    @property
    def version(self) -> str:
        """Of this write of this subscription: a subscription re-created under the same name repeats no write of the old one."""
        return f"{self.created_at:x}-{self.row.version}"

    @property
    def pinned_until(self) -> int:
        """Microseconds."""
        return self.record.updated_at + self.record.pin_seconds * MICROS


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """History of `pointer` after `seq` is kept for `holder` until then (microseconds)."""

    pointer: str
    seq: int
    until: int
    holder: str


class Subscriptions:
    """The subscriptions of one realm instance. Every call reads what is there now."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel
        self._backend = kernel.store.backend

    def find(self, name: str) -> Subscription | None:
        row = self._backend.read_mutable(self._kernel.realm, SUBSCRIPTION_TYPE, name)
        return None if row is None else _of(row)

    def get(self, name: str) -> Subscription:
        found = self.find(name)
        if found is None:
            raise no_subscription(name)
        return found

    def list(self, *, after: str = "", limit: int = PAGE_SUBSCRIPTIONS_MAX) -> list[Subscription]:
        """In order of name, after `after`."""
        return [_of(row) for row in self._backend.list_mutable(self._kernel.realm, SUBSCRIPTION_TYPE, after=after, limit=limit)]

    def create(self, name: str, record: SubscriptionRecord) -> Subscription:
        now = self._kernel.store.clock.now_micros()
        record = msgspec.structs.replace(record, updated_at=now)
        row = next_row(SUBSCRIPTION_TYPE, name, None, msgspec.msgpack.encode(record), now)
        if not self._cas(None, row):
            raise SubscriptionExists(f"{name!r} exists already.", field="name", remedy="Read it, or choose another name.")
        return _of(row)

    def write(self, read: Subscription, record: SubscriptionRecord) -> Subscription:
        """Replace what was read; `SubscriptionMoved` if another one has written or deleted it since."""
        now = max(self._kernel.store.clock.now_micros(), read.record.updated_at)
        payload = msgspec.msgpack.encode(msgspec.structs.replace(record, updated_at=now))
        row = next_row(SUBSCRIPTION_TYPE, read.name, read.row, payload, now)
        if not self._cas(read.row, row):
            raise moved(read.name, self.find(read.name))
        return _of(row)

    def delete(self, read: Subscription) -> None:
        if not delete_row(self._backend, self._kernel.realm, read.row, self._kernel.store.clock):
            raise moved(read.name, self.find(read.name))

    def _cas(self, before: MutableRow | None, row: MutableRow) -> bool:
        return cas_row(self._backend, self._kernel.realm, before, row, self._kernel.store.clock)


def no_subscription(name: str) -> SubscriptionNotFound:
    return SubscriptionNotFound(f"there is no subscription {name!r}.", field="name", remedy="Create it with PUT.")


def moved(name: str, now: Subscription | None) -> SubscriptionMoved:
    return SubscriptionMoved(
        f"{name!r} was moved by another reader meanwhile.",
        field="version",
        remedy="Read the subscription and continue from there.",
        version=None if now is None else now.version,
    )


def subscription_pins(kernel: RealmKernel, now: int) -> Iterator[Pin]:
    """The pins of subscriptions at that time; those whose maximum age has passed pin nothing."""
    after = ""
    while page := Subscriptions(kernel).list(after=after):
        after = page[-1].name
        for one in page:
            if one.pinned_until > now:
                for pointer, position in one.record.positions.items():
                    yield Pin(pointer=pointer, seq=position.seq, until=one.pinned_until, holder=f"subscription {one.name}")
        if len(page) < PAGE_SUBSCRIPTIONS_MAX:
            return


def _of(row: MutableRow) -> Subscription:
    return Subscription(name=row.key, record=msgspec.msgpack.decode(row.payload, type=SubscriptionRecord), row=row)
