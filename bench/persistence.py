"""Measures each backend: compare-and-swaps, object writes and reads, and scanned rows per second."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator

from bench.context import Context
from bench.measures import Measure, rate, rate_in_threads
from bench.stores import fresh_store
from headwater.persistence.backend import Backend
from headwater.persistence.rows import ObjectRow, PointerRow, Table

TITLE = "Persistence: objects of 1 kB in batches of 200"
REALM = "bench@1"
THREADS = 8
BATCH = 200
COMMIT_OBJECTS = 3
OBJECT_BYTES = 1_000


def run(context: Context) -> Iterator[Measure]:
    for kind in context.kinds:
        with fresh_store(kind, context.console) as backend, context.console.status(f"measuring {kind} …"):
            for name, value, unit in _measure(backend, context.seconds):
                yield Measure("persistence", kind, name, value, unit)


def _measure(backend: Backend, seconds: float) -> Iterator[tuple[str, float, str]]:
    ids = itertools.count(1)
    yield "CAS", rate(_cas(backend, "one"), seconds), "/s, 1 thread"
    works = [_cas(backend, f"many-{n}") for n in range(THREADS)]
    yield "CAS", rate_in_threads(works, seconds), f"/s, {THREADS} threads"
    yield "commit", rate(_commit(backend, ids), seconds), f"/s, {COMMIT_OBJECTS} objects each"
    written: list[int] = []
    yield "write", rate(_write(backend, ids, written), seconds), "objects/s"
    works = [_write(backend, ids, written) for _ in range(THREADS)]
    yield "write", rate_in_threads(works, seconds), f"objects/s, {THREADS} threads"
    yield "read", rate(_read(backend, written), seconds), "objects/s"
    yield "read", rate_in_threads([_read(backend, written) for _ in range(THREADS)], seconds), f"objects/s, {THREADS} threads"
    yield "scan", rate(lambda: _scan(backend), seconds), "rows/s"


def _cas(backend: Backend, name: str) -> Callable[[], int]:
    backend.add_name(REALM, name)
    row = PointerRow(created_at=1)
    backend.reserve_pointer(REALM, name, row)

    def move() -> int:
        nonlocal row
        row, before = _next(row), row
        if not backend.cas_pointer(REALM, name, before, row):
            raise AssertionError(f"a CAS that nobody contended for was lost at version {before.version}")
        return 1

    return move


def _commit(backend: Backend, ids: Iterator[int]) -> Callable[[], int]:
    row = PointerRow(created_at=1)
    backend.reserve_pointer(REALM, "commits", row)

    def commit() -> int:
        nonlocal row
        row, before = _next(row), row
        objects = [_object(next(ids)) for _ in range(COMMIT_OBJECTS)]
        if not backend.commit(REALM, "commits", before, row, objects):
            raise AssertionError(f"a commit that nobody contended for was lost at version {before.version}")
        return 1

    return commit


def _next(row: PointerRow) -> PointerRow:
    return PointerRow(head=secrets.token_bytes(32), seq=row.version, version=row.version + 1, created_at=1)


def _write(backend: Backend, ids: Iterator[int], written: list[int]) -> Callable[[], int]:
    def write() -> int:
        rows = [_object(next(ids)) for _ in range(BATCH)]
        backend.write_objects(REALM, rows)
        written.extend(row.id for row in rows)
        return len(rows)

    return write


def _read(backend: Backend, written: list[int]) -> Callable[[], int]:
    """Ids from all over, as a cold index or a walk of the log asks for them."""
    starts = itertools.count(secrets.randbelow(1_000))

    def read() -> int:
        start = next(starts) * 7_919
        wanted = {written[(start + n * 104_729) % len(written)] for n in range(BATCH)}
        found = backend.fetch_objects(REALM, list(wanted))
        if len(found) != len(wanted):
            raise AssertionError(f"{len(wanted) - len(found)} written objects were not found")
        return len(found)

    return read


def _scan(backend: Backend) -> int:
    return sum(1 for split in backend.splits(Table.OBJECTS, 4) for _ in backend.scan(split))


def _object(number: int) -> ObjectRow:
    """Ids shaped like real ones: some per millisecond, of one node."""
    return ObjectRow((53_000_000_000 + number // 3 << 22) | 17 << 12 | number % 3 + 1, "bench", 1, _PAYLOAD)


_PAYLOAD = secrets.token_bytes(OBJECT_BYTES)
