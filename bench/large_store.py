"""Builds a store of about a given number of objects: half are tables of many branches, half are garbage.

What is left behind lies there as after attempts that were lost, among what stays, older than any grace. It is begun again
where it ended, branch by branch, so that a very large store can be made in several sittings:
`python -m bench.large_store sqlite:///big.db 10000000`.
"""

from __future__ import annotations

import sys
import time

from bench.bulk_load import load_tables, table_value
from headwater.persistence.clock import SystemClock
from headwater.persistence.log.log_entry import CONTENT, Content
from headwater.persistence.objects.realm_objects import NewObject
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import Store, open_store

REALM = "bench#0000000000000001"
TABLES_EACH = 100_000
ORPHANS_AT_ONCE = 2_000
DAY_MICROS = 86_400 * 1_000_000


class Yesterday(SystemClock):
    """So that everything is older than the grace."""

    def now_micros(self) -> int:
        return super().now_micros() - DAY_MICROS


def pointer_name(number: int) -> str:
    return f"cat/1/heads/b{number:04d}"


def load_objects(store: Store, objects: int, *, tables_each: int = TABLES_EACH, seconds_max: float = 1e9) -> bool:
    """Whether all of it is there."""
    started = time.monotonic()
    each = min(tables_each, max(1, objects // 2))
    for number in range(max(1, objects // 2 // each)):
        if time.monotonic() - started > seconds_max:
            return False
        _load_branch(store, pointer_name(number), each)
    return True


def _load_branch(store: Store, pointer: str, tables: int) -> None:
    """Tables, and as many contents that nothing reaches; both or, where it was cut short, some garbage more."""
    backend = store.backend
    kernel = store.kernel(REALM)
    row = backend.read_pointer(REALM, pointer)
    if row is not None and row.seq > 0:
        return
    for first in range(0, tables, ORPHANS_AT_ONCE):
        ids = store.take(min(ORPHANS_AT_ONCE, tables - first))
        lost = [
            NewObject(CONTENT, id, Content(b"o%015d" % number, "ICEBERG_TABLE", table_value(number, 0)))
            for number, id in enumerate(ids, first)
        ]
        kernel.objects.write_strong(lost, store.clock.now_micros())
    if row is None:
        backend.add_name(REALM, pointer)
        backend.reserve_pointer(REALM, pointer, PointerRow(created_at=store.clock.now_micros()))
    load_tables(kernel, pointer, tables)


def main(url: str, objects: str, seconds_max: str = "1e9") -> None:
    with open_store(url, create=True, clock=Yesterday()) as store:
        whole = load_objects(store, int(objects), seconds_max=float(seconds_max))
    print("all of it is there" if whole else "run it again: there is more to load")


if __name__ == "__main__":
    main(*sys.argv[1:])
