"""What all methods of one worker share: the service, the request types of the APIs, budgets, counts."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakValueDictionary

from headwater.service.directory.catalog_directory import DirectoryOptions
from headwater.service.directory.directories import Directories
from headwater.service.feed.call import FeedCall
from headwater.service.feed.feed_routes import FEED
from headwater.service.feed.service import Service
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


class Runtime:
    def __init__(self, service: Service, budgets: Budgets) -> None:
        self.service = service
        self.budgets = budgets
        self.counts = GrpcCounts()
        self.directories = Directories(DirectoryOptions(bytes_max=service.config.directory_bytes))
        self.frames = ChangeFrames(service.config.feed_cache_bytes)
        self._arriving: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        self._types: dict[str, Callable[..., Any]] = {
            FEED: FeedCall,
            ICEBERG: RpcIcebergCall,
            MANAGE: ManageCall,
        }
        self._ids = (f"{worker}{number:08x}" for worker in [os.urandom(4).hex()] for number in itertools.count(1))

    def next_id(self) -> str:
        return next(self._ids)

    def arriving(self, owner: Hashable) -> asyncio.Semaphore:
        """To be entered while a message of this caller is read."""
        return self._arriving.setdefault(owner, asyncio.Semaphore(ARRIVING_MAX))

    def request_type(self, route: Route) -> Callable[..., Any]:
        return next(made for prefix, made in self._types.items() if route.path.startswith(prefix))
