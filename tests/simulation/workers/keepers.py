"""Keeps the tables topic, as `headwater publish --tables` does; two of them take over from each other."""

from __future__ import annotations

import msgspec

from headwater.consumers.views.live_views import TableState
from headwater.consumers.views.store_lookup import StoreLookup
from headwater.consumers.views.table_topic import TableTopicWriter
from headwater.producer.publisher.assignment.generations import Generations
from headwater.schemas.errors import HeadwaterError, ReferenceNotFound
from headwater.schemas.topics import tables_topic
from tests.simulation.promises import broken
from tests.simulation.world.environment import CATALOG, REALM, Environment

BRANCHES = ("main", "dev", "f")


class Keeper:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env

    def work(self) -> None:
        engine = self._env.open()
        generations = Generations(engine.store.backend, engine.store.clock)
        while True:
            try:
                kernel = engine.realm(REALM).kernel
                keeper = TableTopicWriter(
                    "simulated", kernel.realm, StoreLookup(kernel), begins=lambda realm=kernel.realm: generations.begins(realm)
                )
                keeper.run()
            except HeadwaterError as error:
                self._env.happened[f"keeper {type(error).__name__}"] += 1
            self._env.scheduler.sleep(1.0)

    # ── at the end ──────────────────────────────────────────────────────────────────────────────────────────

    def is_done(self) -> bool:
        return self._kept() == self._wanted()

    def check(self) -> None:
        kept, wanted = self._kept(), self._wanted()
        for pointer in kept.keys() | wanted.keys():
            if kept.get(pointer) != wanted.get(pointer):
                broken("tables", f"{pointer} is kept as {kept.get(pointer)} and is {wanted.get(pointer)}")

    def _kept(self) -> dict[str, dict[tuple[str, ...], str]]:
        topic = self._env.broker.topics.get(tables_topic(self._env.realm_instance))
        found: dict[str, dict[tuple[str, ...], str]] = {}
        for partition in topic.partitions if topic is not None else ():
            for record in partition.records:
                where = msgspec.json.decode(record.key or b"[]")
                if not record.is_committed or len(where) != 2:
                    continue
                state = found.setdefault(where[0], {})
                if record.value is None:
                    state.pop(tuple(where[1]), None)
                else:
                    kept = msgspec.json.decode(record.value, type=TableState)
                    state[tuple(where[1])] = str(kept.value["metadata_location"])
        return {pointer: state for pointer, state in found.items() if state}

    def _wanted(self) -> dict[str, dict[tuple[str, ...], str]]:
        engine = self._env.peek_engine()
        lake, found = engine.realm(REALM).catalog(CATALOG), {}
        for name in BRANCHES:
            try:
                state = {entry.key: entry.value["metadata_location"] for entry in lake.snapshot(name)}
                found[lake.branch(name).pointer] = state
            except ReferenceNotFound:
                continue
        return {pointer: state for pointer, state in found.items() if state}
