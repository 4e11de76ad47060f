"""Serves live views of a realm's commits topic over HTTP: a faust-streaming app that rebuilds them when it starts.

    python -m headwater.consumers.views.faust_app --kafka 127.0.0.1:9092 --server http://127.0.0.1:8181 --port 6066

Views are not kept in faust's tables: it commits an offset in one transaction and what the record did to a table in the next, so
a worker that was killed came back without the last records (seen with 0.15.3, exactly_once). Each worker reads the whole topic
under a group of its own and holds all views; several of them are replicas of each other.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from contextlib import suppress
from typing import Any

import click
import faust
import httpx
import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from faust.web import Request, Response, View

from headwater.consumers.clients.feed_http import FeedTarget
from headwater.consumers.kafka.kafka_progress import read_begins
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import all_topics, find_partitions
from headwater.consumers.kafka.topic_watch import LOOK_SECONDS, TopicWatch
from headwater.consumers.views.faust_transport import CommittedTransport
from headwater.consumers.views.live_views import LiveViews
from headwater.consumers.views.record_views import RecordViews
from headwater.consumers.views.server_lookup import ViewsServer
from headwater.schemas.errors import CursorReset, HeadwaterError
from headwater.schemas.kafka_records import decode_record


class ViewsOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str
    realm: str = "default"
    server: str | None = None
    """Asked for what the topic does not have: old bases of branches, gaps, and Changes that were too large for Kafka."""
    host: str = "127.0.0.1"
    port: int = 6066


def make_app(options: ViewsOptions) -> faust.App:
    """⚠ The topic must be there: faust passes over one that is not, in silence."""
    read_from = KafkaSource(bootstrap=options.bootstrap, realm=options.realm)
    partitions, begins = asyncio.run(_look_up(read_from))
    app = faust.App(
        f"headwater-views-{uuid.uuid4().hex}",
        broker=f"kafka://{options.bootstrap}",
        store="memory://",
        autodiscover=False,
        datadir=tempfile.mkdtemp(prefix="headwater-views-"),
        consumer_auto_offset_reset="earliest",
        topic_disable_leader=True,
        web_bind=options.host,
        web_host=options.host,
        web_port=options.port,
    )
    app.transport = CommittedTransport(app.conf.broker_consumer, app, app.loop)
    source = app.topic(partitions[0].topic, key_serializer="raw", value_serializer="raw", partitions=len(partitions))
    folding = RecordViews(_server(options), begins)
    watch = TopicWatch(options.realm, partitions[0].topic, lambda: all_topics(read_from))

    @app.agent(source, name="views")
    async def keep(stream: Any) -> None:
        async for event in stream.events():
            try:
                folding.take(decode_record(_headers(event.message), event.message.value))
            except Exception as error:
                await app.crash(error)  # never past a record that is not in the views
                raise

    @app.timer(LOOK_SECONDS)  # type: ignore[untyped-decorator]
    async def look_around() -> None:
        """⚠ Faust reads the partitions that it began with: views that miss some, or follow a realm that is gone, must end."""
        with suppress(KafkaError):
            try:
                if await watch.is_due() and await find_partitions(read_from) != partitions:
                    raise _grown(partitions[0].topic)
            except CursorReset as error:
                await app.crash(error)

    _serve(app, folding.views)
    return app


def _grown(topic: str) -> CursorReset:
    return CursorReset(f"{topic} has other partitions now.", field="realm", remedy="Start the views again: they are rebuilt.")


async def _look_up(source: KafkaSource) -> tuple[list[TopicPartition], int]:
    partitions = await find_partitions(source)
    return partitions, await read_begins(source, partitions[0].topic)


def _server(options: ViewsOptions) -> ViewsServer | None:
    if options.server is None:
        return None
    return ViewsServer(httpx.Client(), FeedTarget(server=options.server, realm=options.realm))


def _headers(message: Any) -> list[tuple[str, bytes]]:
    headers = message.headers or ()
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


def _serve(app: faust.App, views: LiveViews) -> None:
    @app.page("/positions/")
    async def positions(web: View, request: Request) -> Response:
        """How far each pointer has come."""
        return web.json({pointer: view.seq for pointer, view in views.pointers.items()})

    @app.page("/tables/")
    async def tables(web: View, request: Request) -> Response:
        """The newest state of every key of `?pointer=`."""
        pointer = request.query.get("pointer", "")
        view = views.pointers.get(pointer)
        held = [] if view is None else [{"key": key, **msgspec.to_builtins(one)} for key, one in sorted(view.state.items())]
        return web.json({"pointer": pointer, "seq": 0 if view is None else view.seq, "tables": held})

    @app.page("/activity/")
    async def activity(web: View, request: Request) -> Response:
        """How many changes touched each namespace, by minute."""
        minutes = {minute: {".".join(key): count for key, count in counts.items()} for minute, counts in views.minutes.items()}
        return web.json({"changes_per_minute": dict(sorted(minutes.items())), "held": views.held})


@click.command()
@click.option("--kafka", "bootstrap", required=True, metavar="BOOTSTRAP", help="Brokers, e.g. 127.0.0.1:9092.")
@click.option("--realm", default="default", show_default=True, help="The realm.")
@click.option("--server", metavar="URL", help="Of a server: for old bases of branches, gaps and large Changes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address of the web view.")
@click.option("--port", default=6066, show_default=True, help="The port of the web view.")
def main(bootstrap: str, realm: str, server: str | None, host: str, port: int) -> None:
    """Keep live views of a realm from Kafka and serve them: /tables/?pointer=…, /activity/, /positions/."""
    try:
        app = make_app(ViewsOptions(bootstrap=bootstrap, realm=realm, server=server, host=host, port=port))
    except HeadwaterError as error:
        raise click.ClickException(f"{error.code}: {error}") from error
    faust.Worker(app, loglevel="warn", quiet=True).execute_from_commandline()


if __name__ == "__main__":
    main()
