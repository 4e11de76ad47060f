"""Pins a realm's history until it is published, up to a maximum age.

Maintenance asks `publisher_pins` before it raises a floor: a floor above `pin + 1` would cut what Kafka has not got yet. The
rows are written every few seconds and so may say too little, never too much; they expire when nothing could be published.
⚠ A pointer that no row of the newest generation names was not published yet: it is held from its first entry on.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.cas_rows import cas_row, next_row
from headwater.persistence.rows import MutableRow
from headwater.producer.publisher.assignment.generations import read_generation

PIN_TYPE = "publisher-pin"
POINTERS_PER_ROW = 200
"""So that the longest names still fit a row."""
REFRESH_SHARE = 0.1
"""Of the maximum age passes before an unchanged pin is written again."""
MAX_AGE_SECONDS = 7 * 86_400.0


class PinRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    generation: int
    seqs: dict[str, int]
    began_at: int = 0
    """When the first pin of this generation was written under this key, in microseconds."""
    max_age_micros: int = int(MAX_AGE_SECONDS * MICROS)


_Rows = list[tuple[MutableRow, PinRecord]]


class ShardPins:
    """The pins of one shard, written by its holder alone."""

    def __init__(self, backend: Backend, clock: Clock, realm: str, shard: int, generation: int, max_age_seconds: float) -> None:
        self._backend = backend
        self._clock = clock
        self._realm = realm
        self._shard = shard
        self._generation = generation
        self._max_age_micros = int(max_age_seconds * MICROS)
        self._written: dict[int, tuple[dict[str, int], int]] = {}

    def write(self, seqs: dict[str, int]) -> None:
        """One row at least: also a shard without pointers says that it publishes."""
        names = sorted(seqs)
        for part in range(max(1, -(-len(names) // POINTERS_PER_ROW))):
            chunk = {name: seqs[name] for name in names[part * POINTERS_PER_ROW : (part + 1) * POINTERS_PER_ROW]}
            self._write_part(part, chunk)

    def _write_part(self, part: int, chunk: dict[str, int]) -> None:
        now = self._clock.now_micros()
        written, at = self._written.get(part, (None, 0))
        if written == chunk and now - at < self._max_age_micros * REFRESH_SHARE:
            return
        key = f"{self._shard:05d}/{part:05d}"
        before = self._backend.read_mutable(self._realm, PIN_TYPE, key)
        known = None if before is None else _record(before)
        if known is not None and known.generation > self._generation:
            return  # ⚠ a holder that slept through the end of its generation knows nothing of the new one
        began_at = known.began_at if known is not None and known.generation == self._generation else now
        record = PinRecord(self._generation, chunk, began_at, self._max_age_micros)
        row = next_row(PIN_TYPE, key, before, msgspec.msgpack.encode(record), now, expires_at=now + self._max_age_micros)
        if cas_row(self._backend, self._realm, before, row, self._clock):
            self._written[part] = (chunk, now)


def known_published(backend: Backend, realm: str, generation: int) -> dict[str, int]:
    """Pointer → the newest seq that Kafka has for sure in this generation, however old that word is."""
    found: dict[str, int] = {}
    for record in map(_record, backend.all_mutable(realm, PIN_TYPE)):
        if record.generation == generation:
            for name, seq in record.seqs.items():
                found[name] = max(seq, found.get(name, 0))
    return found


def publisher_pins(
    backend: Backend, realm: str, now_micros: int, created_at: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Pointer → the newest seq that Kafka certainly has. Later entries are pinned; expired pins are left out.

    With the realm's pointers and when each was made, also 0 for every one that the generation in force has not seen yet, up to
    the same maximum age: since the pointer was made, or since the generation began.
    """
    rows = [(row, _record(row)) for row in backend.all_mutable(realm, PIN_TYPE)]
    newest = max([_in_force(backend, realm), *(record.generation for _, record in rows)])
    of_newest = [(row, record) for row, record in rows if record.generation == newest]
    pins: dict[str, int] = {}
    for row, record in of_newest:
        if row.expires_at > now_micros:
            for name, seq in record.seqs.items():
                pins[name] = max(seq, pins.get(name, 0))
    seen = {name for _, record in of_newest for name in record.seqs}
    for name, made_at in (created_at or {}).items():
        if newest and name not in seen and _held_until(rows, of_newest, made_at) > now_micros:
            pins[name] = 0
    return pins


def _in_force(backend: Backend, realm: str) -> int:
    """The number of the generation that publishes now, or will when an operator's wish for a new one is met."""
    found = read_generation(backend, realm)
    return 0 if found is None else found.number + found.restart


def _held_until(rows: _Rows, of_newest: _Rows, made_at: int) -> int:
    """Until when a pointer is held that was not published in this generation; never longer than the newest pin lasts."""
    if not rows:
        return made_at + int(MAX_AGE_SECONDS * MICROS)
    pins_end_at = max(row.expires_at for row, _ in rows)
    if not of_newest:  # the generation has begun and nothing of it was published: what held before holds on
        return pins_end_at
    since = max(made_at, min(record.began_at for _, record in of_newest))
    return min(pins_end_at, since + max(record.max_age_micros for _, record in of_newest))


def _record(row: MutableRow) -> PinRecord:
    return msgspec.msgpack.decode(row.payload, type=PinRecord)
