"""A catalog enters; every kind of entry is written to it by several writers at once, and ten thousand more in the long form."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from headwater.embedded import CatalogHandle
from tests.publisher_runs import put, write_at_once

WRITERS = 32
LONG_COMMITS = 10_000


def write_whole_history(lake: CatalogHandle) -> None:
    write_at_once(lake, writers=2, rounds=2)
    if os.environ.get("HEADWATER_SOAK"):
        main = lake.branch()
        with ThreadPoolExecutor(WRITERS) as writers:
            for _ in writers.map(lambda number: main.commit([put(f"t{number % 100}", number)]), range(LONG_COMMITS)):
                pass
