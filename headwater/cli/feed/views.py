"""`headwater views`: keeps live views of a realm from Kafka and serves them over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rich_click as click

from headwater.cli.feed.feed_sources import quiet_kafka
from headwater.schemas.extras import needs_extra
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.consumers.views.views_lookup import ViewsLookup


@click.command()
@click.option("--kafka", "bootstrap", metavar="BOOTSTRAP", help="Brokers, host:port,…; or the setting kafka_bootstrap.")
@click.option("--realm", default="default", show_default=True, help="The realm.")
@click.option("--from-store", is_flag=True, help="Without --server: read what the topic lacks from the store.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=6066, show_default=True, type=click.IntRange(1, 65_535), help="The port to listen on.")
@click.pass_obj
def command(settings: Settings, bootstrap: str | None, realm: str, from_store: bool, host: str, port: int) -> None:
    """Keep live views of a realm from Kafka and serve them: /tables/?pointer=…, /activity/, /positions/.

    With --server (and its token or client id) or --from-store, records that the topic no longer has are read from there;
    without, a missing record ends the command. The views are rebuilt at each start; several processes are replicas of
    each other. SIGTERM ends it within seconds.
    """
    from headwater.wiring.kafka_readers import checked_client, kafka_source, registry_schemas

    client = checked_client(settings, bootstrap)
    source = kafka_source(settings, client.bootstrap, realm=realm)
    quiet_kafka()
    with needs_extra("live views", "faust"):
        from headwater.consumers.views.faust_app import ViewsOptions
        from headwater.consumers.views.views_worker import run_views
    with _lookup(settings, realm, from_store) as lookup:
        run_views(
            ViewsOptions(
                source=source,
                credentials=client.faust(),
                lookup=lookup,
                schema_by_id=registry_schemas(settings),
                host=host,
                port=port,
            )
        )


@contextmanager
def _lookup(settings: Settings, realm: str, from_store: bool) -> Iterator[ViewsLookup | None]:
    if settings.server:
        from headwater.consumers.views.server_lookup import ViewsServer
        from headwater.wiring.servers import server_connection

        connection = server_connection(settings)
        with connection.client() as client:
            yield ViewsServer(client, connection.target(realm))
    elif from_store:
        from headwater.cli.target import store_realm
        from headwater.consumers.clients.local_transport import LocalTransport
        from headwater.consumers.views.store_lookup import StoreLookup
        from headwater.consumers.views.views_lookup import StoreViews

        with store_realm(settings, realm) as local:
            yield StoreViews(LocalTransport(local.feed, ()), StoreLookup(local.kernel))
    else:
        yield None
