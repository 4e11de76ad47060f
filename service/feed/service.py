"""What all routes of one worker share: realms, open parts, metrics, and whether it is stopping."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headwater.producer.access.obligations import KnownObligations
from headwater.producer.plans.plan_counts import PlanCounts
from headwater.service.auth.access import Access
from headwater.service.auth.caller import DEV_PRINCIPAL
from headwater.service.config import ServeConfig
from headwater.service.feed.changes import Changes
from headwater.service.feed.stream import OpenStreams, StreamLimits
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.observability.engine_metrics import CommitCounts
from headwater.service.observability.metrics import WorkerMetrics
from headwater.service.observability.tracing import Tracing
from headwater.service.operations.feed_hub import Hubs
from headwater.service.operations.realm_feeds import RealmFeed, RealmFeeds
from headwater.service.operations.stopping import Stopping
from headwater.service.storage.weighed_cache import WeighedCache

ENCODED_RELATIONS_BYTES = 64 * 1024 * 1024
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
        self.hubs = Hubs(self.stopping)
        self.changes = Changes(self.hubs)
        self.limits = StreamLimits(heartbeat_seconds=config.heartbeat_seconds, stall_seconds=config.stall_seconds)
        self.tracing = tracing
        self.access = access
        self.lakes = Lakes(
            config.storage,
            keys_kept_seconds=config.idempotency.kept_seconds,
            copy_bytes_max=config.metadata_copy_bytes_max,
            manifest_cache_bytes=config.manifest_cache_bytes,
        )
        self.plan_counts = PlanCounts()
        self.obligations = KnownObligations()
        self.encoded_relations = WeighedCache[Any, Any](ENCODED_RELATIONS_BYTES)
        """Encoded relations, kept for later bundles."""
        self.openapi: Callable[[], bytes] = lambda: b"{}"
        self.docs_page: Callable[[], bytes] = lambda: b""
        """The description of all routes; set with the gate."""

    async def realm(self, name: str) -> RealmFeed:
        known = self.feeds.known(name)
        return known if known is not None else await asyncio.to_thread(self.feeds.require, name)
