"""Opens what Changes are read from: a server, Kafka, or the store."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from headwater.cli.feed.server_token import server_token
from headwater.schemas.change import Change
from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.client.remote import RemoteRealm
    from headwater.consumers.clients.http_poll import AsyncHttpPoll
    from headwater.consumers.clients.reader import Reader
    from headwater.consumers.kafka.kafka_reader import KafkaReader
    from headwater.consumers.kafka.kafka_source import KafkaSource
    from headwater.embedded import RealmHandle

ACKNOWLEDGE_SECONDS = 1.0


def quiet_kafka() -> None:
    """What goes wrong is said once, by the error that comes of it."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


@contextmanager
def connected(server: str, realm: str) -> Iterator[RemoteRealm]:
    with needs_extra("reading a server"):
        from headwater.client.remote import connect
    with connect(server, token=server_token()) as remote:
        yield remote.realm(realm)


def store_reader(realm: RealmHandle, pointers: Sequence[str], after: str) -> Reader:
    from headwater.consumers.clients.local_transport import LocalTransport
    from headwater.consumers.clients.reader import Reader

    transport = LocalTransport(realm.feed, pointers)
    return Reader(transport, after, log=transport)


@asynccontextmanager
async def kafka_reader(source: KafkaSource, server: str | None) -> AsyncIterator[KafkaReader]:
    """Gaps and Changes that were too large for Kafka are read from the server, where one is given."""
    quiet_kafka()
    with needs_extra("reading Kafka", "kafka"):
        from headwater.consumers.kafka.kafka_reader import KafkaReader
    async with _server_log(server, source.realm) as log, KafkaReader(source, log=log) as reader:
        yield reader


@asynccontextmanager
async def _server_log(server: str | None, realm: str) -> AsyncIterator[AsyncHttpPoll | None]:
    if server is None:
        yield None
        return
    with needs_extra("reading a server"):
        import httpx

        from headwater.client.server_calls import check_server_url
        from headwater.consumers.clients.feed_http import FeedTarget
        from headwater.consumers.clients.http_poll import AsyncHttpPoll
    async with httpx.AsyncClient() as client:
        yield AsyncHttpPoll(client, FeedTarget(server=check_server_url(server), realm=realm, token=server_token()))


async def kafka_changes(
    source: KafkaSource, *, follow: bool, server: str | None, limit: int | None = None
) -> AsyncGenerator[Change, None]:
    """The group's position moves behind what was taken, at most a second late and when the end or the limit is reached."""
    acknowledged, count = time.monotonic(), 0
    async with kafka_reader(source, server) as reader:
        async for change in reader.changes(follow=follow):
            yield change
            count += 1
            if count == limit:
                break
            if time.monotonic() - acknowledged > ACKNOWLEDGE_SECONDS:
                await reader.acknowledge()
                acknowledged = time.monotonic()
        await reader.acknowledge()
