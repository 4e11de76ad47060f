"""`headwater subscribe`: prints checked Changes of a server, of Kafka or of the store, one per line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import rich_click as click

from headwater.cli.catalogs.changes_output import print_changes
from headwater.cli.change_filter import filtered
from headwater.cli.feed.change_jobs import ShowChanges, each_to
from headwater.cli.feed.feed_sources import Pointers, feed_reader, kafka_changes, which_pointers
from headwater.cli.output import as_json
from headwater.cli.target import in_realm
from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput, SubscriptionNotFound
from headwater.schemas.filters import Filter
from headwater.schemas.http.feed_json import FilterBody
from headwater.settings import Settings
from headwater.wiring.kafka_readers import kafka_source
from headwater.wiring.servers import connected

if TYPE_CHECKING:
    from headwater.client.remote import RemoteRealm
    from headwater.client.remote_subscription import RemoteSubscription
    from headwater.consumers.clients.reader import Reader


@click.command()
@click.option("--kafka", metavar="BOOTSTRAP", help="Read the topics of a publisher at these brokers, e.g. 127.0.0.1:9092.")
@which_pointers
@in_realm
@click.option("--after", help="A commit id, a seq, a cursor, a time, earliest or latest. Default: earliest.")
@click.option("--from-commit", metavar="ID", help="Start after this commit; the same as --after, and the only way for Kafka.")
@filtered
@click.option("--follow", is_flag=True, help="Wait for further changes.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many changes.")
@click.option("--stream", is_flag=True, help="With --server: use server-sent events instead of polls.")
@click.option("--subscription", metavar="NAME", help="With --server: continue the subscription of this name, and acknowledge.")
@click.option("--group", metavar="NAME", help="With --kafka: continue where this consumer group was, and store its position.")
@click.option("--access", is_flag=True, help="With --kafka: read the topic of access records, if the realm has one.")
@click.option("--with-cursor", is_flag=True, help="With --json: print with each change the cursor that continues after it.")
@click.option(
    "--cursor-file",
    metavar="FILE",
    help="With a server or the store: continue from the position in this file, and store the position.",
)
@click.option(
    "--run",
    "job",
    metavar="COMMAND",
    help="Run this program for each change, with its JSON on standard input, instead of printing it.",
)
@as_json
@click.pass_obj
def command(
    settings: Settings,
    kafka: str | None,
    pointers: tuple[str, ...],
    catalog: str | None,
    branch: str | None,
    realm: str,
    after: str | None,
    from_commit: str | None,
    wanted: Filter,
    follow: bool,
    limit: int | None,
    stream: bool,
    subscription: str | None,
    group: str | None,
    access: bool,
    with_cursor: bool,
    cursor_file: str | None,
    job: str | None,
    json_output: bool,
) -> None:
    """Print changes of a server, of Kafka or of the store, each once, in order and verified; JSON is one Change per line.

    Without --pointer, --catalog and --branch it reads the branch `main` of the catalog `lake`; from Kafka, all pointers.
    Gaps are filled from the log, and broken connections are opened again. A cursor whose history is gone ends the
    command.

    A filter shows whole changes. It never hides deletions, renames out of the prefix or moves of the branch, unless
    --kind or --op exclude them by name. A program of --run that fails ends the command with exit code 1, and the position
    stays before that change.
    """
    _check(settings.server, kafka, after, from_commit, subscription, group, with_cursor, cursor_file)
    kept = None if cursor_file is None else CursorFile(Path(cursor_file))
    start = (kept and kept.read()) or from_commit or after or "earliest"
    if access and kafka is None:
        raise InvalidInput("these flags do not go together.", field="access", remedy="Topics are Kafka's: add --kafka.")
    if job is not None and with_cursor:
        raise InvalidInput("these flags do not go together.", field="with_cursor", remedy="With --run, add --cursor-file.")
    show = _printing(json_output) if job is None else each_to(job)
    chosen = Pointers(pointers, catalog, branch)
    if kafka is not None:
        read, instance = chosen.if_any(settings, realm)
        source = kafka_source(
            settings,
            kafka,
            realm=realm,
            instance=instance,
            pointers=read,
            group=group,
            from_commit=from_commit,
            access=access,
        )
        asyncio.run(_show_kafka(source, settings, wanted, follow, limit, show))
        return
    if subscription is not None:
        with connected(settings) as engine:
            remote = engine.realm(realm)
            named = _subscribed(remote, subscription, chosen.of(remote), after or "latest", wanted)
            show(named.changes(follow=follow, limit=limit), True)
        return
    with feed_reader(settings, realm, chosen, start, wanted=wanted, stream=stream and follow) as (reader, read):
        changes = _keeping(reader, kept, follow, limit)
        if with_cursor:
            for change in changes:
                _print_line({"change": change, "cursor": reader.cursor})
        else:
            show(changes, len(read) > 1)


def _check(
    server: str,
    kafka: str | None,
    after: str | None,
    from_commit: str | None,
    subscription: str | None,
    group: str | None,
    with_cursor: bool,
    cursor_file: str | None,
) -> None:
    is_kept_elsewhere = kafka is not None or subscription is not None
    refused: list[tuple[bool, str, str]] = [
        (after is not None and from_commit is not None, "from_commit", "Give one of --after and --from-commit."),
        (kafka is not None and after is not None, "after", "Kafka takes --from-commit, or the position of its --group."),
        (kafka is None and group is not None, "group", "Groups are Kafka's: add --kafka."),
        (subscription is not None and (not server or kafka is not None), "subscription", "Add --server."),
        (with_cursor and is_kept_elsewhere, "with_cursor", "Their positions are kept for you."),
        (cursor_file is not None and is_kept_elsewhere, "cursor_file", "Their positions are kept for you."),
    ]
    for is_wrong, field, remedy in refused:
        if is_wrong:
            raise InvalidInput("these flags do not go together.", field=field, remedy=remedy)


def _subscribed(remote: RemoteRealm, name: str, pointers: Iterable[str], after: str, wanted: Filter) -> RemoteSubscription:
    subscription = remote.subscription(name)
    try:
        info = subscription.info()
    except SubscriptionNotFound:
        info = subscription.create(list(pointers), after, filter=wanted)
    if not wanted.asks_for_all and info.filter != msgspec.convert(wanted, FilterBody, from_attributes=True):
        raise InvalidInput(
            f"the subscription {name!r} has another filter.",
            field="subscription",
            remedy="Leave out --kind, --op, --type and --prefix, or use another name.",
        )
    return subscription


def _keeping(reader: Reader, kept: CursorFile | None, follow: bool, limit: int | None) -> Iterator[Change]:
    """The position is kept when the next Change is asked for: the one before is printed or done then. ⚠ Where the reader
    begins is kept before the first one."""
    if kept is not None:
        kept.write(reader.begin(follow=follow))
    for change in islice(reader.changes(follow=follow), limit):
        yield change
        if kept is not None:
            kept.write(reader.cursor)


async def _show_kafka(
    source: KafkaSource, settings: Settings, wanted: Filter, follow: bool, limit: int | None, show: ShowChanges
) -> None:
    async with aclosing(kafka_changes(source, follow=follow, settings=settings, wanted=wanted, limit=limit)) as changes:
        async for change in changes:
            show([change], len(source.pointers) != 1)


def _printing(json_output: bool) -> ShowChanges:
    return lambda changes, with_pointer: print_changes(changes, json_output=json_output, with_pointer=with_pointer)


def _print_line(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()
