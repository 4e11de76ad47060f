"""Makes, fills, drops and purges catalogs, and realms under one name; two of them meet in the same ones."""

from __future__ import annotations

from collections.abc import Callable

from headwater import IcebergTable, Put
from headwater.embedded import Headwater
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.publisher.topic_removal import PublishedTopics
from headwater.schemas.errors import HeadwaterError, RealmNotActive
from headwater.streaming.purge.purge import purge_all
from headwater.streaming.runs.runs import Runs
from tests.simulation.workers.publishers import OPTIONS
from tests.simulation.world.environment import CATALOG, GUEST, REALM, Environment

CATALOGS = ("trial-1", "trial-2")
META = CommitMeta("purger")


class Purger:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        self._filled_in_quiet = False

    def work(self) -> None:
        engine = self._env.open()
        while not (self._env.quiet and self._filled_in_quiet):
            self._env.scheduler.sleep(self._chance.choice((0.1, 0.3, 1.0)))
            steps = (self._fill_catalog, self._drop_catalog, self._purge, self._fill_realm, self._end_realm)
            step = self._fill_realm if self._env.quiet else self._chance.choices(steps, (6, 2, 4, 6, 1))[0]
            self._try(step, engine)

    def _try(self, step: Callable[[Headwater], None], engine: Headwater) -> None:
        try:
            step(engine)
            self._env.happened[f"purger {step.__name__}"] += 1
        except HeadwaterError as error:
            self._env.happened[f"purger {step.__name__} {type(error).__name__}"] += 1

    # ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────

    def _fill_catalog(self, engine: Headwater) -> None:
        lake = engine.realm(REALM).ensure_catalog(self._chance.choice(CATALOGS))
        lake.branch().commit([Put(("t",), IcebergTable(f"s3://{self._chance.random()}"))])

    def _drop_catalog(self, engine: Headwater) -> None:
        Catalogs(engine.realm(REALM).kernel).drop(self._chance.choice(CATALOGS), purge=True, meta=META)

    def _purge(self, engine: Headwater) -> None:
        runs = Runs(engine.store.backend, engine.store.clock)
        with runs.run("purge") as run:
            purge_all(engine.store, run, belongings=[PublishedTopics(engine.store, OPTIONS)], unlisted=False)

    # ── realms ──────────────────────────────────────────────────────────────────────────────────────────────

    def _fill_realm(self, engine: Headwater) -> None:
        realms = Realms(engine.store)
        status = next((realm.status for realm in realms.list() if realm.name == GUEST), None)
        match status:
            case RealmStatus.PURGED:
                realms.delete(GUEST)
            case RealmStatus.PURGING:
                self._purge(engine)
            case RealmStatus.CREATED | RealmStatus.INITIALIZING:
                realms.init(GUEST)
            case RealmStatus.INACTIVE:
                realms.activate(GUEST)
        try:
            lake = engine.ensure_realm(GUEST).ensure_catalog(CATALOG)
            lake.branch().commit([Put((self._chance.choice("ab"),), IcebergTable(f"s3://{self._chance.random()}"))])
        except RealmNotActive:  # a deactivation was cut short: the remedy of the error
            realms.activate(GUEST)
            raise
        self._filled_in_quiet = self._env.quiet

    def _end_realm(self, engine: Headwater) -> None:
        realms = Realms(engine.store)
        if realms.get(GUEST).status is RealmStatus.ACTIVE:
            realms.deactivate(GUEST)
        realms.purge(GUEST)
        self._env.happened["realm given up"] += 1

    def is_done(self) -> bool:
        return self._filled_in_quiet

    def check(self) -> None: ...
