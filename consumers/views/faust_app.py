"""Serves live views of a realm's commits topic over HTTP: a faust-streaming app that rebuilds them when it starts.

    headwater --server http://127.0.0.1:8181 views --kafka 127.0.0.1:9092 --port 6066

Views are not kept in faust's tables: it commits an offset in one transaction and what the record did to a table in the next, so
a worker that was killed came back without the last records (seen with 0.15.3, exactly_once). Each worker reads the whole topic
under a group of its own and holds all views; several of them are replicas of each other.
"""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import faust
import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from faust.web import Request, Response, View

from headwater.consumers.kafka.kafka_progress import read_begins
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.consumers.kafka.kafka_topics import all_topics, find_partitions
from headwater.consumers.kafka.topic_watch import LOOK_SECONDS, TopicWatch
from headwater.consumers.views.faust_transport import CommittedTransport
from headwater.consumers.views.live_views import LiveViews
from headwater.consumers.views.record_views import RecordViews
from headwater.consumers.views.views_lookup import ViewsLookup
from headwater.schemas.errors import CursorReset
from headwater.schemas.kafka_records import SchemaById, decode_record


class ViewsOptions(msgspec.Struct, frozen=True, kw_only=True):
    source: KafkaSource
    credentials: Any = None
    """The same client's, as faust takes them."""
    lookup: ViewsLookup | None = None
    """Asked for what the topic does not have: old bases of branches, gaps, and Changes that were too large for Kafka."""
    schema_by_id: SchemaById | None = None
    host: str = "127.0.0.1"
    port: int = 6066


def make_app(options: ViewsOptions, ended: Callable[[BaseException], None]) -> faust.App:
    """Calls `ended` with the reason when the views cannot continue. ⚠ The topic must exist: faust skips a missing one."""
    read_from = options.source
    partitions, begins = asyncio.run(_look_up(read_from))
    app = faust.App(
        f"headwater-views-{uuid.uuid4().hex}",
        broker=[f"kafka://{address.strip()}" for address in read_from.bootstrap.split(",")],
        broker_credentials=options.credentials,
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
    folding = RecordViews(options.lookup, begins)
    watch = TopicWatch(read_from, partitions[0].topic, lambda: all_topics(read_from))

    async def fail(error: BaseException) -> None:
        ended(error)
        await app.crash(error)

    @app.agent(source, name="views")
    async def keep(stream: Any) -> None:
        async for event in stream.events():
            try:
                folding.take(decode_record(_headers(event.message), event.message.value, options.schema_by_id))
            except Exception as error:
                await fail(error)  # never past a record that is not in the views
                raise

    @app.timer(LOOK_SECONDS)  # type: ignore[untyped-decorator]
    async def look_around() -> None:
        """⚠ Faust reads only the partitions that it began with: views that miss some, or follow a lost realm, must end."""
        try:
            folding.settle()
            with suppress(KafkaError):
                if await watch.is_due() and await find_partitions(read_from) != partitions:
                    raise _grown(partitions[0].topic)
        except Exception as error:
            await fail(error)

    _serve(app, folding.views)
    return app


def _grown(topic: str) -> CursorReset:
    return CursorReset(f"{topic} has other partitions now.", field="realm", remedy="Start the views again: they are rebuilt.")


async def _look_up(source: KafkaSource) -> tuple[list[TopicPartition], int]:
    partitions = await find_partitions(source)
    return partitions, await read_begins(source, partitions[0].topic)


def _headers(message: Any) -> list[tuple[str, bytes]]:
    headers = message.headers or ()
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


def _serve(app: faust.App, views: LiveViews) -> None:
    @app.page("/positions/")
    async def positions(web: View, request: Request) -> Response:
        """The position in each pointer."""
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
