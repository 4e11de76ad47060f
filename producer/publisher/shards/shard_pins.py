"""What was published enters; mutable rows of the realm leave that hold its history for Kafka, up to a maximum age.

Maintenance asks `publisher_pins` before it raises a floor: a floor above `pin + 1` would cut what Kafka has not got yet. The
rows are written every few seconds and so may say too little, never too much; they expire when nothing could be published.
"""

from __future__ import annotations

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.rows import MutableRow

PIN_TYPE = "publisher-pin"
POINTERS_PER_ROW = 200
"""So that the longest names still fit a row."""
REFRESH_SHARE = 0.1
"""Of the maximum age passes before an unchanged pin is written again."""


class PinRecord(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    seqs: dict[str, int]


class ShardPins:
    """The pins of one shard, written by its holder alone."""

    def __init__(self, backend: Backend, clock: Clock, realm: str, shard: int, generation: int, max_age_seconds: float) -> None:
        self._backend = backend
        self._clock = clock
        self._realm = realm
        self._shard = shard
        self._generation = generation
        self._max_age_micros = int(max_age_seconds * 1_000_000)
        self._written: dict[int, tuple[dict[str, int], int]] = {}

    def write(self, seqs: dict[str, int]) -> None:
        names = sorted(seqs)
        for part in range(-(-len(names) // POINTERS_PER_ROW)):
            chunk = {name: seqs[name] for name in names[part * POINTERS_PER_ROW : (part + 1) * POINTERS_PER_ROW]}
            self._write_part(part, chunk)

    def _write_part(self, part: int, chunk: dict[str, int]) -> None:
        now = self._clock.now_micros()
        written, at = self._written.get(part, ({}, 0))
        if written == chunk and now - at < self._max_age_micros * REFRESH_SHARE:
            return
        key = f"{self._shard:05d}/{part:05d}"
        before = self._backend.read_mutable(self._realm, PIN_TYPE, key)
        row = MutableRow(
            type=PIN_TYPE,
            key=key,
            version=before.version + 1 if before else 1,
            created_at=before.created_at if before else now,
            expires_at=now + self._max_age_micros,
            payload=msgspec.msgpack.encode(PinRecord(self._generation, chunk)),
        )
        done = self._backend.update_mutable(self._realm, before.version, row) if before else self._insert(row)
        if done:
            self._written[part] = (chunk, now)

    def _insert(self, row: MutableRow) -> bool:
        return self._backend.insert_mutable(self._realm, row)


def publisher_pins(backend: Backend, realm: str, now_micros: int) -> dict[str, int]:
    """Pointer → the newest seq that Kafka has for sure. Entries behind it are pinned; expired pins are left out."""
    newest, pins, after = 0, dict[str, int](), ""
    while rows := backend.list_mutable(realm, PIN_TYPE, after=after):
        after = rows[-1].key
        for row in rows:
            record = msgspec.msgpack.decode(row.payload, type=PinRecord)
            if row.expires_at <= now_micros or record.generation < newest:
                continue
            if record.generation > newest:
                newest, pins = record.generation, {}
            for name, seq in record.seqs.items():
                pins[name] = max(seq, pins.get(name, 0))
    return pins
