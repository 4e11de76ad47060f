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
from headwater.cli.feed.feed_sources import connected, kafka_changes, store_reader
from headwater.cli.output import as_json
from headwater.cli.target import in_catalog, realm_of
from headwater.consumers.clients.cursor_file import CursorFile
from headwater.consumers.kafka.kafka_source import KafkaSource
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput, SubscriptionNotFound
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.client.remote import RemoteRealm
    from headwater.client.remote_subscription import RemoteSubscription
    from headwater.consumers.clients.reader import Reader


@click.command()
@click.option("--server", metavar="URL", help="Of a server, e.g. http://127.0.0.1:8181.")
@click.option("--kafka", metavar="BOOTSTRAP", help="Of the topics that a publisher fills, e.g. 127.0.0.1:9092.")
@click.option("--pointer", "pointers", multiple=True, metavar="NAME", help="Read this one, e.g. cat/1/heads/main.")
@click.option("--branch", default="main", show_default=True, help="The branch to read, if no pointer is named.")
@in_catalog
@click.option("--after", help="A commit id, a seq, a cursor, a time, earliest or latest; earliest, if left out.")
@click.option("--from-commit", metavar="ID", help="Start after this commit; the same as --after, and the only way for Kafka.")
@click.option("--follow", is_flag=True, help="Wait for more.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many.")
@click.option("--stream", is_flag=True, help="Of a server: over server-sent events instead of polls.")
@click.option("--subscription", metavar="NAME", help="Of a server: go on where this name has acknowledged, and acknowledge.")
@click.option("--group", metavar="NAME", help="Of Kafka: go on where this consumer group was, and keep its position.")
@click.option("--with-cursor", is_flag=True, help="With --json: beside each change the cursor that goes on behind it.")
@click.option(
    "--cursor-file", metavar="FILE", help="Of a server or the store: go on where this file says, and keep the position."
)
@as_json
@click.pass_obj
def command(
    settings: Settings,
    server: str | None,
    kafka: str | None,
    pointers: tuple[str, ...],
    branch: str,
    realm: str,
    catalog: str,
    after: str | None,
    from_commit: str | None,
    follow: bool,
    limit: int | None,
    stream: bool,
    subscription: str | None,
    group: str | None,
    with_cursor: bool,
    cursor_file: str | None,
    json_output: bool,
) -> None:
    """Print changes of a server, of Kafka or of the store, each once, in order and checked; JSON is one Change a line.

    Gaps are repaired from the log, broken connections taken up again. A cursor whose history is gone ends the command.
    """
    _check(server, kafka, after, from_commit, subscription, group, with_cursor, cursor_file)
    kept = None if cursor_file is None else CursorFile(Path(cursor_file))
    start = (kept and kept.read()) or from_commit or after or "earliest"
    if kafka is not None:
        source = KafkaSource(bootstrap=kafka, realm=realm, pointers=pointers, group=group, from_commit=from_commit)
        asyncio.run(_print_kafka(source, server, follow, limit, json_output))
        return
    if server is None:
        with realm_of(settings, realm) as local:
            chosen = pointers or (local.catalog(catalog).branch(branch).pointer,)
            _print(store_reader(local, chosen, start), kept, follow, limit, json_output, with_cursor)
        return
    with connected(server, realm) as remote:
        chosen = pointers or (remote.catalog(catalog).branch(branch).pointer,)
        if subscription is not None:
            named = _subscribed(remote, subscription, chosen, after or "latest")
            print_changes(named.changes(follow=follow, limit=limit), json_output=json_output)
            return
        _print(remote.reader(chosen, start, stream=stream and follow), kept, follow, limit, json_output, with_cursor)


def _check(
    server: str | None,
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
        (subscription is not None and (server is None or kafka is not None), "subscription", "Add --server."),
        (with_cursor and is_kept_elsewhere, "with_cursor", "Their positions are kept for you."),
        (cursor_file is not None and is_kept_elsewhere, "cursor_file", "Their positions are kept for you."),
    ]
    for is_wrong, field, remedy in refused:
        if is_wrong:
            raise InvalidInput("these flags do not go together.", field=field, remedy=remedy)


def _subscribed(remote: RemoteRealm, name: str, pointers: Iterable[str], after: str) -> RemoteSubscription:
    subscription = remote.subscription(name)
    try:
        subscription.info()
    except SubscriptionNotFound:
        subscription.create(list(pointers), after)
    return subscription


def _print(
    reader: Reader, kept: CursorFile | None, follow: bool, limit: int | None, json_output: bool, with_cursor: bool
) -> None:
    """⚠ Where the reader begins is kept before the first line."""
    if kept is not None:
        kept.write(reader.begin(follow=follow))
    changes = _keeping(reader, kept, islice(reader.changes(follow=follow), limit))
    if not with_cursor:
        print_changes(changes, json_output=json_output)
        return
    for change in changes:
        _print_line({"change": change, "cursor": reader.cursor})


def _keeping(reader: Reader, kept: CursorFile | None, changes: Iterable[Change]) -> Iterator[Change]:
    """The position is kept when the next Change is asked for: the line of the one before is printed then."""
    for change in changes:
        yield change
        if kept is not None:
            kept.write(reader.cursor)


async def _print_kafka(source: KafkaSource, server: str | None, follow: bool, limit: int | None, json_output: bool) -> None:
    async with aclosing(kafka_changes(source, follow=follow, server=server, limit=limit)) as changes:
        async for change in changes:
            print_changes([change], json_output=json_output)


def _print_line(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()
