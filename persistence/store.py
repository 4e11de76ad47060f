"""Opens a database: backend, ids, cache, and the kernel of each realm instance."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from headwater.persistence.backend import Backend, DurabilityLevel
from headwater.persistence.backends import open_backend
from headwater.persistence.clock import Clock, SystemClock
from headwater.persistence.commit.committer import Committer
from headwater.persistence.commit.draft import Draft
from headwater.persistence.commit.lane import LaneContext
from headwater.persistence.commit.observer import Observer
from headwater.persistence.commit.retries import RetryPolicy
from headwater.persistence.coordination.removal_intents import CondemnedFiles, IntentWatch
from headwater.persistence.coordination.restore_watch import RestoreWatch
from headwater.persistence.ids.id_generator import IdGenerator
from headwater.persistence.ids.node_leases import LEASE_SECONDS, NodeLeases
from headwater.persistence.log.committed_requests import KEPT_SECONDS
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import LogWalk, has_entry
from headwater.persistence.objects.cache import ObjectCache
from headwater.persistence.objects.object_types import all_object_types
from headwater.persistence.objects.observed_reads import ObservedObjects, Reading, observed, unobserved
from headwater.persistence.objects.realm_objects import Decoded, RealmObjects
from headwater.persistence.rows import SYSTEM_REALM, PointerRow, realm_name_of
from headwater.schemas.errors import NodeLeaseLost, StoreNotDurable

if TYPE_CHECKING:
    from headwater.persistence.handover.handover import Handover


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    cache_bytes: int = 256 * 1024 * 1024
    node_lease_seconds: int = LEASE_SECONDS
    durability: Literal["warn", "refuse"] = "warn"
    retries: RetryPolicy = RetryPolicy()
    request_ids_kept_seconds: float = KEPT_SECONDS
    """How long a request id that a caller supplied is found, after restarts and from other processes too."""
    poll_seconds: float = 0.1
    """How soon commits of other processes are noticed, at the latest."""


class WeakDurability(UserWarning):
    """The live server's settings could lose acknowledged commits."""


class RealmKernel:
    """Access to one realm instance for all layers above: its objects, log and committer."""

    def __init__(self, store: Store, realm: str) -> None:
        self.store = store
        self.realm = realm
        self.reading = store.reading(realm)
        """Wraps each read, for observers."""
        self.objects = self._new_objects()
        self.walk = LogWalk(self.objects)
        self.attached: dict[type, object] = {}
        """What layers above keep for this realm instance, by its type."""
        self._listeners: list[Callable[[str, Draft], None]] = []
        self._peer_listeners: list[Callable[[str, PointerRow, LogRecord], None]] = []
        self.committer = store.new_committer(
            LaneContext(
                backend=store.backend,
                realm=realm,
                objects=self.objects,
                ids=store,
                clock=store.clock,
                policy=store.options.retries,
                chance=random.Random(),  # noqa: S311 - spreads retries, keeps no secret
                restores=store.restores,
                moved=self._tell,
                answered=self._answered,
                request_ids_kept_seconds=store.options.request_ids_kept_seconds,
            )
        )

    def _new_objects(self) -> RealmObjects:
        store, types = self.store, all_object_types()
        if self.reading is unobserved:
            return RealmObjects(store.backend, self.realm, store.cache, types)
        return ObservedObjects(store.backend, self.realm, store.cache, types, self.reading)

    def read_pointer(self, pointer: str) -> PointerRow | None:
        """Strongly."""
        with self.reading("pointer") as found:
            row = self.store.backend.read_pointer(self.realm, pointer)
            found(0 if row is None else 1)
            return row

    @property
    def realm_name(self) -> str:
        """The realm's name; its instance is the name and a creation id."""
        return realm_name_of(self.realm)

    def on_moved(self, listener: Callable[[str, Draft], None]) -> None:
        """Have it called, on the lane's thread, with every pointer name and batch that this process commits."""
        self._listeners.append(listener)

    def _tell(self, pointer: str, draft: Draft) -> None:
        if draft.head.row is not None:
            self.store.restores.landed(self.realm, pointer, draft.head.row)
        for listener in self._listeners:
            listener(pointer, draft)
        if self.store.handover is not None:
            self.store.handover.moved(self.realm, pointer, draft)

    def on_moved_by_peer(self, listener: Callable[[str, PointerRow, LogRecord], None]) -> None:
        """Have it called with the row and newest entry of every batch that another worker of this server commits."""
        self._peer_listeners.append(listener)

    def moved_by_peer(self, pointer: str, row: PointerRow, newest: LogRecord) -> None:
        self.store.restores.landed(self.realm, pointer, row)
        for listener in self._peer_listeners:
            listener(pointer, row, newest)

    def _answered(self) -> None:
        if self.store.handover is not None:
            self.store.handover.answered()


class Store:
    """One open database, used by this process. Closing it finishes what was accepted and frees the node id."""

    def __init__(self, backend: Backend, options: StoreOptions, clock: Clock, observers: Sequence[Observer] = ()) -> None:
        self.backend = backend
        self.options = options
        self.clock = clock
        self._observers = observers
        self.cache: ObjectCache[Decoded] = ObjectCache(options.cache_bytes)
        self._kernels: dict[str, RealmKernel] = {}
        self._ids: IdGenerator | None = None
        self._lock = threading.Lock()
        self.handover: Handover | None = None
        self.restores = RestoreWatch(backend, clock, self._in_log)
        self.restores.on_restored(self._forget)
        self.removals = IntentWatch(backend, clock)
        self.reach_files: Callable[[], CondemnedFiles] | None = None
        """Set by a process that can reach file storage. Without it, commits near a removal are refused."""
        self.on_new_root: Callable[[str, str], None] | None = None
        """Likewise: gets the realm instance and the name of a catalog whose storage root is new."""
        for observer in observers:
            observer.opened(self)

    def kernel(self, realm: str) -> RealmKernel:
        """The kernel of a realm *instance*. It does not check whether the realm is active."""
        with self._lock:
            if realm not in self._kernels:
                self._kernels[realm] = self._connected(RealmKernel(self, realm))
            return self._kernels[realm]

    def share_lanes(self, handover: Handover) -> None:
        """Commit to each pointer by one worker of this server; see persistence/handover."""
        with self._lock:
            self.handover = handover
            for kernel in self._kernels.values():
                self._connected(kernel)
        handover.start()

    def _connected(self, kernel: RealmKernel) -> RealmKernel:
        if self.handover is not None:
            kernel.committer.hand_over = partial(self.handover.offer, kernel.realm)
        return kernel

    @property
    def kernels(self) -> list[RealmKernel]:
        """The kernels of the realms used so far."""
        with self._lock:
            return list(self._kernels.values())

    def new_committer(self, context: LaneContext) -> Committer:
        """Costs nothing without an observer."""
        if not self._observers:
            return Committer(context)
        from headwater.persistence.commit.observed_committer import ObservedCommitter

        return ObservedCommitter(context, self._observers)

    def reading(self, realm: str) -> Reading:
        """The context manager around each read of a realm instance."""
        return observed(realm, self._observers)

    @property
    def incarnation(self) -> str:
        """A random id of the store's data. A restore changes it: if it differs from the one that was noted beside a position,
        commits may be gone, so compare entry ids before continuing. As of the last check, at most a second ago while this
        process works; `restores.on_restored` reports a change."""
        return self.restores.incarnation.id

    @property
    def system(self) -> RealmKernel:
        return self.kernel(SYSTEM_REALM)

    def take(self, count: int) -> list[int]:
        """New object ids. The node is leased with the first of them: a process that only reads leases none."""
        self.restores.check_if_due()
        ids = self._ids
        if ids is None:
            with self._lock:
                if self._ids is None:
                    leases = NodeLeases(
                        self.backend, self.clock, lease_seconds=self.options.node_lease_seconds, ids_from=self.restores.ids_from
                    )
                    self._ids = IdGenerator(leases)
                ids = self._ids
        try:
            return ids.take(count)
        except NodeLeaseLost:  # the lease ran out while no ids were needed, and another process has the node by now
            return ids.take(count)

    def _in_log(self, realm: str, row: PointerRow, known: PointerRow) -> bool:
        if not known.head:
            return True
        return bool(row.head) and has_entry(self.kernel(realm).walk, row, known.seq, known.head)

    def _forget(self) -> None:
        """After a restore: ids may have been given to other objects, and the node to another process."""
        self.cache.clear()
        self.removals.forget()
        if self._ids is not None:
            self._ids.renounce()

    def close(self) -> None:
        if self.handover is not None:
            self.handover.drain()
        for kernel in self._kernels.values():
            kernel.committer.close()
        if self.handover is not None:
            self.handover.close()
        if self._ids is not None:
            self._ids.close()
        self.backend.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_store(
    url: str,
    options: StoreOptions | None = None,
    *,
    create: bool = False,
    clock: Clock | None = None,
    observers: Sequence[Observer] = (),
) -> Store:
    """Connect, create the schema if asked to, check its version and what the live server promises."""
    options = options or StoreOptions()
    backend = open_backend(url)
    try:
        if create:
            backend.create_schema()
        backend.check_schema()
        _check_durability(backend, options)
        store = Store(backend, options, clock or SystemClock(), observers)
        _ = store.incarnation  # known from here on, so that a restore is noticed
        return store
    except BaseException:
        backend.close()
        raise


def _check_durability(backend: Backend, options: StoreOptions) -> None:
    durability = backend.durability()
    if durability.level is not DurabilityLevel.WEAK:
        return
    message = f"{backend.name} may lose acknowledged commits: {' '.join(durability.warnings)}"
    if options.durability == "refuse":
        raise StoreNotDurable(message, field="store", remedy="Make the server durable, or set durability=warn.")
    warnings.warn(message, WeakDurability, stacklevel=3)
