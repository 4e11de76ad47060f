"""Raises floors, sweeps and exports at random, as `headwater maintain` does; two of them take over from each other."""

from __future__ import annotations

from headwater.embedded import Headwater
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import HeadwaterError, MaintenanceRunning
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.retained.retained_sources import WalkedSource
from headwater.streaming.runs.runs import Run, Runs
from headwater.streaming.sweep.executors import LocalExecutor
from headwater.streaming.sweep.sweep import GRACE_SECONDS_MIN, Sweep, SweepOptions
from headwater.streaming.transfer.export_pin import export_pin
from tests.simulation.promises import broken
from tests.simulation.world.environment import REALM, Environment

RULES = ("*=1n", "*=1n", "*=3n", "*=10n", "*=5m")
LONG_AGO_SECONDS = 60.0


class Maintainer:
    """One run after the other, each under the one lease that all runs share."""

    def __init__(
        self, env: Environment, name: str, works: tuple[float, float, float] = (5, 3, 3), supersedes: float = 0.5
    ) -> None:
        """`works`: how often it expires, sweeps and exports. `supersedes`: how often it takes over from one that runs."""
        self.name = name
        self._works = works
        self._supersedes = supersedes
        self._env = env
        self._chance = env.chance(name)

    def work(self) -> None:
        engine = self._env.open()
        while not self._env.quiet:
            self._env.scheduler.sleep(self._chance.choice((0.2, 0.5, 2.0)))
            try:
                self._one_run(engine, None)
            except MaintenanceRunning as running:
                self._maybe_supersede(engine, str(running.facts.get("run", "")))
            except HeadwaterError as error:
                self._env.happened[f"maintenance {type(error).__name__}"] += 1

    def is_done(self) -> bool:
        return True

    def check(self) -> None: ...

    def _maybe_supersede(self, engine: Headwater, run_id: str) -> None:
        if run_id and self._chance.random() < self._supersedes:
            try:
                self._one_run(engine, run_id)
                self._env.happened["superseded a run"] += 1
            except HeadwaterError as error:
                self._env.happened[f"maintenance {type(error).__name__}"] += 1

    def _one_run(self, engine: Headwater, supersede: str | None) -> None:
        work = self._chance.choices(("expire", "sweep", "export"), self._works)[0]
        instance = engine.realm(REALM).kernel.realm
        if work == "export":
            self._export(engine, instance, supersede)
        else:
            runs = Runs(engine.store.backend, engine.store.clock)
            with runs.run(work, supersede=supersede) as run:
                if work == "expire":
                    expire_realms(engine.store, run, [instance], parse_retention(self._chance.choice(RULES)))
                else:
                    self._sweep(engine, runs, run, instance)
        self._env.happened[f"{work} done"] += 1

    def _export(self, engine: Headwater, instance: str, supersede: str | None) -> None:
        """Only its pin: for as long as it reads, no floor may rise."""
        exports: dict[str, int] = self._env.shared.setdefault("exports", {})
        restores = self._env.model.restores
        with export_pin(engine.store, instance, supersede=supersede):
            exports[self.name] = restores
            try:
                self._env.scheduler.sleep(self._chance.choice((0.5, 3.0, 20.0)))
            finally:
                del exports[self.name]

    def _sweep(self, engine: Headwater, runs: Runs, run: Run, instance: str) -> None:
        known = Identifiers()
        backend = engine.store.backend
        options = SweepOptions(grace_seconds=GRACE_SECONDS_MIN, splits=2)
        Sweep(engine.store, WalkedSource(backend, known), LocalExecutor(backend), known, options).run(runs, run, [instance])


def check_floor(env: Environment, pointer: str, row: PointerRow) -> None:
    known: dict[str, int] = env.shared.get("exports", {})
    exports = [name for name, restores in known.items() if restores == env.model.restores]  # a restore takes the pin away
    if exports:
        broken(
            "superseded",
            f"{env.scheduler.process.name} raised the floor of {pointer} to {row.floor} while {sorted(exports)} exported",
        )
