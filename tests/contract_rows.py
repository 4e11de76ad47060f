"""Rows for tests of backends: short to write, every column different from its default; and threads whose faults are seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headwater.persistence.backend import Backend
from headwater.persistence.rows import Anchor, ObjectRow, PointerRow, RootedRow, ScannedRow, Table
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable

T = TypeVar("T")

RESOLVE_SECONDS_MAX = 60.0


def pointer(version: int = 1, head: bytes = b"\x01" * 32, seq: int = 0) -> PointerRow:
    return PointerRow(
        head=head,
        seq=seq,
        floor=version + 2,
        fence=version + 3,
        version=version,
        anchor=Anchor(bytes(range(32)), 2**52 + version),
        created_at=1_767_225_600_000_001,
    )


def rooted(key: str, version: int = 1, type: str = "lease", payload: bytes = b"payload") -> RootedRow:
    return RootedRow(
        type=type, key=key, version=version, created_at=1_767_225_600_000_002, expires_at=2**52 + version, payload=payload
    )


def an_object(object_id: int, payload: bytes = b"content", part: int = 0, parts: int = 1, type: str = "note") -> ObjectRow:
    return ObjectRow(object_id, type, 1_767_225_600_000_003 + object_id % 1_000, payload, part, parts)


def scan_all(backend: Backend, table: Table, realm: str | None, count: int = 4) -> list[ScannedRow]:
    return [row for split in backend.splits(table, count) for row in backend.scan(split, realm=realm)]


def in_threads(works: Sequence[Callable[[], T]]) -> list[T]:
    """All at once, from one starting shot; the first fault is raised here."""
    start = threading.Barrier(len(works))

    def run(work: Callable[[], T]) -> T:
        start.wait(60)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        futures = [pool.submit(run, work) for work in works]
        return [future.result(120) for future in futures]


def patiently(write: Callable[[], T]) -> T:
    """For writes whose repetition is harmless: contention may time out, and then the write is sent again."""
    deadline = time.monotonic() + RESOLVE_SECONDS_MAX
    while True:
        try:
            return write()
        except (StoreUnavailable, OutcomeUnknown):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def cas_resolved(backend: Backend, realm: str, name: str, expected_version: int, row: PointerRow) -> bool:
    """A CAS whose unknown outcome is resolved as the SPI says: the identical one again, until the row has moved on.

    `row.head` must be unique, and nobody may move the pointer a second time before this returns."""
    deadline = time.monotonic() + RESOLVE_SECONDS_MAX
    unknown = False
    while time.monotonic() < deadline:
        try:
            applied = backend.cas_pointer(realm, name, expected_version, row)
        except OutcomeUnknown:
            unknown = True
        except StoreUnavailable:
            time.sleep(0.01)
            continue
        else:
            if applied or not unknown:
                return applied
        there = patiently(lambda: backend.read_pointer(realm, name, decide=True))
        assert there is not None
        if there.version > expected_version:
            return there == row
        time.sleep(0.01)
    raise AssertionError(f"the outcome of a CAS on {name} stayed unknown for {RESOLVE_SECONDS_MAX} s")


def keys_of(rows: Sequence[ScannedRow]) -> list[tuple[str, str, str, int, int]]:
    return sorted((row.realm, row.type, row.key, row.id, row.part) for row in rows)
