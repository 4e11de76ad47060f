"""Verifies the chains of a server or a Kafka topic, with the same check as for the store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.feed.feed_sources import quiet_kafka
from headwater.consumers.audit.verify import Verification, verify
from headwater.schemas.errors import PointerNotFound
from headwater.schemas.extras import needs_extra
from headwater.settings import Settings
from headwater.wiring.kafka_readers import kafka_source, registry_schemas
from headwater.wiring.servers import server_connection

if TYPE_CHECKING:
    from headwater.consumers.views.server_lookup import ViewsServer


def verify_server(settings: Settings, realm: str, wanted: Sequence[str]) -> list[Verification]:
    """Where history has expired, from its second entry on: the feed does not show the anchor."""
    connection = server_connection(settings)
    from headwater.consumers.audit.server_history import ServerHistory

    with connection.client() as client:
        history = ServerHistory(client, connection.target(realm))
        listed = {info.name: info for info in history.pointers()}
        chosen = _chosen(wanted, list(listed))
        return [verify(name, history.changes(listed[name]), after_seq=listed[name].oldest_seq - 1) for name in chosen]


def verify_kafka(settings: Settings, bootstrap: str, realm: str, wanted: Sequence[str]) -> list[Verification]:
    quiet_kafka()
    with needs_extra("reading Kafka", "kafka"):
        from headwater.consumers.audit.kafka_history import KafkaHistory
        from headwater.consumers.kafka.kafka_topics import readable_sources
    source = kafka_source(settings, bootstrap, realm=realm)
    with tempfile.TemporaryDirectory(prefix="headwater-audit-") as folder, _views_server(settings, realm) as views:
        histories: dict[str, KafkaHistory] = {}
        for one in asyncio.run(readable_sources(source)):
            fetch = None if views is None else views.change
            history = KafkaHistory(one, Path(folder), fetch, registry_schemas(settings))
            asyncio.run(history.load())
            histories |= dict.fromkeys(history.pointers(), history)
        found = []
        for name in _chosen(wanted, sorted(histories)):
            after_seq, anchor = histories[name].start(name)
            found.append(verify(name, histories[name].changes(name), after_seq=after_seq, anchor=anchor))
        return found


@contextmanager
def _views_server(settings: Settings, realm: str) -> Iterator[ViewsServer | None]:
    if not settings.server:
        yield None
        return
    connection = server_connection(settings)
    from headwater.consumers.views.server_lookup import ViewsServer

    with connection.client() as client:
        yield ViewsServer(client, connection.target(realm))


def _chosen(wanted: Sequence[str], there: Sequence[str]) -> Sequence[str]:
    for name in wanted:
        if name not in there:
            raise PointerNotFound(f"there is no pointer {name!r}.", field="pointer", remedy="Name one that is there.")
    return wanted or there
