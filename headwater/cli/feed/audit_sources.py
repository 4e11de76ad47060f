"""Opens the history of a store or a server for an audit, and verifies the chains of a Kafka topic."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headwater.cli.feed.feed_sources import Pointers, quiet_kafka
from headwater.cli.target import logs_of, realm_of
from headwater.consumers.audit.store_history import StoreHistory
from headwater.consumers.audit.verify import Verification, verify
from headwater.local_logs import LocalLogs
from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import PointerNotFound
from headwater.schemas.extras import needs_extra
from headwater.settings import Settings
from headwater.wiring.kafka_readers import kafka_source, registry_schemas
from headwater.wiring.servers import server_connection

if TYPE_CHECKING:
    from headwater.client.remote_logs import RemoteLogs
    from headwater.consumers.audit.replay import History
    from headwater.consumers.views.server_lookup import ViewsServer
    from headwater.engine import Logs


@contextmanager
def audited(
    settings: Settings, realm: str, wanted: Pointers, *, all_if_none: bool = False
) -> Iterator[tuple[History, Sequence[str]]]:
    """The history of a realm or of `::system::`, of the server or of the store, and the pointers of it that are wanted."""
    if realm == SYSTEM_REALM:
        with logs_of(settings, realm) as logs:
            history = _history(logs)
            yield history, tuple(history.pointers()) if all_if_none and not wanted.is_given else wanted.of_system()
        return
    with realm_of(settings, realm) as handle:
        history = _history(handle.logs)
        yield history, tuple(history.pointers()) if all_if_none and not wanted.is_given else wanted.of(handle)


def _history(logs: Logs) -> History:
    if isinstance(logs, LocalLogs):
        return StoreHistory(logs.kernel)
    from headwater.consumers.audit.server_history import ServerHistory

    calls = cast("RemoteLogs", logs).calls
    return ServerHistory(calls.client, calls.target)


def verify_kafka(settings: Settings, bootstrap: str, realm: str, wanted: Sequence[str], instance: str) -> list[Verification]:
    quiet_kafka()
    with needs_extra("reading Kafka", "kafka"):
        from headwater.consumers.audit.kafka_history import KafkaHistory
        from headwater.consumers.kafka.kafka_topics import readable_sources
    source = kafka_source(settings, bootstrap, realm=realm, instance=instance)
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
