"""The loop that reconciles the connectors of all realms, in a server's worker or in `headwater reconcile`."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.connectors.connector_records import Connector, Connectors, ConnectorStatus
from headwater.producer.connectors.polled_state import SeenTags
from headwater.producer.connectors.reconcile_jobs import Job, ReconcileJobs
from headwater.producer.connectors.source_positions import SourcePosition
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import HeadwaterError, RecordNotFound
from headwater.service.reconciling.connector_operations import ConnectorOperations
from headwater.service.reconciling.reconcile_run import ReconcileRun
from headwater.service.reconciling.reconcile_turns import Turn, next_turn
from headwater.service.reconciling.source_factories import ReconcileOptions, source_factories

LOOK_SECONDS = 2.0
CLOSE_SECONDS = 20.0

_log = logging.getLogger(__name__)


class Reconciler:
    """`start` it and `close` it. ⚠ A connector runs in one process at a time, by its lease; here it only gets its turn."""

    def __init__(
        self, store: Store, options: ReconcileOptions, *, realm: str | None = None, on_job: Callable[[Job], None] | None = None
    ) -> None:
        self._store = store
        self._options = options
        self._realm = realm
        self._on_job = on_job or (lambda job: None)
        self._factories = source_factories(options)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[Turn, threading.Thread] = {}
        self._served_at: dict[Turn, float] = {}
        self._tags: dict[str, SeenTags] = {}
        self._known: dict[str, tuple[int, Sequence[Connector]]] = {}
        self._thread = threading.Thread(target=self._loop, name="reconciler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """⚠ A commit that is under way is waited for: behind this the store is closed."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        for thread in list(self._running.values()):
            thread.join(CLOSE_SECONDS)

    def run_once(self, only: str | None = None, *, scope: Sequence[KeyPath] = ()) -> list[Job]:
        """Every ACTIVE connector, or the one of a name, now and one after the other; with a scope as a job for it."""
        done, found = list[Job](), False
        for kernel in self._kernels():
            for connector in Connectors(kernel, self._factories).list():
                if only not in (None, connector.name):
                    continue
                found = True
                if scope:
                    operations = ConnectorOperations(kernel, self._options)
                    operations.trigger(connector.name, full_rescan=False, scope=scope, requested_by="")
                if connector.status is ConnectorStatus.ACTIVE:
                    job = self._run(kernel, connector, now=True)
                    done += [] if job is None else [job]
        if only is not None and not found:
            raise RecordNotFound(f"there is no connector {only[:80]!r}.", field="connector", remedy="List the connectors.")
        return done

    # ── the loop ────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self._give_turns()
            except HeadwaterError as error:
                _log.warning("connectors wait: %s", error)
            except Exception:
                _log.exception("connectors wait")

    def _give_turns(self) -> None:
        waiting = self._waiting()
        while not self._stopping.is_set():
            with self._lock:
                turn = next_turn(list(waiting), self._running, self._served_at, self._options.slots)
                if turn is None:
                    return
                kernel, connector = waiting.pop(turn)
                self._served_at[turn] = time.monotonic()
                name = f"reconcile-{connector.name}"
                thread = threading.Thread(target=self._turn, args=(turn, kernel, connector), name=name, daemon=True)
                self._running[turn] = thread
            thread.start()

    def _turn(self, turn: Turn, kernel: RealmKernel, connector: Connector) -> None:
        try:
            job = self._run(kernel, connector, turn_seconds=self._options.turn_seconds)
            if job is not None:
                self._on_job(job)
                _log.info("reconciled", extra={"connector": connector.name, "realm": kernel.realm_name, "state": job.state})
        except HeadwaterError as error:
            _log.warning("connector %s of %s: %s", connector.name, kernel.realm_name, error)
        except Exception:
            _log.exception("connector %s of %s", connector.name, kernel.realm_name)
        finally:
            with self._lock:
                self._running.pop(turn, None)

    def _run(
        self, kernel: RealmKernel, connector: Connector, *, now: bool = False, turn_seconds: float = math.inf
    ) -> Job | None:
        tags = self._tags.setdefault(connector.id, {})
        run = ReconcileRun(
            kernel,
            connector,
            self._factories,
            self._options,
            stopping=self._stopping,
            tags=tags,
            turn_seconds=turn_seconds,
        )
        return run.run(now=now)

    # ── who waits ───────────────────────────────────────────────────────────────────────────────────────────

    def _waiting(self) -> dict[Turn, tuple[RealmKernel, Connector]]:
        """⚠ A realm that cannot be read costs its own connectors alone."""
        found: dict[Turn, tuple[RealmKernel, Connector]] = {}
        for kernel in self._kernels():
            try:
                found |= {Turn(kernel.realm, one.id): (kernel, one) for one in self._due(kernel)}
            except Exception:
                _log.exception("connectors of %s wait", kernel.realm_name)
        return found

    def _kernels(self) -> list[RealmKernel]:
        realms = [one for one in Realms(self._store).all() if one.status is RealmStatus.ACTIVE]
        return [self._store.kernel(one.instance) for one in realms if self._realm in (None, one.name)]

    def _active(self, kernel: RealmKernel) -> Sequence[Connector]:
        """Read again when a record of the realm has changed."""
        connectors = Connectors(kernel, self._factories)
        seq = connectors.seq()
        known = self._known.get(kernel.realm)
        if known is None or known[0] != seq:
            known = (seq, connectors.list() if seq else ())
            self._known[kernel.realm] = known
        return [one for one in known[1] if one.status is ConnectorStatus.ACTIVE]

    def _due(self, kernel: RealmKernel) -> Iterator[Connector]:
        active = self._active(kernel)
        asked = ReconcileJobs(kernel).waiting() if active else ()
        for connector in active:
            if connector.id in asked or SourcePosition(kernel, connector.id).record.next_at <= self._store.clock.now_micros():
                yield connector
