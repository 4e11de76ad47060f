"""Measures updates of an index of 1,000, 100,000 and 500,000 keys: bytes written, objects read and time."""

from __future__ import annotations

from collections.abc import Iterator

from bench.context import Context
from bench.index import TAIL_UPDATES, measure
from bench.measures import Measure

TITLE = f"Index: random single-key updates, flushed every {TAIL_UPDATES}, the cache dropped before each flush"


def run(context: Context) -> Iterator[Measure]:
    with context.console.status("building indexes …"):
        for cost in measure():
            keys = f"{cost.keys:,} keys"
            yield Measure("index", keys, "written", cost.bytes_per_update, "bytes/update")
            yield Measure("index", keys, "read", cost.objects_read_per_update, "objects/update")
            yield Measure("index", keys, "written", cost.objects_written_per_update, "objects/update")
            yield Measure("index", keys, "largest flush", cost.flush_bytes_max / 1_000, "kB")
            yield Measure("index", keys, "flush time", cost.micros_per_update, "µs/update")
