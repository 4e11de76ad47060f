"""What all routes of one worker share: realms, what is open, what is counted, and whether it is stopping."""

from __future__ import annotations

import asyncio

from headwater.service.access.access import Access
from headwater.service.access.caller import DEV_PRINCIPAL
from headwater.service.config import ServeConfig
from headwater.service.engine_metrics import CommitCounts
from headwater.service.http.changes import Changes
from headwater.service.http.stream import OpenStreams, StreamLimits
from headwater.service.metrics import WorkerMetrics
from headwater.service.operations.feed_waiting import Stopping
from headwater.service.operations.realm_feeds import RealmFeed, RealmFeeds
from headwater.service.tracing import Tracing

__all__ = ["DEV_PRINCIPAL", "Service"]


class Service:
    def __init__(
        self,
        config: ServeConfig,
        feeds: RealmFeeds,
        metrics: WorkerMetrics,
        streams: OpenStreams,
        commits: CommitCounts,
        tracing: Tracing | None,
        access: Access,
    ) -> None:
        self.config = config
        self.feeds = feeds
        self.metrics = metrics
        self.commits = commits
        self.stopping = Stopping()
        self.streams = streams
        self.changes = Changes(self.stopping)
        self.limits = StreamLimits(heartbeat_seconds=config.heartbeat_seconds, stall_seconds=config.stall_seconds)
        self.tracing = tracing
        self.access = access

    async def realm(self, name: str) -> RealmFeed:
        known = self.feeds.known(name)
        return known if known is not None else await asyncio.to_thread(self.feeds.require, name)
