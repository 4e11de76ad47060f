"""Writes a quarter's history in a second, with a clock that is set back.

It contains what such a period leaves: states that are no longer needed, merged branches, dropped tables, and objects of
writers that died before their commit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from headwater.demo.workload import table
from headwater.demo.writer import CATALOG, REALM
from headwater.embedded import CatalogHandle, open_embedded
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.log.log_entry import CONTENT, Content
from headwater.persistence.objects.realm_objects import NewObject
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.commits.operations import CatalogOperation, Delete, Put
from headwater.producer.content.content_types import Namespace
from headwater.schemas.change import KeyPath

PAST_FILE = "past.db"
DAYS = 90
DAY_MICROS = 86_400_000_000


class BackdatedClock:
    """Runs like the real clock, this many days behind it; each `next_day` reduces the distance."""

    def __init__(self, days_behind: int, clock: Clock | None = None) -> None:
        self.days_behind = days_behind
        self._clock = clock or SystemClock()

    def now_micros(self) -> int:
        return self._clock.now_micros() - self.days_behind * DAY_MICROS

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def next_day(self) -> None:
        self.days_behind -= 1


class BackdatedHistory(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    instance: str
    days: int
    changes: int
    abandoned: list[int]
    """Objects that no commit ever named."""


def write_backdated_history(
    folder: Path,
    *,
    days: int = DAYS,
    file: str = PAST_FILE,
    at_first: Callable[[Store, str], None] = lambda _store, _realm: None,
) -> BackdatedHistory:
    """`at_first` sees the realm before its history begins."""
    url = f"sqlite:///{folder / file}"
    clock = BackdatedClock(days)
    with open_embedded(url, create=True, clock=clock) as engine:
        lake = engine.ensure_realm(REALM).ensure_catalog(CATALOG)
        kernel = lake.realm.kernel
        at_first(engine.store, kernel.realm)
        author = _Author(lake)
        abandoned: list[int] = []
        for day in range(days):
            clock.next_day()
            author.work(day)
            if day % 4 == 0 and day < days - 1:  # what is as young as today's objects stays for a while in any case
                abandoned.append(_abandon(kernel, day))
        rows = kernel.store.backend.read_pointers(kernel.realm, kernel.store.backend.list_names(kernel.realm))
    changes = sum(row.seq for row in rows.values())
    return BackdatedHistory(url=url, instance=kernel.realm, days=days, changes=changes, abandoned=abandoned)


class _Author:
    """Creates, evolves and drops tables, and occasionally works on a branch."""

    def __init__(self, lake: CatalogHandle) -> None:
        self._lake = lake
        self._tables: dict[KeyPath, int] = {}
        lake.branch().commit([Put(("sales",), Namespace())], author="past", message="Set up")

    def work(self, day: int) -> None:
        if day % 3 == 0:
            self._put(("sales", f"orders_{day:02d}"))
        for turn in range(2):
            self._put(self._pick(day + turn))
        if day % 9 == 8:
            oldest = min(self._tables)
            del self._tables[oldest]
            self._lake.branch().commit([Delete(oldest)], author="past", message="Drop what is old")
        if day % 15 == 10:
            self._on_a_branch(f"fix-{day}", day)

    def _put(self, key: KeyPath) -> None:
        self._lake.branch().commit([self._next(key)], author="past", message=f"Write {key[-1]}")

    def _on_a_branch(self, name: str, day: int) -> None:
        branch = self._lake.create_branch(name, author="past")
        branch.commit([self._next(self._pick(day))], author="past", message="Mend it")
        branch.commit([self._next(self._pick(day + 1))], author="past", message="And the other")
        self._lake.merge(name, author="past")
        branch.delete(author="past")

    def _next(self, key: KeyPath) -> CatalogOperation:
        self._tables[key] = self._tables.get(key, 0) + 1
        return Put(key, table(key, self._tables[key]))

    def _pick(self, number: int) -> KeyPath:
        keys = sorted(self._tables)
        return keys[number * 7 % len(keys)]


def _abandon(kernel: RealmKernel, day: int) -> int:
    """Objects of a writer that died before its commit."""
    (object_id,) = kernel.store.take(1)
    content = Content(day.to_bytes(16, "big"), "ICEBERG_TABLE", {"metadata_location": f"s3://lake/never/{day}.json"})
    kernel.objects.write_strong([NewObject(CONTENT, object_id, content)], kernel.store.clock.now_micros())
    return object_id
