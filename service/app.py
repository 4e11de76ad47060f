"""The ASGI application of one worker, from opening the store to closing it.

⚠ Stopping: first readiness fails, streams get their last event and long polls their response; the server
below then waits for what is in flight; at last the store is closed, which finishes every commit that was accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.persistence.commit.observer import Observer
from headwater.persistence.handover.handover import Handover
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, Store, open_store
from headwater.producer.publisher.factory import start_publisher
from headwater.schemas.extras import needs_extra
from headwater.service.auth.housekeeping import AccessCollector, AccessHousekeeping
from headwater.service.auth_factory import build_access
from headwater.service.background import Background
from headwater.service.config import ServeConfig
from headwater.service.dev_realm import ensure_dev_realm
from headwater.service.feed.feed_metrics import FeedCollector
from headwater.service.feed.service import Service
from headwater.service.feed.stream import OpenStreams
from headwater.service.gate.gate import Gate
from headwater.service.http.responses import Message, Receive, Scope, Send
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.purging import files_named_by
from headwater.service.observability.engine_metrics import CommitCounts, EngineCollector
from headwater.service.observability.logs import set_up_logs
from headwater.service.observability.maintenance_metrics import MaintenanceCollector
from headwater.service.observability.metrics import WorkerMetrics
from headwater.service.observability.publisher_metrics import KafkaLagCollector, PublisherCollector
from headwater.service.observability.tracing import Tracing
from headwater.service.operations.realm_feeds import RealmFeeds
from headwater.service.operations.task_runner import TaskRunner
from headwater.service.reconciling.reconciler import Reconciler
from headwater.service.routes import build_gate
from headwater.service.seeding import seed
from headwater.service.storage.storage_options import StorageOptions
from headwater.service.usage.collector import UsageCollector
from headwater.streaming.files.reach_files import condemned_files_of

if TYPE_CHECKING:
    from headwater.producer.publisher.publisher import Publisher
    from headwater.service.grpc.grpc_server import GrpcServer

THREADS_MAX = 16
"""For work that may ask the store; what waits for one waits in order."""
TEND_SECONDS = 0.5
COLLECTOR_THRESHOLDS = (10_000, 5, 20)
"""A full collection after a million new containers, not after 70,000: ten thousand open requests have some 150,000."""

_log = logging.getLogger(__name__)


class App:
    """One worker."""

    def __init__(self, config: ServeConfig) -> None:
        self._config = config
        self._gate: Gate | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http" and self._gate is not None:
            await self._gate(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            service, store = await asyncio.to_thread(open_service, self._config)
        except Exception as error:
            _log.exception("the worker cannot start")
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="feed")
        asyncio.get_running_loop().set_default_executor(threads)
        self._gate = build_gate(service)
        try:
            grpc_server = await _start_grpc(service, self._gate)
        except Exception as error:
            _log.exception("the gRPC port cannot be served")
            await asyncio.to_thread(close_service, service, store)
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        _stop_with_signals(service)
        housekeeping = asyncio.ensure_future(_housekeeping(service, os.getppid()))
        publisher = await asyncio.to_thread(_publish, service, store)
        tasks = start_tasks(store, service.config.storage)
        reconciler = start_reconciler(store, self._config)
        background = Background(store, self._config, service.lakes)
        background.start()
        keep_collections_short()
        _log.info("serving", extra={"worker": os.getpid()})
        await send(_done("startup"))
        await receive()
        service.stopping.set()
        if grpc_server is not None:
            await grpc_server.stop(self._config.stop_seconds / 2)
        housekeeping.cancel()
        await background.stop()
        await asyncio.to_thread(tasks.close)
        if reconciler is not None:
            await asyncio.to_thread(reconciler.close)
        if publisher is not None:
            await asyncio.to_thread(publisher.close)
        await asyncio.to_thread(close_service, service, store)
        _log.info("stopped", extra={"worker": os.getpid()})
        await send(_done("shutdown"))


def keep_collections_short() -> None:
    """⚠ A full collection stops the event loop: 150 ms for what the program itself has made by now, and as often as a burst of
    requests comes. So that is left out for good, and collections are rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def start_tasks(store: Store, storage: StorageOptions) -> TaskRunner:
    """For all ACTIVE realms."""
    realms = Realms(store)

    def kernels() -> list[RealmKernel]:
        return [store.kernel(realm.instance) for realm in realms.all() if realm.status is RealmStatus.ACTIVE]

    runner = TaskRunner(kernels, files_named_by(Lakes(storage)))
    runner.start()
    return runner


def start_reconciler(store: Store, config: ServeConfig) -> Reconciler | None:
    if not config.reconcile.slots:
        return None
    reconciler = Reconciler(store, config.reconcile)
    reconciler.start()
    return reconciler


async def _start_grpc(service: Service, gate: Gate) -> GrpcServer | None:
    """⚠ `grpc` is imported here, in the worker: its threads do not survive a fork."""
    if not service.config.grpc_port:
        return None
    with needs_extra("serving gRPC", "grpc"):
        from headwater.service.grpc.grpc_server import GrpcServer
        from headwater.service.grpc.runtime import Runtime
    server = GrpcServer(Runtime(service, gate.budgets))
    await server.start()
    return server


def make_app(config: ServeConfig) -> App:
    """Called in each worker process."""
    set_up_logs(config.log_file)
    return App(config)


def open_service(config: ServeConfig) -> tuple[Service, Store]:
    folder = None if config.workers_folder is None else Path(config.workers_folder)
    metrics = WorkerMetrics(folder)
    tracing = Tracing(config.traces) if config.traces else None
    store = open_store(config.store, config.store_options, create=config.dev, observers=_observers(tracing))
    try:
        store.reach_files = condemned_files_of(config.storage.server)
        if folder is not None:
            _share_lanes(store, folder)
        if config.dev:
            ensure_dev_realm(store, config.store)
        if config.seed:
            seed(store, config.store, config.default_realm, config.storage)
        commits = CommitCounts()
        feeds = RealmFeeds(store, encoded_bytes_max=config.feed_cache_bytes, on_landed=commits.landed)
        metrics.registry.register(EngineCollector(store, commits))
        metrics.registry.register(MaintenanceCollector(store))
        metrics.registry.register(KafkaLagCollector(store))
        metrics.registry.register(UsageCollector(store))
        streams = OpenStreams()
        metrics.registry.register(FeedCollector(feeds, streams))
        access = build_access(config, feeds)
        metrics.registry.register(AccessCollector(access))
        return Service(config, feeds, metrics, streams, commits, tracing, access), store
    except BaseException:
        store.close()
        raise


def _share_lanes(store: Store, folder: Path) -> None:
    try:
        store.share_lanes(Handover(store, folder))
    except OSError as error:  # e.g. a path too long for a socket: then the workers race for each commit, as servers do
        _log.warning("workers cannot hand commits over to each other: %s", error)


def _publish(service: Service, store: Store) -> Publisher | None:
    if service.config.publisher is None:
        return None
    publisher = start_publisher(store, service.config.publisher)
    service.metrics.registry.register(PublisherCollector(publisher))
    return publisher


def close_service(service: Service, store: Store) -> None:
    service.access.close()
    service.lakes.copies.close()
    service.feeds.close()
    store.close()
    service.metrics.write()
    if service.tracing is not None:
        service.tracing.close()


def _observers(tracing: Tracing | None) -> list[Observer]:
    if tracing is None:
        return []
    from headwater.persistence.observability.spans import Spans

    return [Spans(tracing.tracer)]


def _stop_with_signals(service: Service) -> None:
    """The server below waits for open streams before it tells us that it stops: so we listen to the same signals, first."""
    loop = asyncio.get_running_loop()
    handlers = getattr(loop, "_signal_handlers", {})
    for number in (signal.SIGTERM, signal.SIGINT):
        theirs = handlers.get(number)

        def stop(theirs: asyncio.Handle | None = theirs) -> None:
            service.stopping.set()
            if theirs is not None:
                theirs._run()

        with contextlib.suppress(NotImplementedError, RuntimeError):  # not the main thread: a test holds the loop
            loop.add_signal_handler(number, stop)


async def _housekeeping(service: Service, parent: int) -> None:
    """Looks at realms again and writes numbers for the other workers.

    ⚠ A worker whose main process was killed ends too, or it would hold the port forever.
    """
    access = AccessHousekeeping(service.access, service.feeds)
    while True:
        await asyncio.sleep(TEND_SECONDS)
        await asyncio.to_thread(service.feeds.look_again)
        await asyncio.to_thread(service.metrics.write)
        await asyncio.to_thread(access.run)
        if os.getppid() != parent:
            _log.error("the main process is gone", extra={"worker": os.getpid()})
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _done(what: str) -> Message:
    return {"type": f"lifespan.{what}.complete"}
