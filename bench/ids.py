"""Measures how many ids one core generates per second."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.context import Context
from bench.measures import Measure, rate
from headwater.persistence.backends.memory import open_memory
from headwater.persistence.ids.id_generator import IdGenerator
from headwater.persistence.ids.node_leases import NodeLeases

TITLE = "Ids: at most 4,096,000 per second and node"


def run(context: Context) -> Iterator[Measure]:
    with IdGenerator(NodeLeases(open_memory("memory://"))) as ids:

        def one_by_one() -> int:
            for _ in range(1_000):
                ids()
            return 1_000

        yield Measure(
            "ids", "one thread", "one by one", rate(one_by_one, context.seconds, time.thread_time), "ids/s of one core"
        )
        yield Measure("ids", "one thread", "blocks of 100", rate(lambda: len(ids.take(100)), context.seconds), "ids/s")
        yield Measure("ids", "one thread", "blocks of 10,000", rate(lambda: len(ids.take(10_000)), context.seconds), "ids/s")
