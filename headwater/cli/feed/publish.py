"""`headwater publish`: publishes every change to Kafka, and shows its status on the terminal."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import rich_click as click

from headwater.cli.feed.publish_status import show_publish_status
from headwater.cli.output import as_json, echo, print_json, print_table
from headwater.cli.target import the_store
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store
from headwater.producer.publisher.factory import make_publisher
from headwater.schemas.errors import InvalidInput, KafkaUnavailable
from headwater.settings import Settings
from headwater.wiring.kafka_readers import checked_client
from headwater.wiring.publishing import publisher_options
from headwater.wiring.stores import warn

if TYPE_CHECKING:
    from headwater.producer.publisher.options import PublisherOptions
    from headwater.producer.publisher.publisher import Publisher
    from headwater.producer.publisher.shards.shard_context import ShardStatus
    from headwater.wiring.table_topics import TableTopicWriters

STATUS_SECONDS = 10.0


@click.command()
@click.option("--kafka", "bootstrap", metavar="BOOTSTRAP", help="Brokers, host:port,…; or the setting kafka_bootstrap.")
@click.option("--realm", "realms", multiple=True, metavar="NAME", help="Only this realm; may be repeated. Default: all realms.")
@click.option("--once", is_flag=True, help="Publish the current log, then exit.")
@click.option(
    "--processes", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of processes that share the work."
)
@click.option("--tables", is_flag=True, help="Also write the topic with the newest state of every table.")
@click.option(
    "--status",
    "show_status",
    is_flag=True,
    help="Show topics, lag and alarms from the store, or with --kafka from the brokers; publish nothing.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Serve the status on this port of this machine: /, /metrics, /readyz."
)
@click.option("--restart", metavar="REALM", help="Begin a new generation of a realm at its oldest entries, then exit.")
@click.option(
    "--access-topic/--one-topic",
    "apart",
    default=None,
    help="With --restart: from then on keep access records in a separate topic, or in the commits topic. Default: unchanged.",
)
@as_json
@click.pass_obj
def command(
    settings: Settings,
    bootstrap: str | None,
    realms: tuple[str, ...],
    once: bool,
    processes: int,
    tables: bool,
    show_status: bool,
    port: int | None,
    restart: str | None,
    apart: bool | None,
    json_output: bool,
) -> None:
    """Publish every change to Kafka, each once and in order per branch, in topics that it creates for every realm.

    Several publishers may run at once: they share the work and take over from one that dies. Use --restart after a store
    was restored from a backup and its shards have stopped with an alarm.
    """
    if apart is not None and restart is None:
        raise InvalidInput("a layout is changed with a new generation.", field="access_topic", remedy="Add --restart REALM.")
    with the_store(settings) as store:
        if show_status:
            show_publish_status(store, publisher_options(settings, bootstrap) if bootstrap else None, json_output)
        elif restart is not None:
            _restart(store, restart, apart)
        else:
            for name in realms:
                Realms(store).get(name)
            options = publisher_options(settings, bootstrap)
            _check_brokers(settings, bootstrap, once)
            publisher = make_publisher(store, options, realms=realms)
            keepers = _keepers(store, options, realms) if tables else None
            with _others(processes - 1), _page(publisher, port):
                _run(publisher, keepers, once, json_output)


def _check_brokers(settings: Settings, bootstrap: str | None, once: bool) -> None:
    """Brokers that are away are waited for, unless there is an end to wait for."""
    try:
        checked_client(settings, bootstrap)
    except KafkaUnavailable as away:
        if once:
            raise
        warn(f"{away} Publishing begins when one answers.")


@contextmanager
def _page(publisher: Publisher, port: int | None) -> Iterator[None]:
    """Shown by the first of several processes, for itself."""
    if port is None:
        yield
        return
    from headwater.wiring.publish_status import publisher_status
    from headwater.wiring.status_page import status_page

    with status_page("127.0.0.1", port, publisher_status(publisher)):
        yield


def _keepers(store: Store, options: PublisherOptions, realms: tuple[str, ...]) -> TableTopicWriters:
    from headwater.wiring.table_topics import TableTopicWriters

    return TableTopicWriters(store, options, realms)


def _run(publisher: Publisher, keepers: TableTopicWriters | None, once: bool, json_output: bool) -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: publisher.stop())
    if once:
        shards = publisher.publish_once()
        if keepers is not None:
            keepers.keep_once()
        _show_shards(shards, json_output)
        return
    ended = threading.Event()
    _every(STATUS_SECONDS, ended, lambda: _log_lag(publisher))
    if keepers is not None:
        keepers.start()
    publisher.run()
    ended.set()
    if keepers is not None:
        keepers.close()


@contextmanager
def _others(count: int) -> Iterator[None]:
    """Runs the same command in further processes while this one works, and stops them when it ends."""
    given = [argument for argument in sys.argv[1:] if argument != "--tables" and not argument.startswith("--port=")]
    if "--port" in given:
        del given[given.index("--port") : given.index("--port") + 2]
    command = [sys.executable, "-m", "headwater", *given, "--processes", "1"]
    started = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(count)]  # noqa: S603
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def _every(seconds: float, ended: threading.Event, step: Callable[[], None]) -> None:
    def loop() -> None:
        while not ended.wait(seconds):
            step()

    threading.Thread(target=loop, name="publish-status", daemon=True).start()


def _log_lag(publisher: Publisher) -> None:
    shards = publisher.status()
    changes, lag = sum(shard.changes for shard in shards), sum(shard.lag_commits for shard in shards)
    oldest = max((shard.lag_seconds for shard in shards), default=0.0)
    states = ", ".join(sorted({str(shard.state) for shard in shards})) or "no shard"
    failure = f"; {publisher.failure}" if publisher.failure else ""
    logging.getLogger(__name__).info(
        "%d shards (%s), %d changes published, behind by %d changes and %.1f s%s",
        len(shards), states, changes, lag, oldest, failure,
    )  # fmt: skip


def _show_shards(shards: list[ShardStatus], json_output: bool) -> None:
    if json_output:
        print_json(shards)
        return
    columns = ["realm", "shard", "generation", "state", "pointers", "changes", "transactions"]
    print_table(columns, [(s.realm, s.shard, s.generation, s.state, s.pointers, s.changes, s.transactions) for s in shards])


def _restart(store: Store, name: str, apart: bool | None) -> None:
    from headwater.producer.publisher.assignment.generations import Generations

    before = Generations(store.backend, store.clock).restart(Realms(store).get(name).instance, apart=apart)
    echo(f"{name}: generation {before.number} ends as soon as a publisher sees this; the next begins at the oldest entries.")
