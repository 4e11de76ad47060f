"""The world of one run: database, model, workers and their processes, and what the plan does to them."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from headwater.embedded import Headwater
from headwater.persistence.commit.retries import RetryPolicy
from headwater.persistence.coordination.restored_store import announce_restored
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store, StoreOptions
from headwater.schemas.errors import HeadwaterError
from tests.simulation.checks.log_checks import LogChecks
from tests.simulation.plan import Event, Plan
from tests.simulation.promises import broken
from tests.simulation.runtime.scheduler import Process, Scheduler
from tests.simulation.runtime.trace import Trace
from tests.simulation.runtime.virtual import VirtualClock
from tests.simulation.world import confluent
from tests.simulation.world.broker import Broker
from tests.simulation.world.database import Database
from tests.simulation.world.kafka_events import kafka_events
from tests.simulation.world.model import Model
from tests.simulation.world.store_faults import Faults

REALM = "default"
GUEST = "guest"
"""A realm that is purged and re-created."""
CATALOG = "lake"
RESTART_SECONDS = 1.0
NOTICED_SECONDS = 10.0
QUIET_SECONDS_MAX = 120.0
OPTIONS = StoreOptions(
    poll_seconds=0.5,
    retries=RetryPolicy(attempts_max=50, seconds_max=60.0, decide_seconds_max=5.0),
)
COLD = msgspec.structs.replace(OPTIONS, cache_bytes=0)


class Worker(Protocol):
    name: str

    def work(self) -> None:
        """In its process, until it is killed. What must outlive that is kept in the worker: its disk."""

    def is_done(self) -> bool:
        """When all faults have ended: whether it has got through."""

    def check(self) -> None:
        """When all have got through: whether it kept its promises."""


class Environment:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.trace = Trace()
        self.scheduler = Scheduler(plan.seed, self.trace)
        self.faults = Faults(plan.rates, plan.seed, "store")
        self.database = Database(self.scheduler, self.faults, in_two_steps=plan.in_two_steps, seed=plan.seed)
        self.kafka_faults = Faults(plan.kafka_rates, plan.seed, "kafka")
        self.broker = Broker(self.scheduler, self.kafka_faults)
        confluent.use(self.broker)
        self.model = Model()
        self.log_checks = LogChecks(self.database, self.model)
        self.database.observer = self.log_checks
        self.folder = Path(tempfile.mkdtemp(prefix="headwater-simulation-"))
        self.workers: dict[str, Worker] = {}
        self.processes: dict[str, Process] = {}
        self.quiet = False
        """All faults have ended: everybody must get through now."""
        self.happened: Counter[str] = Counter()
        self.realm_instance = ""
        self.shared: dict[str, Any] = {}
        """What workers keep together."""
        self.handlers: dict[str, Callable[[Event], None]] = {
            "kill": lambda event: self.kill(event.target),
            "pause": self._pause,
            "clock": self._clock,
            "skip": lambda event: self.scheduler.skip(event.seconds),
            "backup": lambda event: self.backup(),
            "restore": lambda event: self.restore(),
            **kafka_events(self),
        }
        self._backup: Any = None
        self._restored_at = -(2**62)
        self._events = list(plan.events)

    def chance(self, what: str) -> random.Random:
        return random.Random(f"{what} {self.plan.seed}")

    def note(self, what: str) -> None:
        self.trace.note(self.scheduler.steps, self.scheduler.now, "world", "", what)

    def instance_of(self, realm: str) -> str:
        """What the name means now; empty while it means nothing."""
        if realm == REALM:
            return self.realm_instance
        listed = Realms(Store(self.database.peek(), COLD, VirtualClock())).list()
        return next((one.instance for one in listed if one.name == realm and one.status is RealmStatus.ACTIVE), "")

    def peek_engine(self) -> Headwater:
        """Sees all, caches nothing, never fails: for checks."""
        return Headwater(Store(self.database.peek(), COLD, VirtualClock()))

    # ── processes ───────────────────────────────────────────────────────────────────────────────────────────

    def open(self, *, cold: bool = False) -> Headwater:
        """What a process does first. Each has a store, a cache and threads of its own; a cold one keeps nothing."""
        options = COLD if cold or self.scheduler.steps % 2 else OPTIONS
        store = Store(self.database.connect(), options, VirtualClock())
        while True:
            try:
                _ = store.incarnation  # as `open_store` does
                return Headwater(store)
            except HeadwaterError:
                self.scheduler.sleep(0.2)

    def start(self, name: str, *, after_seconds: float = 0.0) -> None:
        process = Process(name)
        before = self.processes.get(name)
        if before is not None:
            process.skew_micros = before.skew_micros
        self.processes[name] = process
        process.speed = self.chance(f"speed {name}").choice((0.2, 1.0, 1.0, 3.0))
        process.paused_until = self.scheduler.now + int(after_seconds * 1e6)
        self.scheduler.spawn(process, "main", self.workers[name].work)

    def kill(self, name: str) -> None:
        if name in self.processes:
            self.scheduler.kill(self.processes[name])
            self.start(name, after_seconds=RESTART_SECONDS)

    # ── the plan ────────────────────────────────────────────────────────────────────────────────────────────

    def before_step(self) -> None:
        while self._events and self._events[0].step <= self.scheduler.steps and not self.quiet:
            event = self._events.pop(0)
            self.happened[event.kind] += 1
            self.note(f"EVENT {event.kind} {event.target} {event.seconds or ''}")
            self.handlers[event.kind](event)

    def _pause(self, event: Event) -> None:
        if event.target in self.processes:
            self.processes[event.target].paused_until = self.scheduler.now + int(event.seconds * 1e6)

    def _clock(self, event: Event) -> None:
        if event.target in self.processes:
            self.processes[event.target].skew_micros = int(event.seconds * 1e6)

    def backup(self) -> None:
        self._backup = (self.database.backup(), self.model.backup())

    def restore(self) -> None:
        """As docs/backup.md says: in place under those who run, or, where the database cannot tell that its data were put back
        (Cassandra), with all of them stopped and `store restored` before they start."""
        if self._backup is None:
            return
        if self.plan.in_two_steps:
            for name in self.workers:
                self.kill(name)
        self.database.restore(self._backup[0])
        self.model.restore(self._backup[1])
        self._restored_at = self.scheduler.now
        if self.plan.in_two_steps:
            announce_restored(self.database.peek(), VirtualClock(), "simulated")

    def was_restored_just_now(self) -> bool:
        """Processes that run notice a restore within seconds: until then they may repeat what they remember."""
        return self.scheduler.now - self._restored_at < NOTICED_SECONDS * 1_000_000

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    def oversee(self) -> None:
        """Runs in a process of its own: begins, waits until the steps are used up, ends all faults, and judges."""
        self._set_up()
        first = self.scheduler.steps
        for name in self.workers:
            self.start(name)
        while self.scheduler.steps - first < self.plan.steps:
            self.scheduler.sleep(0.5)
        self.quiet, self.faults.off, self.kafka_faults.off = True, True, True
        self.broker.down_until = 0
        self.note("QUIET: all faults have ended")
        for process in self.processes.values():
            process.paused_until = min(process.paused_until, self.scheduler.now)
            process.speed = 1.0
        deadline = self.scheduler.now + int(QUIET_SECONDS_MAX * 1e6)
        while waiting := [name for name, worker in self.workers.items() if not worker.is_done()]:
            if self.scheduler.now > deadline:
                self._first_check(waiting)
                broken("goes-on", f"{waiting} did not get through in {QUIET_SECONDS_MAX:g} s without faults")
                break
            self.scheduler.sleep(1.0)
        for worker in self.workers.values():
            worker.check()
        self.log_checks.kept_states(self.realm_instance)
        self.scheduler.stop()

    def _first_check(self, names: list[str]) -> None:
        """A promise that is broken says more than that somebody waits."""
        for name in names:
            self.workers[name].check()

    def _set_up(self) -> None:
        self.faults.off = True
        self.database.peek().create_schema()
        engine = self.open()
        realm = engine.ensure_realm(REALM)
        self.realm_instance = realm.kernel.realm
        realm.ensure_catalog(CATALOG)
        engine.close()
        self.faults.off = False
        self.scheduler.before_step = self.before_step
