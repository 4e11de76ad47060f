"""Opens what Changes are read from: a server, Kafka, or the store."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import rich_click as click

from headwater.cli.target import logs_of, realm_of, store_realm
from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.settings import Settings
from headwater.wiring.servers import connected, server_connection

if TYPE_CHECKING:
    from headwater.consumers.clients.http_poll import AsyncHttpPoll
    from headwater.consumers.clients.reader import Reader
    from headwater.consumers.kafka.kafka_reader import KafkaReader
    from headwater.consumers.kafka.kafka_source import KafkaSource
    from headwater.embedded import RealmHandle
    from headwater.engine import Realm

F = TypeVar("F", bound=Callable[..., Any])

ACKNOWLEDGE_SECONDS = 1.0
DEFAULT_CATALOG = "lake"
SYSTEM_POINTER = "realms"


def quiet_kafka() -> None:
    """What goes wrong is said once, by the error that comes of it."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


@contextmanager
def feed_reader(
    settings: Settings, realm: str, chosen: Pointers, after: str, *, wanted: Filter = NO_FILTER, stream: bool = False
) -> Iterator[tuple[Reader, tuple[str, ...]]]:
    """A reader of a server or of the store, and the pointers that it reads."""
    if realm == SYSTEM_REALM:
        with logs_of(settings, realm) as logs:
            pointers = chosen.of_system()
            yield logs.reader(pointers, after, filter=wanted, stream=stream), pointers
        return
    if settings.server:
        with connected(settings) as engine:
            remote = engine.realm(realm)
            pointers = chosen.of(remote)
            yield remote.reader(pointers, after, filter=wanted, stream=stream), pointers
        return
    with store_realm(settings, realm) as local:
        pointers = chosen.of(local)
        yield store_reader(local, pointers, after, wanted), pointers


def which_pointers(function: F) -> F:
    pointer = click.option(
        "--pointer", "pointers", multiple=True, metavar="NAME", help="Read this pointer, e.g. cat/1/heads/main."
    )
    catalog = click.option("--catalog", metavar="NAME", help="The catalog of the branch. Default: lake.")
    branch = click.option("--branch", metavar="NAME", help="The branch to read. Default: the catalog's default branch.")
    return pointer(catalog(branch(function)))


class Pointers(NamedTuple):
    """Which pointers a command reads: those named, or a branch of a catalog."""

    named: tuple[str, ...]
    catalog: str | None = None
    branch: str | None = None

    def of(self, realm: Realm) -> tuple[str, ...]:
        return self.named or (realm.catalog(self.catalog or DEFAULT_CATALOG).branch(self.branch).pointer,)

    def of_system(self) -> tuple[str, ...]:
        """Those named; the list of realms, if none is."""
        if self.catalog is not None or self.branch is not None:
            raise InvalidInput("`::system::` has no catalogs.", field="catalog", remedy="Name a --pointer, or none.")
        return self.named or (SYSTEM_POINTER,)

    @property
    def is_given(self) -> bool:
        return bool(self.named) or self.catalog is not None or self.branch is not None

    def if_any(self, settings: Settings, realm: str) -> tuple[tuple[str, ...], str]:
        """None for all; and the realm instance that they are of, where the number of a catalog was looked up at the server or
        in the store."""
        if self.named or not self.is_given:
            return self.named, ""
        with realm_of(settings, realm) as handle:
            return self.of(handle), handle.instance


def store_reader(realm: RealmHandle, pointers: Sequence[str], after: str, wanted: Filter = NO_FILTER) -> Reader:
    return realm.logs.reader(pointers, after, filter=wanted)


@asynccontextmanager
async def kafka_reader(source: KafkaSource, settings: Settings) -> AsyncIterator[KafkaReader]:
    """Gaps and Changes that were too large for Kafka are read from the server, where one is given."""
    quiet_kafka()
    with needs_extra("reading Kafka", "kafka"):
        from headwater.consumers.kafka.kafka_reader import KafkaReader
    async with _server_log(settings, source.realm) as log, KafkaReader(source, log=log) as reader:
        yield reader


@asynccontextmanager
async def _server_log(settings: Settings, realm: str) -> AsyncIterator[AsyncHttpPoll | None]:
    if not settings.server:
        yield None
        return
    connection = server_connection(settings)
    from headwater.consumers.clients.http_poll import AsyncHttpPoll

    async with connection.async_client() as client:
        yield AsyncHttpPoll(client, connection.target(realm))


async def kafka_changes(
    source: KafkaSource, *, follow: bool, settings: Settings, wanted: Filter = NO_FILTER, limit: int | None = None
) -> AsyncGenerator[Change, None]:
    """The group's position moves behind what was taken, at most a second late and when the end or the limit is reached."""
    acknowledged, count = time.monotonic(), 0
    async with kafka_reader(source, settings) as reader:
        async for change in reader.changes(follow=follow):
            if wanted.shows(change):
                yield change
                count += 1
            if count == limit:
                break
            if time.monotonic() - acknowledged > ACKNOWLEDGE_SECONDS:
                await reader.acknowledge()
                acknowledged = time.monotonic()
        await reader.acknowledge()
