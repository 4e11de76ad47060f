"""What all methods of one worker share: the service, the request types of the APIs, budgets, counts."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from headwater.service.auth.rights.rate_limits import too_many
from headwater.service.directory.catalog_directory import DirectoryOptions
from headwater.service.directory.directories import Directories
from headwater.service.feed.call import FeedCall
from headwater.service.feed.feed_routes import FEED
from headwater.service.feed.service import Service
from headwater.service.gate.bodies import too_slow
from headwater.service.gate.budgets import Budgets
from headwater.service.gate.route import Route
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.grpc.grpc_metrics import GrpcCounts
from headwater.service.grpc.messages.frames import ChangeFrames
from headwater.service.iceberg.call import PREFIX as ICEBERG
from headwater.service.manage.call import ManageCall
from headwater.service.manage.route import PREFIX as MANAGE

ARRIVING_MAX = 128
"""Messages of one caller that are read at once. ⚠ gRPC keeps all of a message that is being read, however slowly it comes. The
others wait with their senders, whom flow control stops."""
WAITING_MAX = 1_024
"""Calls of one caller that wait for their message to be read: one takes some 20 kB."""
WAITING_SECONDS_MAX = 60.0


class Arrivals:
    """Messages that are being read, by caller. Of one event loop."""

    def __init__(self) -> None:
        self._reading: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    def enter(self, owner: Hashable) -> Awaitable[None] | None:
        """Takes a place, which `leave` gives back; what it returns is to be awaited first."""
        reading = self._reading.get(owner, 0)
        if reading < ARRIVING_MAX:
            self._reading[owner] = reading + 1
            return None
        return self._wait(owner)

    async def _wait(self, owner: Hashable) -> None:
        """Behind those that came before."""
        waiting = self._waiting.setdefault(owner, deque())
        if len(waiting) >= WAITING_MAX:
            raise too_many(f"{ARRIVING_MAX + WAITING_MAX} messages of this caller are on their way already.", 1.0)
        place = asyncio.get_running_loop().create_future()
        waiting.append(place)
        try:
            async with asyncio.timeout(WAITING_SECONDS_MAX):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave(owner)  # it was given a place, and is gone
            elif place in waiting:
                waiting.remove(place)
            if isinstance(error, TimeoutError):
                raise too_slow(WAITING_SECONDS_MAX) from None
            raise
        finally:
            if not waiting and self._waiting.get(owner) is waiting:
                del self._waiting[owner]

    def leave(self, owner: Hashable) -> None:
        """The slot goes to the caller that has waited longest."""
        waiting = self._waiting.get(owner)
        while waiting:
            place = waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._reading[owner] -= 1
        if not self._reading[owner]:
            del self._reading[owner]


class Runtime:
    def __init__(self, service: Service, budgets: Budgets) -> None:
        self.service = service
        self.budgets = budgets
        self.counts = GrpcCounts()
        self.directories = Directories(DirectoryOptions(bytes_max=service.config.directory_bytes))
        self.frames = ChangeFrames(service.config.feed_cache_bytes)
        self.arrivals = Arrivals()
        self._types: dict[str, Callable[..., Any]] = {
            FEED: FeedCall,
            ICEBERG: RpcIcebergCall,
            MANAGE: ManageCall,
        }
        self._ids = (f"{worker}{number:08x}" for worker in [os.urandom(4).hex()] for number in itertools.count(1))

    def next_id(self) -> str:
        return next(self._ids)

    def request_type(self, route: Route) -> Callable[..., Any]:
        return next(made for prefix, made in self._types.items() if route.path.startswith(prefix))
