"""Verifies the chains of a server or a Kafka topic, with the same check as for the store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.feed.feed_sources import quiet_kafka
from headwater.cli.feed.server_token import server_token
from headwater.consumers.audit.verify import Verification, verify
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.errors import PointerNotFound
from headwater.schemas.extras import needs_extra

if TYPE_CHECKING:
    from headwater.consumers.views.server_lookup import ViewsServer


def verify_server(server: str, realm: str, wanted: Sequence[str]) -> list[Verification]:
    """Where history was cut, from its second entry on: the feed does not show the anchor."""
    with needs_extra("reading a server"):
        import httpx

        from headwater.client.server_calls import check_server_url
        from headwater.consumers.audit.server_history import ServerHistory
        from headwater.consumers.clients.feed_http import FeedTarget
    with httpx.Client() as client:
        history = ServerHistory(client, FeedTarget(server=check_server_url(server), realm=realm, token=server_token()))
        listed = {info.name: info for info in history.pointers()}
        chosen = _chosen(wanted, list(listed))
        return [verify(name, history.changes(listed[name]), after_seq=listed[name].oldest_seq - 1) for name in chosen]


def verify_kafka(bootstrap: str, realm: str, wanted: Sequence[str], server: str | None) -> list[Verification]:
    quiet_kafka()
    with needs_extra("reading Kafka", "kafka"):
        from headwater.consumers.audit.kafka_history import KafkaHistory
    with tempfile.TemporaryDirectory(prefix="headwater-audit-") as folder, _views_server(server, realm) as views:
        source = KafkaSource(bootstrap=bootstrap, realm=realm)
        history = KafkaHistory(source, Path(folder), None if views is None else views.change)
        asyncio.run(history.load())
        found = []
        for name in _chosen(wanted, history.pointers()):
            after_seq, anchor = history.start(name)
            found.append(verify(name, history.changes(name), after_seq=after_seq, anchor=anchor))
        return found


@contextmanager
def _views_server(server: str | None, realm: str) -> Iterator[ViewsServer | None]:
    if server is None:
        yield None
        return
    with needs_extra("reading a server"):
        import httpx

        from headwater.client.server_calls import check_server_url
        from headwater.consumers.clients.feed_http import FeedTarget
        from headwater.consumers.views.server_lookup import ViewsServer
    with httpx.Client() as client:
        yield ViewsServer(client, FeedTarget(server=check_server_url(server), realm=realm, token=server_token()))


def _chosen(wanted: Sequence[str], there: Sequence[str]) -> Sequence[str]:
    for name in wanted:
        if name not in there:
            raise PointerNotFound(f"there is no pointer {name!r}.", field="pointer", remedy="Name one that is there.")
    return wanted or there
