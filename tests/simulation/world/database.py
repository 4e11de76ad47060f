"""The simulated database: real rows of the memory backend, reached by each process through a connection that can fail."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from headwater.persistence.backend import Abilities, Backend, DeleteResult, Durability, Moves, MoveToken, ObjectKey
from headwater.persistence.backends.memory.memory_backend import MemoryBackend, MemoryStore
from headwater.persistence.backends.memory.memory_store import RowTable
from headwater.persistence.rows import MutableRow, ObjectRow, PointerRow, ScannedRow, Split, Table
from headwater.producer.publisher.assignment.generations import GENERATION_TYPE
from headwater.producer.publisher.shards.shard_pins import PIN_TYPE
from headwater.schemas.errors import OutcomeUnknown, StoreRestored, StoreUnavailable
from tests.simulation.runtime.scheduler import Process, Scheduler
from tests.simulation.runtime.virtual import VirtualClock
from tests.simulation.world.store_faults import Faults

T = TypeVar("T")
DOWN_SECONDS = 1.0


class RowObserver:
    """What checks see of every write, at the moment when it is applied."""

    def pointer_written(self, realm: str, name: str, before: PointerRow | None, after: PointerRow | None) -> None: ...

    def objects_written(self, realm: str, rows: Sequence[ObjectRow]) -> None: ...

    def objects_deleting(self, rows: Sequence[ScannedRow]) -> None: ...

    def mutable_written(self, realm: str, row: MutableRow) -> None: ...


class Database:
    """The server: what all processes share."""

    def __init__(self, scheduler: Scheduler, faults: Faults, *, in_two_steps: bool, seed: int) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.in_two_steps = in_two_steps
        self.memory = MemoryStore()
        self.memory.lock = _NoLock()  # type: ignore[assignment]
        self.sent_at: dict[tuple[str, str], int] = {}
        """When the newest write of each pointer was sent, by the clock of the process that sent it."""
        self.observer = RowObserver()
        self.in_flight: list[Callable[[], object]] = []
        """Writes whose callers know nothing of their fate, by the order in which they were sent."""
        self.restores = 0
        self.pins_read_at: dict[str, int] = {}
        """When each process looked for pins of publishers last."""
        self.published_since: int | None = None
        """When the first generation of any realm began."""
        self._network = Process("network")
        self._chance = random.Random(f"database {seed}")

    def peek(self) -> MemoryBackend:
        """A connection that sees all and never fails: for checks."""
        return MemoryBackend(self.memory, VirtualClock())

    def connect(self) -> Connection:
        return Connection(self)

    # ── backups ─────────────────────────────────────────────────────────────────────────────────────────────

    def backup(self) -> Any:
        return _copied(self.memory)

    def restore(self, backup: Any) -> None:
        """In place, under whoever is connected. Writes that are on their way are gone with the old server."""
        self.in_flight.clear()
        memory = _copied(backup)
        lock, writes = self.memory.lock, self.memory.writes
        vars(self.memory).update(vars(memory))
        self.memory.lock, self.memory.writes = lock, max(writes, memory.writes)
        self.restores += 1

    # ── calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def call(self, what: str, apply: Callable[[], T], *, is_write: bool) -> T:
        scheduler = self.scheduler
        scheduler.step(what)
        restores = self.restores
        fault = self.faults.draw(is_write=is_write)
        if fault:
            scheduler.trace.note(scheduler.steps, scheduler.now, scheduler.process.name, "", f"  fault: {fault} {what}")
        match fault:
            case "unavailable":
                raise StoreUnavailable(f"{what} was not sent.")
            case "unsent":
                raise OutcomeUnknown(f"the answer of {what} was lost.")
            case "lost":
                apply()
                raise OutcomeUnknown(f"the answer of {what} was lost.")
            case "late":
                self._later(apply)
                raise OutcomeUnknown(f"the answer of {what} is late.")
            case "slow":
                scheduler.sleep(self.faults.seconds())
                if self.restores != restores:  # connections of the old server are cut
                    raise OutcomeUnknown(f"{what}: the server went away.") if is_write else StoreUnavailable(what)
            case "twice":
                apply()
                scheduler.step(f"{what} sent again")
                if self.restores != restores:  # ⚠ nor does what a connection repeats reach another server
                    raise OutcomeUnknown(f"{what}: the server went away.")
        answer = apply()
        if is_write:
            scheduler.step()
        return answer

    def _later(self, apply: Callable[[], object]) -> None:
        def deliver() -> None:
            self.scheduler.sleep(self.faults.seconds())
            if landing in self.in_flight:
                self.in_flight.remove(landing)
                landing()

        def landing() -> None:
            with suppress(StoreRestored):  # nobody waits for the answer
                apply()

        self.in_flight.append(landing)
        self.scheduler.spawn(self._network, "late write", deliver)

    def settle(self) -> None:
        """Writes in flight land now: what a deciding read waits for."""
        waiting, self.in_flight = self.in_flight, []
        for apply in waiting:
            apply()


def _abilities(inner: Abilities, *, in_two_steps: bool) -> Abilities:
    """⚠ A store that writes objects and pointer in two steps says so: rows of lost attempts stay, and prove nothing."""
    return msgspec.structs.replace(inner, commits_in_one_transaction=not in_two_steps)


class Connection(Backend):
    """One process' backend."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._inner = database.peek()
        self._clock = VirtualClock()
        self._known_copy = database.restores
        self.name = "simulated"
        self.abilities = _abilities(self._inner.abilities, in_two_steps=database.in_two_steps)
        self.schema_version = self._inner.schema_version

    def _read(self, what: str, apply: Callable[[], T]) -> T:
        return self._database.call(what, apply, is_write=False)

    def _write(self, what: str, apply: Callable[[], T], *, of: str = "") -> T:
        def guarded() -> T:
            self._check_copy(of)
            return apply()

        return self._database.call(what, guarded, is_write=True)

    def _check_copy(self, of: str) -> None:
        """⚠ As SQLite does in each transaction and PostgreSQL on each new session: the first write into other data is refused,
        whichever thread of the process sends it."""
        if self._database.in_two_steps:
            return
        known, self._known_copy = self._known_copy, self._database.restores
        if known != self._known_copy or (of and of != self.data_identity()):
            raise StoreRestored("the simulated database holds another copy of the data than before; nothing was changed.")

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def create_schema(self) -> None:
        self._inner.create_schema()

    def check_schema(self) -> None:
        self._inner.check_schema()

    def durability(self) -> Durability:
        return self._inner.durability()

    def data_identity(self) -> str:
        """PostgreSQL and SQLite can tell that the data are another copy, Cassandra cannot."""
        return "" if self._database.in_two_steps else str(self._database.restores)

    def close(self) -> None: ...

    # ── pointers ────────────────────────────────────────────────────────────────────────────────────────────

    def reserve_pointer(self, realm: str, name: str, row: PointerRow) -> bool:
        return self._move(f"reserve {name}", realm, name, lambda: self._inner.reserve_pointer(realm, name, row))

    def read_pointer(self, realm: str, name: str, *, decide: bool = False) -> PointerRow | None:
        def read() -> PointerRow | None:
            if decide:
                self._database.settle()
            return self._inner.read_pointer(realm, name, decide=decide)

        return self._read(f"{'decide' if decide else 'read'} {name}", read)

    def read_pointers(self, realm: str, names: Sequence[str]) -> dict[str, PointerRow]:
        return self._read(f"read {len(names)} pointers", lambda: self._inner.read_pointers(realm, names))

    def cas_pointer(self, realm: str, name: str, *args: Any, **kwargs: Any) -> bool:
        what = f"cas {name} at {args[0].version}"
        return self._move(what, realm, name, lambda: self._inner.cas_pointer(realm, name, *args, **kwargs))

    def delete_pointer(self, realm: str, name: str, *args: Any, **kwargs: Any) -> bool:
        return self._move(f"delete {name}", realm, name, lambda: self._inner.delete_pointer(realm, name, *args, **kwargs))

    def commit(self, realm: str, name: str, *args: Any, of: str = "") -> bool:
        *condition, objects = args
        if self._database.in_two_steps:
            self.write_objects(realm, objects)
            return self.cas_pointer(realm, name, *condition)

        def apply() -> bool:
            landed = self._inner.commit(realm, name, *args)
            if landed:
                self._database.observer.objects_written(realm, objects)
            return landed

        return self._move(f"commit {name} at {args[0].version}", realm, name, apply, of=of)

    def _move(self, what: str, realm: str, name: str, apply: Callable[[], bool], *, of: str = "") -> bool:
        database, sent_at = self._database, self._clock.now_micros()

        def write() -> bool:
            before = self._inner.read_pointer(realm, name)
            landed = apply()
            after = self._inner.read_pointer(realm, name)
            if landed:
                database.sent_at[realm, name] = sent_at
                database.observer.pointer_written(realm, name, before, after)
            return landed

        return self._write(what, write, of=of)

    def moves_since(self, realm: str, token: MoveToken | None) -> Moves:
        return self._read("moves", lambda: self._inner.moves_since(realm, token))

    # ── names and objects ───────────────────────────────────────────────────────────────────────────────────

    def add_name(self, realm: str, name: str) -> None:
        self._write(f"name {name}", lambda: self._inner.add_name(realm, name))

    def list_names(self, realm: str, *, prefix: str = "", after: str = "", limit: int = 1_000) -> list[str]:
        return self._read("list names", lambda: self._inner.list_names(realm, prefix=prefix, after=after, limit=limit))

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        def apply() -> None:
            self._inner.write_objects(realm, rows)
            self._database.observer.objects_written(realm, rows)

        self._write(f"write {len(rows)} objects", apply)

    def fetch_objects(self, realm: str, ids: Sequence[int]) -> dict[int, list[ObjectRow]]:
        return self._read(f"fetch {len(ids)} objects", lambda: self._inner.fetch_objects(realm, ids))

    def remove_objects(self, realm: str, keys: Sequence[ObjectKey]) -> None:
        def apply() -> None:
            going = [ScannedRow(Table.OBJECTS, realm, "", "", object_id, part, 0, 0) for object_id, part in keys]
            self._database.observer.objects_deleting(going)
            self._inner.remove_objects(realm, keys)

        self._write(f"remove {len(keys)} objects", apply)

    # ── mutable rows ────────────────────────────────────────────────────────────────────────────────────────

    def insert_mutable(self, realm: str, row: MutableRow) -> bool:
        return self._put(f"insert {row.type} {row.key}", realm, row, lambda: self._inner.insert_mutable(realm, row))

    def read_mutable(self, realm: str, type: str, key: str) -> MutableRow | None:
        return self._read(f"read {type} {key}", lambda: self._inner.read_mutable(realm, type, key))

    def update_mutable(self, realm: str, expected: MutableRow, row: MutableRow) -> bool:
        what = f"update {row.type} {row.key}"
        return self._put(what, realm, row, lambda: self._inner.update_mutable(realm, expected, row))

    def _put(self, what: str, realm: str, row: MutableRow, apply: Callable[[], bool]) -> bool:
        def write() -> bool:
            database = self._database
            landed = apply()
            if landed:
                database.observer.mutable_written(realm, row)
            if landed and row.type == GENERATION_TYPE and database.published_since is None:
                database.published_since = database.scheduler.now
            return landed

        return self._write(what, write)

    def delete_mutable(self, realm: str, expected: MutableRow) -> bool:
        return self._write(f"delete {expected.type} {expected.key}", lambda: self._inner.delete_mutable(realm, expected))

    def list_mutable(self, realm: str, type: str, *, after: str = "", limit: int = 1_000) -> list[MutableRow]:
        if type == PIN_TYPE:
            self._database.pins_read_at[self._database.scheduler.process.name] = self._database.scheduler.now
        return self._read(f"list {type}", lambda: self._inner.list_mutable(realm, type, after=after, limit=limit))

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def splits(self, table: Table, count: int) -> list[Split]:
        return self._inner.splits(table, count)

    def scan(self, split: Split, *, realm: str | None = None) -> Iterator[ScannedRow]:
        rows = self._read(f"scan {split.table.value}", lambda: list(self._inner.scan(split, realm=realm)))
        return iter(rows)

    def delete_scanned(self, rows: Sequence[ScannedRow], *, of: str = "") -> DeleteResult:
        def apply() -> DeleteResult:
            self._database.observer.objects_deleting(rows)
            return self._inner.delete_scanned(rows)

        return self._write(f"delete {len(rows)} rows", apply, of=of)

    def delete_realms(self, realms: Sequence[str], *, of: str = "") -> None:
        self._write(f"delete realms {realms}", lambda: self._inner.delete_realms(realms), of=of)


class _NoLock:
    """One task runs at a time: nothing to guard."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _copied(memory: MemoryStore) -> MemoryStore:
    """Rows are immutable; the tables around them are copied."""
    copied = MemoryStore()
    for name, value in vars(memory).items():
        if isinstance(value, RowTable):
            table: RowTable[Any] = RowTable()
            table.buckets = [{key: dict(parts) for key, parts in bucket.items()} for bucket in value.buckets]
            setattr(copied, name, table)
        elif name != "lock":
            setattr(copied, name, copy.deepcopy(value))
    return copied
