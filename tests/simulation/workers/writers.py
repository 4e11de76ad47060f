"""A writer commits, branches, merges, assigns and deletes at random, and repeats what it was not answered under the same id."""

from __future__ import annotations

import msgspec

from headwater import IcebergTable, Put
from headwater.embedded import CatalogHandle, Headwater
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.schemas.errors import CommitOutcomeUnknown, HeadwaterError, OutcomeUnknown, ReferenceNotFound, StoreUnavailable
from tests.simulation import defects
from tests.simulation.promises import broken
from tests.simulation.world.environment import CATALOG, REALM, Environment

BRANCHES = ("main", "dev", "f")
KEYS = ("a", "b")
VALUES = ("1", "2", "3")


class Request(msgspec.Struct, frozen=True):
    """A commit under an id of the caller's: sent again until it is answered, and sometimes after that."""

    branch: str
    key: str
    value: str
    request_id: str


class Writer:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)
        self._number = 0
        self._open: list[Request] = []
        """Not answered yet: kept on disk, so that the next process asks again."""
        self._answered: list[Request] = []
        self._last: CommitResult | None = None
        self._landed_in_quiet = False
        self.refused = 0

    # ── life ────────────────────────────────────────────────────────────────────────────────────────────────

    def work(self) -> None:
        engine = self._env.open()
        while True:
            try:
                lake = engine.realm(REALM).catalog(CATALOG)
                while not (self._env.quiet and self._landed_in_quiet):
                    self._turn(engine, lake)
                    self._env.scheduler.sleep(self._chance.choice((0.01, 0.1, 0.5)))
                return
            except (HeadwaterError, OutcomeUnknown) as error:
                self._refused(error)

    def is_done(self) -> bool:
        return self._landed_in_quiet and not self._open

    def check(self) -> None: ...

    # ── what it does ────────────────────────────────────────────────────────────────────────────────────────

    def _turn(self, engine: Headwater, lake: CatalogHandle) -> None:
        if self._env.quiet:
            for request in list(self._open):
                self._send(lake, request)
            self._send(lake, self._request("main"))
            self._landed_in_quiet = not self._open
            return
        step = self._chance.choices((self._put, self._again, self._create, self._merge, self._assign, self._delete), _WEIGHTS)[
            0
        ]
        try:
            step(lake)
        except ReferenceNotFound as error:
            self._refused(error)
            for name in BRANCHES[1:]:
                self._create_missing(lake, name)
        except HeadwaterError as error:
            self._refused(error)

    def _request(self, branch: str) -> Request:
        self._number += 1
        request_id = f"{self.name}-{self._number}"
        return Request(branch, self._chance.choice(KEYS), self._chance.choice(VALUES), request_id)

    def _put(self, lake: CatalogHandle) -> None:
        self._send(lake, self._request(self._chance.choice(BRANCHES)))

    def _again(self, lake: CatalogHandle) -> None:
        """What was not answered; or, of a client that does not know, what was answered long ago."""
        known = self._open or ([] if defects.is_open("h4") else self._answered)
        if known:
            self._send(lake, self._chance.choice(known))

    def _send(self, lake: CatalogHandle, request: Request) -> None:
        if request not in self._open and request not in self._answered:
            self._open.append(request)
        restores = self._env.model.restores
        try:
            handle = lake.branch(request.branch)
            operation = Put((request.key,), IcebergTable(f"s3://{request.value}"))
            result = handle.commit([operation], request_id=request.request_id)
        except CommitOutcomeUnknown as error:
            if "has expired" in error.message and request in self._open:  # the history that would tell is gone
                self._open.remove(request)
            raise
        except (OutcomeUnknown, StoreUnavailable):
            raise
        except HeadwaterError:
            if request in self._open:
                self._open.remove(request)
            raise
        if request in self._open:
            self._open.remove(request)
            self._answered.append(request)
        self._acknowledged(handle.pointer, result, restores)

    def _acknowledged(self, pointer: str, result: CommitResult, restores: int) -> None:
        model = self._env.model
        if result.change is None or model.restores != restores or (result.replayed and self._env.was_restored_just_now()):
            return
        if not model.is_in_log(self._env.realm_instance, pointer, result.change.seq, result.change.entry_id):
            broken("acknowledged", f"{self.name} was told of entry {result.change.seq} of {pointer}, which is not in the log")
        self._env.happened["acknowledged"] += 1

    def _create(self, lake: CatalogHandle) -> None:
        name, at = self._chance.sample(BRANCHES, 2)
        lake.create_branch(name, at)

    def _create_missing(self, lake: CatalogHandle, name: str) -> None:
        try:
            lake.create_branch(name, "main")
        except HeadwaterError as error:
            self._refused(error)

    def _merge(self, lake: CatalogHandle) -> None:
        source, target = self._chance.sample(BRANCHES, 2)
        restores = self._env.model.restores
        result = lake.merge(source, target)
        self._env.happened["merge"] += result.change is not None
        self._acknowledged(lake.branch(target).pointer, result, restores)

    def _assign(self, lake: CatalogHandle) -> None:
        name, at = self._chance.sample(BRANCHES, 2)
        if name != "main":
            lake.branch(name).assign(at)

    def _delete(self, lake: CatalogHandle) -> None:
        lake.branch(self._chance.choice(BRANCHES[1:])).delete()

    def _refused(self, error: HeadwaterError) -> None:
        self.refused += 1
        self._env.happened[f"refused {type(error).__name__}"] += 1
        self._env.scheduler.sleep(0.2)


_WEIGHTS = (12, 4, 3, 5, 1, 1)
