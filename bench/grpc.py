"""Measures the gRPC port of a real server beside its HTTP port: same operations, same store, one after the other.

The clients run in a process of their own. A gRPC client in Python takes more of the machine than plain sockets do, so beside
the rates stands what one call takes of the server's cores, which no client distorts. A server of grpcio alone, with handlers of
the same shape that do nothing, says how much of that is grpcio's.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from bench.context import Context
from bench.feed import POINTER, commit_many, commit_to_event, get, post
from bench.http_load import CLIENTS, cpu_seconds, load, process_cpu_seconds
from bench.measures import Measure
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port

TITLE = "gRPC beside HTTP"
SUBJECT = "sqlite, 1 worker"
CHANGES = 20_000
READERS = 5
COMMITS_A_SECOND = 200
SCHEMA = '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":false,"type":"long"}]}'


def run(context: Context) -> Iterator[Measure]:
    if "sqlite" not in context.kinds:
        return
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        feed_server(f"sqlite:///{folder}/lake.db", settings={"grpc_port": port}) as server,
    ):
        commit_many(server, 10)
        _in_process(_make_table, port)
        yield from _compared(
            server,
            "table by name",
            lambda: load(server.port, get("/iceberg/v1/lake/namespaces/db/tables/t"), context.seconds),
            lambda: _in_process(_load, port, "table", context.seconds),
        )
        yield from _compared(
            server,
            f"commits, {CLIENTS} clients",
            lambda: load(server.port, post, context.seconds),
            lambda: _in_process(_load, port, "commit", context.seconds),
        )
        yield from _bare(context.seconds)
        yield from _caught_up(server, port)
        seconds = max(2.0, context.seconds)
        over_http = 1_000 * statistics.median(commit_to_event(server, seconds))
        over_grpc = 1_000 * statistics.median(_in_process(_commit_to_frame, port, seconds))
        yield _measure("commit to event over HTTP at 200/s, p50", "ms", over_http)
        yield _measure("commit to frame over gRPC at 200/s, p50", "ms", over_grpc)
        yield _measure("commit to frame against event", "× time", over_grpc / over_http)


def _compared(
    server: FeedServer, name: str, over_http: Callable[[], tuple[float, int]], over_grpc: Callable[[], tuple[float, int]]
) -> Iterator[Measure]:
    """The rates, and what one call takes of the server's cores."""
    rates, costs = list[float](), list[float]()
    for said, send in (("HTTP", over_http), ("gRPC", over_grpc)):
        before = cpu_seconds(server)
        rate, requests = send()
        rates.append(rate)
        costs.append(1e6 * (cpu_seconds(server) - before) / requests)
        yield _measure(f"{name} over {said}", "req/s", rates[-1])
        yield _measure(f"{name} over {said}, time on core", "µs/req", costs[-1])
    yield _measure(f"{name}, gRPC against HTTP", "× rate", rates[1] / rates[0])
    yield _measure(f"{name}, gRPC against HTTP", "× CPU time", costs[1] / costs[0])


def _bare(seconds: float) -> Iterator[Measure]:
    """What a call takes that grpcio.aio only hands over."""
    context = multiprocessing.get_context("spawn")
    ports: Any = context.Queue()
    server = context.Process(target=_serve_nothing, args=(ports,), daemon=True)
    server.start()
    try:
        port = ports.get(timeout=60)
        before = process_cpu_seconds(server.pid or 0)
        rate, requests = _in_process(_load, port, "table", seconds)
        cost = 1e6 * (process_cpu_seconds(server.pid or 0) - before) / requests
    finally:
        server.terminate()
        server.join()
    yield _measure("calls of grpcio alone", "req/s", rate)
    yield _measure("calls of grpcio alone, time on core", "µs/req", cost)


def _caught_up(server: FeedServer, port: int) -> Iterator[Measure]:
    """What the first reader makes of the log is kept for all others, for both: the second one is compared."""
    commit_many(server, CHANGES)
    rates, costs = list[float](), list[float]()
    for said, read in (("SSE", lambda: _sse(server)), ("Subscribe", lambda: _in_process(_subscribed, port))):
        for place in ("first", "next"):
            before, count = cpu_seconds(server), 0
            rate = 0.0
            for _ in range(1 if place == "first" else READERS):
                once, changes = read()
                rate, count = max(rate, once), count + changes
            rates.append(rate)
            costs.append((cpu_seconds(server) - before) / count)
            yield _measure(f"caught up over {said}, {place} reader", "Changes/s", rate)
            yield _measure(f"caught up over {said}, {place} reader, of one core", "Changes/s", 1 / costs[-1])
    yield _measure("caught up, Subscribe against SSE", "× rate", rates[3] / rates[1])
    yield _measure("caught up, Subscribe against SSE", "× rate of one core", costs[1] / costs[3])


def _sse(server: FeedServer) -> tuple[float, int]:
    """Bytes alone are read: what is measured is the server."""
    begun, count = time.perf_counter(), 0
    with httpx.stream("GET", f"{server.feed}/stream?pointer={POINTER}&after=earliest", timeout=60) as stream:
        for chunk in stream.iter_raw():
            count += chunk.count(b'"commit_id":')
            if count >= CHANGES:
                break
    return count / (time.perf_counter() - begun), count


def _measure(name: str, unit: str, value: float) -> Measure:
    return Measure("grpc", SUBJECT, name, value, unit)


# ── in a process of its own ─────────────────────────────────────────────────────────────────────────────────


def _in_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """⚠ Not forked: `grpc` does not outlive a fork."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def _serve_nothing(ports: Any) -> None:
    asyncio.run(_serving_nothing(ports))


async def _serving_nothing(ports: Any) -> None:
    import grpc

    async def answer(messages: Any, servicer: Any) -> bytes:
        servicer.set_trailing_metadata((("x-correlation-id", "bench"), ("x-request-id", "bench")))
        await anext(aiter(messages))
        return b""

    class Handlers(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.stream_unary_rpc_method_handler(answer)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Handlers(),))
    ports.put(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    await server.wait_for_termination()


def _make_table(port: int) -> None:
    import grpc

    from headwater.schemas.rpc import common_pb2, namespace_pb2, table_pb2
    from headwater.schemas.rpc.services import Stub

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        name = common_pb2.Name(catalog="lake", path=["db"])
        Stub(channel, "NamespaceService").CreateNamespace(namespace_pb2.CreateNamespaceRequest(name=name))
        table = common_pb2.Name(catalog="lake", path=["db", "t"])
        Stub(channel, "TableService").CreateTable(table_pb2.CreateTableRequest(name=table, schema=SCHEMA))


def _load(port: int, what: str, seconds: float) -> tuple[float, int]:
    return asyncio.run(_calls(port, what, seconds))


async def _calls(port: int, what: str, seconds: float) -> tuple[float, int]:
    """As many callers as over HTTP, each with one call in flight."""
    import grpc

    from headwater.schemas.rpc.services import Stub

    sent = done = 0
    counting = False
    stopped = asyncio.Event()

    async def caller(number: int) -> None:
        nonlocal sent, done
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stubs = {name: Stub(channel, name) for name in ("TableService", "FeedService")}
            while not stopped.is_set():
                await (_get_table(stubs) if what == "table" else _commit(stubs, number, sent))
                sent += 1
                done += counting

    callers = [asyncio.ensure_future(caller(number)) for number in range(CLIENTS)]
    await asyncio.sleep(min(1.0, seconds / 2))
    counting, begun = True, time.perf_counter()
    await asyncio.sleep(seconds)
    counting, taken = False, time.perf_counter() - begun
    stopped.set()
    await asyncio.gather(*callers)
    return done / taken, sent


def _get_table(stubs: dict[str, Any]) -> Any:
    from headwater.schemas.rpc import common_pb2, table_pb2

    name = common_pb2.Name(catalog="lake", path=["db", "t"])
    request = table_pb2.GetTableRequest(table=common_pb2.ContentRef(name=name), with_metadata=True)
    return stubs["TableService"].GetTable(request)


def _commit(stubs: dict[str, Any], client: int, number: int, key: str = "") -> Any:
    from headwater.schemas.rpc import common_pb2, feed_pb2

    content = f'{{"metadata_location":"s3://lake/t{client}/{number}.json","snapshot_id":{number},"schema_id":0}}'
    operation = feed_pb2.Operation(op="put", key=[f"t{client}"], type="ICEBERG_TABLE", content=content)
    request = feed_pb2.CommitRequest(
        catalog="lake",
        operations=[operation],
        author="bench",
        message="m",
        idempotency=common_pb2.Idempotency(key=key) if key else None,
    )
    return stubs["FeedService"].Commit(request)


def _subscribed(port: int) -> tuple[float, int]:
    import grpc

    from headwater.schemas.rpc import feed_pb2
    from headwater.schemas.rpc.services import Stub

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        begun, count = time.perf_counter(), 0
        request = feed_pb2.SubscribeRequest(source=feed_pb2.FeedSource(pointers=[POINTER]), after="earliest")
        stream = Stub(channel, "FeedService").Subscribe(request)
        for message in stream:
            count += len(message.frame.changes)
            if count >= CHANGES:
                break
        taken = time.perf_counter() - begun
        stream.cancel()
    return count / taken, count


def _commit_to_frame(port: int, seconds: float) -> list[float]:
    """Seconds from sending a commit to having its frame in hand, at a steady rate."""
    import grpc

    from headwater.schemas.rpc import feed_pb2
    from headwater.schemas.rpc.services import Stub

    sent: dict[str, float] = {}
    latencies: list[float] = []
    total = int(seconds * COMMITS_A_SECOND)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stubs = {"FeedService": Stub(channel, "FeedService")}
        request = feed_pb2.SubscribeRequest(source=feed_pb2.FeedSource(pointers=[POINTER]), after="latest", heartbeat_seconds=1)
        stream = stubs["FeedService"].Subscribe(request)
        next(stream)  # the server has begun: a bookmark

        def read() -> None:
            for message in stream:
                now = time.perf_counter()
                latencies.extend(now - sent[change.request_id] for change in message.frame.changes)
                if len(latencies) >= total:
                    return

        reader = threading.Thread(target=read)
        reader.start()
        begun = time.perf_counter()
        for number in range(total):
            time.sleep(max(0.0, begun + number / COMMITS_A_SECOND - time.perf_counter()))
            key = f"frames-{number}"
            sent[key] = time.perf_counter()
            _commit(stubs, 99, number, key)
        reader.join(60)
        stream.cancel()
    return latencies
