"""Provides the ids that must stay in a fenced realm, by walking or from a streamed set, and how far they reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from headwater.persistence.backend import Backend
from headwater.schemas.errors import RetainedIncomplete
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.id_set import MarkedIds
from headwater.streaming.reachability.retained_identifiers import Identifiers, Span
from headwater.streaming.reachability.segments import SegmentPosition


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    ids: MarkedIds
    positions: dict[str, SegmentPosition]
    """The position in each pointer's log up to which the set is complete."""
    passed: dict[str, list[SegmentPosition]] = {}
    """⚠ Every position at which a step of the set has ended: each must be in the log, not only the last one."""
    covers: frozenset[str] | None = None
    """⚠ Object types about which the set decides; None: all that identifiers cover. It purges no other type."""


class RetainedSource(Protocol):
    def retained(self, fenced: FencedRealm) -> Retained: ...


class WalkedSource:
    """Found by identifiers, from the heads that the fence yielded."""

    def __init__(self, backend: Backend, identifiers: Identifiers) -> None:
        self._backend = backend
        self._identifiers = identifiers

    def retained(self, fenced: FencedRealm) -> Retained:
        ids = self._identifiers.retained(self._backend, fenced.realm, fenced.spans)
        return Retained(ids=ids, positions=walked_positions(fenced.spans))


def walked_positions(spans: Mapping[str, Span]) -> dict[str, SegmentPosition]:
    """A walk from the heads down to the floors knows exactly that."""
    return {pointer: SegmentPosition(span.floor, span.seq, span.head.hex()) for pointer, span in spans.items()}


def require_complete(spans: Mapping[str, Span], positions: Mapping[str, SegmentPosition]) -> None:
    """⚠ Contiguous from the floor, or from before it, up to every head; and the head must be that very entry, not another one
    at its seq."""
    for pointer, span in spans.items():
        known = positions.get(pointer)
        if known is None or known.first > span.floor or known.seq < span.seq:
            reached = "nothing of it" if known is None else f"entries {known.first} to {known.seq}"
            raise RetainedIncomplete(
                f"{pointer}: the retained set knows {reached}, but {span.floor} to {span.seq} must stay.",
                field="retained",
                remedy="Let `headwater maintain retained` catch up, or sweep by walking.",
                pointer=pointer,
                floor=span.floor,
                head=span.seq,
            )
        if known.seq == span.seq and known.entry_id != span.head.hex():
            raise RetainedIncomplete(
                f"{pointer}: the retained set ends in another entry {span.seq} than the log.",
                field="retained",
                remedy="Seed the set again: `headwater maintain retained --reseed`.",
                pointer=pointer,
            )
