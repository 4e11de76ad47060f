"""Measures the directory of ids in a large catalog: the first walk, the checkpoint, a restart from it, and look-ups.

What is compared is what calls by name and by id do in the store; the wire is the same for both.
"""

from __future__ import annotations

import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

from bench.bulk_load import load_tables, table_key
from bench.context import Context
from bench.large_store import REALM
from bench.measures import Measure
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel, open_store
from headwater.producer.content.snapshots import Snapshots
from headwater.service.directory.catalog_directory import CatalogDirectory, DirectoryOptions

TITLE = "Directory of ids"
POINTER = "cat/1/heads/main"
LOOKUPS = 2_000
BYTES_IN_KIB = 1_024


def run(context: Context) -> Iterator[Measure]:
    if "sqlite" not in context.kinds:
        return
    for tables in context.tables:
        with tempfile.TemporaryDirectory() as folder:
            yield from _measured(f"sqlite:///{folder}/lake.db", tables)


def _measured(url: str, tables: int) -> Iterator[Measure]:
    def measure(name: str, unit: str, value: float) -> Measure:
        return Measure("directory", f"sqlite, {tables:,} tables", name, value, unit)

    with open_store(url, create=True) as store:
        kernel = store.kernel(REALM)
        _reserve(kernel)
        load_tables(kernel, POINTER, tables)
    with open_store(url) as store:
        kernel = store.kernel(REALM)
        first, at = _directory(kernel), _head(kernel)
        yield measure("walked once, without a checkpoint", "s", _seconds(lambda: first.cover(at)))
        yield measure("checkpoint written", "s", _seconds(first.save))
        yield measure("memory of an id and its key", "bytes", first.size_bytes / (tables + 100))
    with open_store(url) as store:
        kernel = store.kernel(REALM)
        again, at = _directory(kernel), _head(kernel)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield measure("ready from the checkpoint", "s", _seconds(lambda: again.cover(at)))
        yield measure("peak of memory beyond that", "MiB", _mebibytes(before))
        if again.walks:
            raise AssertionError("a restart walked the keys")
        snapshots, chance = Snapshots(kernel, 1), random.Random(1)
        numbers = [chance.randrange(tables) for _ in range(LOOKUPS)]
        for _ in range(2):  # the first round fills the cache of the index, for both alike
            by_name = _seconds(lambda: [snapshots.get(at, [table_key(one)]) for one in numbers])
            by_id = _seconds(lambda: [_found(again, at, one) for one in numbers])
        yield measure("by name", "µs", 1e6 * by_name / LOOKUPS)
        yield measure("by id", "µs", 1e6 * by_id / LOOKUPS)
        yield measure("by id against by name", "× time", by_id / by_name)


def _found(directory: CatalogDirectory, at: LogRecord, number: int) -> None:
    found = directory.find(at, b"t%015d" % number)
    if found is None or found.key != table_key(number):
        raise AssertionError(f"table {number} was not found by its id")


def _reserve(kernel: RealmKernel) -> None:
    backend = kernel.store.backend
    backend.add_name(kernel.realm, POINTER)
    backend.reserve_pointer(kernel.realm, POINTER, PointerRow(created_at=kernel.store.clock.now_micros()))


def _head(kernel: RealmKernel) -> LogRecord:
    row = kernel.read_pointer(POINTER)
    if row is None:
        raise AssertionError("the branch was not loaded")
    return kernel.walk.header(row.head)


def _directory(kernel: RealmKernel) -> CatalogDirectory:
    return CatalogDirectory(kernel, 1, DirectoryOptions(), threading.Event().is_set)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _mebibytes(before: int) -> float:
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / BYTES_IN_KIB
