"""What the status page of a publisher shows: its shards, and whether every one of them keeps up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from headwater.producer.publisher.shards.shard_states import ShardState
from headwater.wiring.status_page import StatusSource

if TYPE_CHECKING:
    from headwater.producer.publisher.publisher import Publisher
    from headwater.producer.publisher.shards.shard_context import ShardStatus

WORKING = frozenset({ShardState.IDLE, ShardState.SENDING})


class PublisherStatus(msgspec.Struct, frozen=True, kw_only=True):
    failure: str
    shards: Sequence[ShardStatus]

    @property
    def is_ready(self) -> bool:
        """Whether it holds shards and all of them publish. ⚠ False for a publisher all of whose shards are held by others."""
        return not self.failure and bool(self.shards) and all(shard.state in WORKING for shard in self.shards)


def publisher_status(publisher: Publisher) -> StatusSource:
    def status() -> PublisherStatus:
        return PublisherStatus(failure=publisher.failure, shards=publisher.status())

    return StatusSource(status=status, metrics=lambda: metrics_text(status()), is_ready=lambda: status().is_ready)


def metrics_text(status: PublisherStatus) -> str:
    """In Prometheus' text format."""
    lines = [
        "# HELP headwater_publish_lag_commits Entries that are in the log and not in Kafka.",
        "# TYPE headwater_publish_lag_commits gauge",
        *(_sample("lag_commits", shard, shard.lag_commits) for shard in status.shards),
        "# HELP headwater_publish_changes_total Changes that this process has published.",
        "# TYPE headwater_publish_changes_total counter",
        *(_sample("changes_total", shard, shard.changes) for shard in status.shards),
    ]
    return "\n".join(lines) + "\n"


def _sample(name: str, shard: ShardStatus, value: int) -> str:
    return f'headwater_publish_{name}{{realm="{shard.realm}",shard="{shard.shard}"}} {value}'
