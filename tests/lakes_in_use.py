"""A store URL and a seed enter; realms with catalogs, every kind of history and garbage leave, and writers that go on.

Unlike `Maintained`, which moves pointers itself, this goes through the engine that users have: commits, branches from older
commits, assigns, merges, tags, dropped branches and catalogs, large commits; and objects that lost attempts have left behind.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections import Counter
from collections.abc import Iterator

import headwater
from headwater.embedded import CatalogHandle, Headwater
from headwater.persistence.log_entry import CONTENT, Content
from headwater.persistence.realm_objects import NewObject
from headwater.persistence.rows import ObjectRow, Table
from headwater.persistence.store import Store, StoreOptions, open_store
from headwater.producer.merging.three_way import Behavior
from headwater.schemas.errors import Conflict, CursorExpired
from headwater.streaming.catalog_purge import CatalogPurge
from headwater.streaming.expire import expire_realms
from headwater.streaming.policies import parse_retention
from headwater.streaming.runs import Runs
from tests.commit_harness import reachable_at, whole_log
from tests.maintained import HOUR, SLEEPY
from tests.manual_clock import SharedClock
from tests.realm_cases import realms_of

BRANCHES = ("dev", "fix", "try")
TABLES = 30
KINDS = ("commit", "large", "branch", "merge", "assign", "drop", "tag")
WEIGHTS = (10, 2, 3, 3, 2, 2, 1)


class LakesInUse:
    def __init__(self, url: str, *, seed: int, realms: int = 2) -> None:
        self.url = url
        self.clock = SharedClock()
        self.store = self.opened(create=True)
        self.engine = Headwater(self.store)
        self.chance = random.Random(seed)
        self.instances: list[str] = []
        for number in range(realms):
            # By chance: the clock gives every store the same creation ids, and topics are shared by all tests.
            name = f"realm-{number}-{secrets.token_hex(4)}"
            realms_of(self.store).create(name)
            realms_of(self.store).init(name)
            realm = self.engine.realm(name)
            self.instances.append(realm.kernel.realm)
            for catalog in ("lake", "old"):
                realm.ensure_catalog(catalog)

    def opened(self, *, create: bool = False) -> Store:
        """As another process has it, on the same clock."""
        return open_store(self.url, StoreOptions(retries=SLEEPY), create=create, clock=self.clock)

    def close(self) -> None:
        self.engine.close()

    def lake(self, instance: str, engine: Headwater | None = None, name: str = "lake") -> CatalogHandle:
        return (engine or self.engine).realm(instance.partition("#")[0]).catalog(name)

    # ── history ─────────────────────────────────────────────────────────────────────────────────────────────

    def grow(self, steps: int) -> None:
        """In each realm; at last one catalog of it is dropped."""
        for instance in self.instances:
            history = History(self.lake(instance), self.chance.random(), self.clock)
            old = self.lake(instance, name="old").branch()
            for number in range(3):  # so that there is something to branch from
                self.lake(instance).branch().commit([put(self.chance, number)])
            for number in range(steps):
                self.clock.move(HOUR)
                history.step()
                if number % 8 == 0:
                    old.commit([put(self.chance, number)])
                    self.abandon(instance)
            self.engine.realm(instance.partition("#")[0]).drop_catalog("old")
            assert history.done.keys() == set(KINDS), history.done

    def abandon(self, instance: str) -> None:
        """What an attempt that was lost has left behind."""
        (object_id,) = self.store.take(1)
        content = Content(b"0" * 16, "THING", {"lost": True})
        objects = self.store.kernel(instance).objects
        objects.write_strong([NewObject(CONTENT, object_id, content)], self.clock.now_micros())

    # ── maintenance ─────────────────────────────────────────────────────────────────────────────────────────

    def expire(self, rules: str) -> int:
        """Floors rise, and dropped catalogs go."""
        with Runs(self.store.backend, self.clock).run("expire") as run:
            reports = expire_realms(self.store, run, self.instances, parse_retention(rules))
        assert run.record.failures == []
        for instance in self.instances:
            CatalogPurge(self.store.kernel(instance), age_seconds=0).run()
        return sum(report.expired for report in reports)

    # ── truth ───────────────────────────────────────────────────────────────────────────────────────────────

    def kept(self, instance: str) -> dict[int, list[ObjectRow]]:
        """The rows, byte by byte, of all that some state from a floor to a head reaches; each state walked on its own."""
        with self.opened() as cold:
            kernel = cold.kernel(instance)
            names = cold.backend.list_names(instance)
            rows = cold.backend.read_pointers(instance, names)
            ids = {id for name in rows for logged in whole_log(kernel, name) for id in reachable_at(kernel, logged)}
            return cold.backend.fetch_objects(instance, sorted(ids))

    def types(self, instance: str) -> Counter[str]:
        backend = self.store.backend
        return Counter(row.type for split in backend.splits(Table.OBJECTS, 3) for row in backend.scan(split, realm=instance))

    def ids(self, instance: str) -> set[int]:
        backend = self.store.backend
        return {row.id for split in backend.splits(Table.OBJECTS, 3) for row in backend.scan(split, realm=instance)}


class History:
    """Of one catalog, by one writer. What is refused, because a base has expired or another writer was first, is counted."""

    def __init__(self, lake: CatalogHandle, seed: float, clock: SharedClock, own: str = "") -> None:
        self._lake = lake
        self._chance = random.Random(seed)
        self._clock = clock
        self._own = own
        self._live: set[str] = set()
        self._number = self._steps = 0
        self.done: Counter[str] = Counter()
        self.refused = 0

    def step(self) -> None:
        """First each kind once, then by chance."""
        kind = KINDS[self._steps] if self._steps < len(KINDS) else self._chance.choices(KINDS, WEIGHTS)[0]
        self._steps += 1
        try:
            getattr(self, f"_{kind}")()
        except (Conflict, CursorExpired):
            self.refused += 1

    def _did(self, kind: str) -> None:
        self.done[kind] += 1

    def _commit(self, count: int = 2, kind: str = "commit") -> None:
        self._number += 1
        branch = self._chance.choice(["main", *sorted(self._live)])
        puts = {operation.key: operation for operation in (put(self._chance, self._number) for _ in range(count))}
        self._lake.branch(branch).commit(list(puts.values()))
        self._did(kind)

    def _large(self) -> None:
        self._commit(25, "large")

    def _branch(self) -> None:
        name = self._own + self._chance.choice(BRANCHES)
        if name not in self._live:
            self._lake.create_branch(name, self._chance.choice(("main", "main~1", "main~2")))
            self._live.add(name)
            self._lake.branch(name).commit([put(self._chance, self._number)])
            self._did("branch")

    def _merge(self) -> None:
        if self._live:
            rules = headwater.MergeRules(default=Behavior.FORCE)
            self._lake.merge(self._chance.choice(sorted(self._live)), rules=rules)
            self._did("merge")

    def _assign(self) -> None:
        if self._live:
            self._lake.branch(self._chance.choice(sorted(self._live))).assign(self._chance.choice(("main", "main~1")))
            self._did("assign")

    def _drop(self) -> None:
        if self._live:
            name = self._chance.choice(sorted(self._live))
            self._lake.branch(name).delete()
            self._live.discard(name)
            self._did("drop")

    def _tag(self) -> None:
        self._number += 1
        self._lake.create_tag(f"{self._own}v{self._number}", "main")
        self._did("tag")


class Writers:
    """One thread for each realm, all in a store of their own: another process, as far as one process can be it."""

    def __init__(self, lakes: LakesInUse) -> None:
        self._store = lakes.opened()
        self._engine = Headwater(self._store)
        self._stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.histories = [
            History(lakes.lake(instance, self._engine), number, lakes.clock, own="w-")
            for number, instance in enumerate(lakes.instances)
        ]
        self._clock = lakes.clock
        self._threads = [threading.Thread(target=self._write, args=(history,)) for history in self.histories]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
        self._engine.close()

    def _write(self, history: History) -> None:
        try:
            while not self._stopping.is_set():
                history.step()
                self._clock.move(1)
                self._stopping.wait(0.02)  # a machine of two cores has to sweep beside it
        except BaseException as error:
            self.failures.append(error)


def put(chance: random.Random, number: int) -> headwater.Put:
    table = f"t{chance.randrange(TABLES)}"
    return headwater.Put((table,), headwater.IcebergTable(f"s3://lake/{table}/{number}.json", snapshot_id=number, schema_id=0))


def changed(before: Counter[str], after: Counter[str]) -> Iterator[tuple[str, int, int]]:
    for name, count in before.items():
        yield name, count, after[name]
