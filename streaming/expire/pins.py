"""Collects what holds the floors of a realm: subscriptions, plans, readers, publishers, live branches, plug-ins.

A plug-in is an entry point of the group `headwater.pins`: a function of the kernel and the time that yields `Pin`s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.records.subscriptions import Pin, subscription_pins
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.producer.plans.plan_pins import plan_pins
from headwater.producer.publisher.shards.shard_pins import publisher_pins
from headwater.streaming.expire.branch_pins import BranchPins
from headwater.streaming.expire.readers import RegisteredReaders

ENTRY_POINT_GROUP = "headwater.pins"

PinSource = Callable[[RealmKernel, int], Iterable[Pin]]


def pin_sources() -> list[PinSource]:
    """The pins of subscriptions, plans and all plug-ins."""
    plugged: list[PinSource] = [found.load() for found in metadata.entry_points(group=ENTRY_POINT_GROUP)]
    return [subscription_pins, plan_pins, *plugged]


def published_pins(kernel: RealmKernel, now: int, rows: Mapping[str, PointerRow]) -> Iterator[Pin]:
    """What Kafka has not received yet. ⚠ A pointer of which it has nothing is held from its first entry on."""
    created_at = {pointer: row.created_at for pointer, row in rows.items()}
    for pointer, seq in publisher_pins(kernel.store.backend, kernel.realm, now, created_at).items():
        yield Pin(pointer=pointer, seq=seq, until=now + 1, holder="publisher")


def all_pins(
    kernel: RealmKernel,
    now: int,
    rows: Mapping[str, PointerRow],
    heads: Mapping[str, LogRecord],
    sources: Sequence[PinSource] | None = None,
) -> Iterator[Pin]:
    """A pin keeps the entries after its seq: the floor may rise to seq + 1."""
    yield from history_pins(kernel, now, rows, sources)
    floors = {pointer: row.floor for pointer, row in rows.items()}
    for needed in BranchPins(kernel.walk, heads, floors).all():
        yield Pin(pointer=needed.pointer, seq=needed.seq - 1, until=2**63 - 1, holder=f"branch {needed.branch}")


def history_pins(
    kernel: RealmKernel, now: int, rows: Mapping[str, PointerRow], sources: Sequence[PinSource] | None = None
) -> Iterator[Pin]:
    """The pins of those who read the history, as opposed to branches that begin in it."""
    for source in pin_sources() if sources is None else sources:
        yield from source(kernel, now)
    yield from published_pins(kernel, now, rows)
    yield from reader_pins(kernel, now, rows)


def reader_pins(kernel: RealmKernel, now: int, rows: Mapping[str, PointerRow]) -> Iterator[Pin]:
    for reader in RegisteredReaders(kernel.store.backend, kernel.realm, kernel.store.clock).list():
        if reader.pinned_until > now:
            for pointer in rows:
                seq = reader.positions.get(pointer, 0)
                yield Pin(pointer=pointer, seq=seq, until=reader.pinned_until, holder=f"reader {reader.name}")
