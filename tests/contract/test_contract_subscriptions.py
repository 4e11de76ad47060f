"""Subscriptions on every database: written by one reader at a time, whatever the answers of the store."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from headwater.persistence.records.subscriptions import Subscription, SubscriptionRecord, Subscriptions, subscription_pins
from headwater.persistence.store import RealmKernel, open_store
from headwater.schemas.cursor import Position
from headwater.schemas.errors import SubscriptionExists, SubscriptionMoved, SubscriptionNotFound
from headwater.schemas.filters import Filter


@pytest.fixture
def kernel(store_url: str, realm: str) -> Iterator[RealmKernel]:
    with open_store(store_url) as store:
        yield store.kernel(realm)


def at(seq: int) -> SubscriptionRecord:
    return SubscriptionRecord({"p": Position(seq, b"")}, Filter(prefix=("a",)), pin_seconds=60)


def test_a_subscription_is_read_as_written_and_not_created_twice(kernel: RealmKernel) -> None:
    rows = Subscriptions(kernel)
    made = rows.create("s", at(1))
    assert rows.get("s") == made and made.record.filter == Filter(prefix=("a",))
    with pytest.raises(SubscriptionExists):
        rows.create("s", at(2))
    moved = rows.write(made, at(5))
    assert rows.get("s") == moved and moved.record.positions["p"].seq == 5 and moved.version != made.version
    rows.delete(moved)
    with pytest.raises(SubscriptionNotFound):
        rows.get("s")


def test_one_of_several_concurrent_readers_advances_a_subscription(kernel: RealmKernel) -> None:
    rows = Subscriptions(kernel)
    read = rows.create("s", at(0))
    for round in range(3):

        def move(reader: int, read: Subscription = read, round: int = round) -> Subscription | SubscriptionMoved:
            try:
                return rows.write(read, at(100 * round + reader))
            except SubscriptionMoved as refusal:
                return refusal

        with ThreadPoolExecutor(4) as readers:
            answers = list(readers.map(move, range(4)))
        (winner,) = [answer for answer in answers if isinstance(answer, Subscription)]
        assert rows.get("s") == winner
        for answer in answers:
            assert answer is winner or answer.facts["version"] is not None  # type: ignore[union-attr]
        read = winner


def test_a_stale_delete_and_a_write_after_a_delete_are_refused(kernel: RealmKernel) -> None:
    rows = Subscriptions(kernel)
    made = rows.create("s", at(0))
    moved = rows.write(made, at(1))
    with pytest.raises(SubscriptionMoved):
        rows.delete(made)
    rows.delete(moved)
    with pytest.raises(SubscriptionMoved) as gone:
        rows.write(moved, at(2))
    assert gone.value.facts["version"] is None
    again = rows.create("s", at(0))
    assert again.version != made.version, "a name that is used again repeats no version"


def test_pins_end_with_their_maximum_age_and_realms_do_not_mix(kernel: RealmKernel, store_url: str, other_realm: str) -> None:
    rows = Subscriptions(kernel)
    made = rows.create("s", at(7))
    rows.create("t", msgspec.structs.replace(at(9), pin_seconds=0))
    assert [one.name for one in rows.list()] == ["s", "t"]
    assert [(pin.seq, pin.holder) for pin in subscription_pins(kernel, made.pinned_until - 1)] == [(7, "subscription s")]
    assert list(subscription_pins(kernel, made.pinned_until)) == []
    assert Subscriptions(kernel.store.kernel(other_realm)).list() == []
