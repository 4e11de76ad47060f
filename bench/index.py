"""Counts what single-key updates cost an index of 1,000, 100,000 and 500,000 keys, in a cold store.

The store keeps encoded rows as a database would. Its cache is dropped before every flush, so each read is counted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from headwater.persistence.index import (
    DIRECTORY,
    GEOMETRY,
    STRIPE,
    Flushed,
    Geometry,
    IndexObject,
    IndexRoot,
    IndexValue,
    Stripe,
    encode_key,
    flush,
)
from headwater.persistence.objects import codec
from headwater.persistence.rows import ObjectRow

SIZES = (1_000, 100_000, 500_000)
TAIL_UPDATES = 32
MEASURED_UPDATES = 16_000


class IndexRows:
    """Index objects as encoded rows, with counted reads and writes and a cache that can be dropped."""

    def __init__(self, seed: int = 1) -> None:
        self.rows: dict[int, ObjectRow] = {}
        self.objects_read = 0
        self.objects_written = 0
        self.bytes_written = 0
        self._cache: dict[int, IndexObject] = {}
        self._random = random.Random(seed)
        self._millis = 53_000_000_000
        self._sequence = 0

    def new_id(self) -> int:
        """Shaped like the ids of some nodes that commit every twenty milliseconds or so."""
        waited = self._random.randrange(40)
        self._millis += waited
        self._sequence = 0 if waited else self._sequence + 1
        return self._millis << 22 | self._random.choice((17, 18, 300, 731)) << 12 | self._sequence

    def load(self, ids: Sequence[int]) -> dict[int, IndexObject]:
        for object_id in ids:
            if object_id not in self._cache and object_id in self.rows:
                self.objects_read += 1
                self._cache[object_id] = _decode(self.rows[object_id])
        return {object_id: self._cache[object_id] for object_id in ids if object_id in self._cache}

    def drop_cache(self) -> None:
        self._cache.clear()

    def write(self, added: Iterable[tuple[int, IndexObject]]) -> int:
        """Bytes written."""
        total = 0
        for object_id, value in added:
            row = _encode(object_id, value)
            self.rows[object_id] = row
            self._cache[object_id] = value
            self.objects_written += 1
            total += len(row.payload)
        self.bytes_written += total
        return total

    def delete(self, ids: Iterable[int]) -> None:
        for object_id in ids:
            del self.rows[object_id]
            self._cache.pop(object_id, None)


class IndexCost(msgspec.Struct, frozen=True, kw_only=True):
    keys: int
    bytes_per_update: float
    objects_read_per_update: float
    objects_written_per_update: float
    flush_bytes_max: int
    micros_per_update: float
    """Of the flush alone; in a cold store this includes decoding what was read."""


def table_key(number: int) -> bytes:
    return encode_key((f"db{number % 100}", f"table_{number:07d}"))


def measure(
    sizes: Sequence[int] = SIZES,
    *,
    cold: bool = True,
    tail_updates: int = TAIL_UPDATES,
    geometry: Geometry = GEOMETRY,
    make_key: Callable[[int], bytes] = table_key,
) -> Iterator[IndexCost]:
    """One index that grows by ordinary updates in random order; at each size random keys are updated and counted."""
    store, chance = IndexRows(), random.Random(2)
    keys = [make_key(number) for number in range(max(sizes))]
    chance.shuffle(keys)
    root, built = IndexRoot(), 0
    for size in sizes:
        root, _ = _update(store, root, keys[built:size], cold, tail_updates, geometry)
        built = size
        updates = chance.choices(keys[:size], k=MEASURED_UPDATES)
        root, cost = _update(store, root, updates, cold, tail_updates, geometry)
        yield msgspec.structs.replace(cost, keys=size)


def _update(
    store: IndexRows, root: IndexRoot, keys: Sequence[bytes], cold: bool, tail_updates: int, geometry: Geometry
) -> tuple[IndexRoot, IndexCost]:
    bytes_before, read_before, written_before = store.bytes_written, store.objects_read, store.objects_written
    flush_bytes_max, seconds = 0, 0.0
    for at in range(0, len(keys), tail_updates):
        tail = {key: IndexValue(store.new_id(), 1) for key in keys[at : at + tail_updates]}
        if cold:
            store.drop_cache()
        started = time.perf_counter()
        flushed: Flushed = flush(store.load, root, tail, store.new_id, geometry)
        seconds += time.perf_counter() - started
        flush_bytes_max = max(flush_bytes_max, store.write(flushed.added))
        store.delete(flushed.released)
        root = flushed.root
    return root, IndexCost(
        keys=0,
        bytes_per_update=(store.bytes_written - bytes_before) / len(keys),
        objects_read_per_update=(store.objects_read - read_before) / len(keys),
        objects_written_per_update=(store.objects_written - written_before) / len(keys),
        flush_bytes_max=flush_bytes_max,
        micros_per_update=seconds / len(keys) * 1e6,
    )


def _encode(object_id: int, value: IndexObject) -> ObjectRow:
    if isinstance(value, Stripe):
        return codec.encode(STRIPE, object_id, value, 1)
    return codec.encode(DIRECTORY, object_id, value, 1)


def _decode(row: ObjectRow) -> IndexObject:
    return codec.decode(STRIPE, [row]) if row.type == STRIPE.name else codec.decode(DIRECTORY, [row])


def main() -> None:
    print(f"index, one update each, flushed every {TAIL_UPDATES} updates, random keys")
    print("   keys  cache  bytes written  objects read  objects written  largest flush  flush time")
    for cold in (True, False):
        for cost in measure(cold=cold):
            print(
                f"{cost.keys:7,d}  {'cold' if cold else 'warm'}   {cost.bytes_per_update:11.0f} B"
                f"  {cost.objects_read_per_update:12.2f}  {cost.objects_written_per_update:15.3f}"
                f"  {cost.flush_bytes_max / 1000:10.0f} kB  {cost.micros_per_update:7.1f} µs"
            )


if __name__ == "__main__":
    main()
