"""A seed enters; a realm with a history leaves, its export and its import, and what both must have in common."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.backends.memory import MemoryBackend, MemoryStore
from headwater.persistence.log_entry import Logged, change_of
from headwater.persistence.realm_purge import rows_of
from headwater.persistence.rows import ObjectRow, Table
from headwater.persistence.store import Store
from headwater.schemas.change import Change, Value
from headwater.streaming.identifiers import Identifiers
from headwater.streaming.transfer.exporting import ExportOptions, ExportReport, export_realm
from headwater.streaming.transfer.importing import ImportOptions, ImportReport, import_realm
from tests.commit_harness import Write, checked_log, state_at, store_on
from tests.maintained import HOUR, MAIN, SLEEPY, Maintained
from tests.manual_clock import ManualClock
from tests.realm_cases import realms_of

NAME = "shop"
BIG = {"blob": "x" * 30_000}


def memory_backend() -> MemoryBackend:
    backend = MemoryBackend(MemoryStore())
    backend.create_schema()
    return backend


def new_realm(backend: Backend, clock: ManualClock, name: str = NAME, seed: int = 0) -> Maintained:
    """ACTIVE, with no history but that of its making."""
    with_realms = store_on(backend, clock=clock, retries=SLEEPY)
    realms_of(with_realms).create(name)
    instance = realms_of(with_realms).init(name).realm.instance
    realm = Maintained(backend, seed=seed, realm=instance, clock=clock)
    realm.pointers = realm.pointers[:3]
    return realm


def realm_with_history(backend: Backend, clock: ManualClock, name: str = NAME, seed: int = 0, steps: int = 40) -> Maintained:
    """Branches, tags, assigns, deletions, garbage, and an entry whose operations take several rows."""
    realm = new_realm(backend, clock, name, seed)
    write_big(realm)
    for _ in range(steps):
        realm.step()
    return realm


def write_big(realm: Maintained) -> Logged:
    puts: dict[str, Value] = {f"big-{number}": BIG for number in range(15)}
    return realm._land(MAIN, Write(puts=puts))


def export(store: Store, to: Path, name: str = NAME, **options: bool) -> ExportReport:
    return export_realm(store, name, to, Identifiers(), msgspec.convert(options, ExportOptions))


def load(store: Store, path: Path | str, name: str = "copy", **options: bool) -> ImportReport:
    return import_realm(store, Path(path), name, Identifiers(), msgspec.convert(options, ImportOptions))


def target(backend: Backend | None = None, *, after: ManualClock | None = None) -> Store:
    """A store whose clock is later than all that was exported."""
    clock = ManualClock()
    clock.micros = (after.micros if after else clock.micros) + HOUR * 1_000_000
    return store_on(backend or memory_backend(), clock=clock, retries=SLEEPY)


# ── what is the same ────────────────────────────────────────────────────────────────────────────────────────


def feeds(store: Store, instance: str) -> dict[str, list[Change]]:
    """Every pointer's changes from floor to head, each hash computed again, as if they were of one realm."""
    kernel = store_on(store.backend, clock=store.clock).kernel(instance)
    names = store.backend.list_names(instance, limit=10_000)
    rows = store.backend.read_pointers(instance, names)
    return {name: [change_of(logged, "any") for logged in checked_log(kernel, name)] for name, row in rows.items() if row.head}


def states(store: Store, instance: str, pointers: tuple[str, ...]) -> dict[tuple[str, int], dict[str, Value]]:
    kernel = store_on(store.backend, clock=store.clock).kernel(instance)
    return {
        (name, logged.entry.seq): state_at(kernel, logged)
        for name in pointers
        if store.backend.read_pointer(instance, name) is not None
        for logged in checked_log(kernel, name)
    }


def object_rows(backend: Backend, instance: str) -> dict[tuple[int, int], ObjectRow]:
    ids = {row.id for split in backend.splits(Table.OBJECTS, 3) for row in backend.scan(split, realm=instance)}
    found = backend.fetch_objects(instance, sorted(ids))
    return {(row.id, row.part): row for rows in found.values() for row in rows}


def is_empty(backend: Backend, instance: str) -> bool:
    return next(rows_of(backend, instance), None) is None


def check_same(source: Store, instance: str, copied: Store, report: ImportReport, *, garbage_too: bool = False) -> None:
    """Changes, states and rows; of the rows, what is reached or all of them."""
    assert feeds(copied, report.instance) == feeds(source, instance)
    pointers = tuple(feeds(source, instance))
    ours = tuple(name for name in pointers if name.startswith("cat/"))
    assert states(copied, report.instance, ours) == states(source, instance, ours)
    before, after = object_rows(source.backend, instance), object_rows(copied.backend, report.instance)
    assert after.items() <= before.items()
    assert not garbage_too or after == before
