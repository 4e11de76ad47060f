"""Measures bundles and plans of a real server beside loads and commits over HTTP, by the server's time on core."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from bench.context import Context
from bench.feed import get, post
from bench.http_load import cpu_seconds, load, plain_clients, run_clients
from bench.measures import Measure
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port

RELATIONS, INPUTS = 1_000, 10
BUNDLES, PLANS = 10, 1_000
SCHEMA = json.dumps(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": id, "name": f"c{id}", "required": False, "type": "long"} for id in range(1, 21)],
    }
)


def measured(context: Context) -> Iterator[Measure]:
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        feed_server(f"sqlite:///{folder}/lake.db", settings={"grpc_port": port}) as server,
    ):
        _in_process(_make_tables, port)
        loaded = _per_call(server, lambda: load(server.port, get("/iceberg/v1/lake/namespaces/db/tables/t1"), context.seconds))
        committed = _per_call(server, lambda: _one_by_one(server, context.seconds))
        _in_process(_bundles, port, 1)
        wall, core = _per_call(server, lambda: _in_process(_bundles, port, BUNDLES))
        name = f"bundle of {RELATIONS:,} relations"
        yield _measure(name, 1_000 * wall, "ms")
        yield _measure(name, 1_000 * core, "ms of one core")
        yield _measure(f"{name} against as many HTTP loads", core / (RELATIONS * loaded[1]), "× CPU time")
        planned = _per_call(server, lambda: _in_process(_plans, port))
        name = f"BeginPlan of {INPUTS} inputs"
        yield _measure(name, 1_000 * planned[0], "ms")
        yield _measure(name, 1_000 * planned[1], "ms of one core")
        for place, unit in enumerate(("× time", "× CPU time")):
            yield _measure(f"{name} against an HTTP commit", planned[place] / committed[place], unit)


def _per_call(server: FeedServer, send: Callable[[], tuple[float, int]]) -> tuple[float, float]:
    """Seconds of one call: by the clock, and of the server's cores."""
    before = cpu_seconds(server)
    rate, calls = send()
    return 1 / rate, (cpu_seconds(server) - before) / calls


def _one_by_one(server: FeedServer, seconds: float) -> tuple[float, int]:
    """Commits of one client, as plans are begun here: several at once share their writes."""
    counts = run_clients(server.port, plain_clients(post)[:1], seconds)
    return sum(counts.done) / seconds, counts.sent


def _measure(name: str, value: float, unit: str) -> Measure:
    return Measure("planning", "sqlite, 1 worker", name, value, unit)


# ── in a process of its own ─────────────────────────────────────────────────────────────────────────────────


def _in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """⚠ Not forked: `grpc` does not outlive a fork."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _make_tables(port: int) -> None:
    import grpc

    from headwater.schemas.rpc import common_pb2, namespace_pb2, table_pb2
    from headwater.schemas.rpc.services import Stub

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        name = common_pb2.Name(catalog="lake", path=["db"])
        Stub(channel, "NamespaceService").CreateNamespace(namespace_pb2.CreateNamespaceRequest(name=name))
        create = Stub(channel, "TableService").CreateTable
        for number in range(RELATIONS):
            create(table_pb2.CreateTableRequest(name=_table(number), schema=SCHEMA))


def _table(number: int) -> Any:
    from headwater.schemas.rpc import common_pb2

    return common_pb2.Name(catalog="lake", path=["db", f"t{number}"])


def _bundles(port: int, times: int) -> tuple[float, int]:
    import grpc

    from headwater.schemas.rpc import planning_pb2
    from headwater.schemas.rpc.services import Stub

    relations = [planning_pb2.RelationRef(catalog="lake", path=["db", f"t{number}"]) for number in range(RELATIONS)]
    request = planning_pb2.GetCatalogBundleRequest(relations=relations)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        get_bundle = Stub(channel, "PlanningService").GetCatalogBundle
        begun = time.perf_counter()
        for _ in range(times):
            end = [(one, *one.more)[-1].end.found for one in get_bundle(request)][-1]
            assert end == RELATIONS, end
        return times / (time.perf_counter() - begun), times


def _plans(port: int) -> tuple[float, int]:
    import grpc

    from headwater.schemas.rpc import planning_pb2
    from headwater.schemas.rpc.services import Stub

    inputs = [planning_pb2.PlanInput(name=_table(number)) for number in range(INPUTS)]
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        begin = Stub(channel, "PlanningService").BeginPlan
        begun = time.perf_counter()
        for _ in range(PLANS):
            begin(planning_pb2.BeginPlanRequest(inputs=inputs))
        return PLANS / (time.perf_counter() - begun), PLANS
