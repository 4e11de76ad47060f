"""Health and reflection, which need no token. Each watcher and reflection stream uses one of the few slots of its address.

⚠ Not the health service of grpcio-health-checking: it limits no one, and a watcher that reads nothing keeps its lock, so that
no other watcher is answered or notified when the server stops.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headwater.service.grpc.call_context import address_of

STREAMS_OF_ADDRESS_MAX = 128
STREAMS_MAX = 1_024
"""Streams per worker, for health and for reflection each: about 20 kB a stream."""


class Places:
    """For streams of callers who have proven nothing, counted by address."""

    def __init__(self, of_address_max: int = STREAMS_OF_ADDRESS_MAX, streams_max: int = STREAMS_MAX) -> None:
        self._of_address_max = of_address_max
        self._streams_max = streams_max
        self._taken: Counter[str] = Counter()

    @asynccontextmanager
    async def taken(self, servicer: Any) -> AsyncIterator[None]:
        """Ends the call with RESOURCE_EXHAUSTED where there is none."""
        address = address_of(servicer.peer())[0]
        if self._taken[address] >= self._of_address_max or self._taken.total() >= self._streams_max:
            self._taken += Counter()  # forgets who has none
            await servicer.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open: end some, and try again.")
        with self._held(address):
            yield

    @contextmanager
    def _held(self, address: str) -> Iterator[None]:
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """All services serve from the start of the server on, until it stops."""

    def __init__(self, names: Iterable[str], stall_seconds: float, places: Places | None = None) -> None:
        self._names = frozenset(("", *names))
        self._stall_seconds = stall_seconds
        self._places = places or Places()
        self._stopping, self._stopped = asyncio.Event(), asyncio.Event()

    def begin_to_stop(self) -> None:
        """Notifies the watchers."""
        self._stopping.set()

    def stop(self) -> None:
        """Ends the streams of watchers, who would hold up the end of the server."""
        self._stopping.set()
        self._stopped.set()

    async def Check(self, request: Any, servicer: Any) -> Any:  # noqa: N802
        if request.service not in self._names:
            await servicer.abort(grpc.StatusCode.NOT_FOUND, "there is no such service here.")
        return health_pb2.HealthCheckResponse(status=self._status(request.service))

    async def Watch(self, request: Any, servicer: Any) -> None:  # noqa: N802
        async with self._places.taken(servicer):
            await self._tell(request.service, servicer)
            if request.service in self._names:
                await self._stopping.wait()
                await self._tell(request.service, servicer)
            await self._stopped.wait()

    async def _tell(self, name: str, servicer: Any) -> None:
        try:
            async with asyncio.timeout(self._stall_seconds):
                await servicer.write(health_pb2.HealthCheckResponse(status=self._status(name)))
        except TimeoutError:
            await servicer.abort(grpc.StatusCode.ABORTED, "the watcher did not take its answer in time.")

    def _status(self, name: str) -> Any:
        if name not in self._names:
            return health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        stopping = self._stopping.is_set()
        return health_pb2.HealthCheckResponse.NOT_SERVING if stopping else health_pb2.HealthCheckResponse.SERVING


class Reflection(reflection.aio.ReflectionServicer):  # type: ignore[misc]
    def __init__(self, names: Iterable[str], places: Places | None = None) -> None:
        super().__init__(names)
        self._places = places or Places()

    async def ServerReflectionInfo(self, requests: Any, servicer: Any) -> AsyncIterator[Any]:  # noqa: N802
        async with self._places.taken(servicer):
            async for answer in super().ServerReflectionInfo(requests, servicer):
                yield answer
