"""Brings work from a feature branch over an integration branch to main, takes some of it back, and merges again much later."""

from __future__ import annotations

from headwater import IcebergTable, Put
from headwater.embedded import CatalogHandle
from headwater.schemas.errors import HeadwaterError
from tests.simulation.world.environment import CATALOG, REALM, Environment

STEPS = (
    "put f", "merge f dev", "merge dev main", "put main", "end dev", "wait", "put main", "wait", "merge f main", "put f",
    "merge f main",
)  # fmt: skip
LEFT_OUT_SHARE = 0.12
LATER_SECONDS = 400.0


class Releaser:
    def __init__(self, env: Environment, name: str) -> None:
        self.name = name
        self._env = env
        self._chance = env.chance(name)

    def work(self) -> None:
        engine = self._env.open(cold=True)
        while not self._env.quiet:
            try:
                self._release(engine.realm(REALM).catalog(CATALOG))
            except HeadwaterError as error:
                self._env.happened[f"release {type(error).__name__}"] += 1
            self._env.scheduler.sleep(0.5)

    def is_done(self) -> bool:
        return True

    def check(self) -> None: ...

    def _release(self, lake: CatalogHandle) -> None:
        self._try(lambda: self._step(lake, "put main"))
        for name in ("f", "dev"):
            if self._chance.random() < 0.7:
                self._try(lambda name=name: lake.branch(name).delete())  # type: ignore[misc]
            self._try(lambda name=name: lake.create_branch(name, "main"))  # type: ignore[misc]
        for step in STEPS:
            if not self._env.quiet and self._chance.random() > LEFT_OUT_SHARE:
                self._try(lambda step=step: self._step(lake, step))  # type: ignore[misc]

    def _step(self, lake: CatalogHandle, step: str) -> None:
        match step.split():
            case ["put", branch]:
                value = self._chance.choice(("1", "2"))
                lake.branch(branch).commit([Put(("a",), IcebergTable(f"s3://{value}"))])
            case ["merge", source, target]:
                lake.merge(source, target)
                self._env.happened["release merged"] += 1
            case ["end", branch]:
                handle = lake.branch(branch)
                handle.delete() if self._chance.random() < 0.5 else handle.assign("main")
            case _:
                self._env.scheduler.sleep(3.0)
                if not self._env.quiet:
                    self._env.scheduler.skip(LATER_SECONDS)
                self._env.scheduler.sleep(3.0)

    def _try(self, step: object) -> None:
        try:
            step()  # type: ignore[operator]
        except HeadwaterError as error:
            self._env.happened[f"release {type(error).__name__}"] += 1
