"""`headwater stream`: one long-running Spark application that maintains every realm of a store."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click

from headwater.cli.maintenance.maintain_output import Amount, failed_if, in_realms
from headwater.cli.output import as_json, print_json, print_table, show_done
from headwater.cli.target import the_store
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.streaming.stream.stream_app import StreamApp
    from headwater.streaming.stream.stream_status import StreamStatus

UNIT_SECONDS = {"SECONDS": 1, "HOURS": 3_600}


def _every(flag: str, unit: str, default: float, what: str) -> Callable[[Any], Any]:
    """An option for a time between two runs, which the command gets in seconds under the name in `StreamOptions`."""
    name = flag.removeprefix("--").removesuffix("-every").replace("-", "_")
    return click.option(
        flag,
        "every_seconds" if flag == "--every" else f"{name}_seconds",
        metavar=unit,
        type=Amount(0, min_open=unit == "HOURS"),
        default=default,
        show_default=True,
        callback=lambda _context, _option, value: value * UNIT_SECONDS[unit],
        help=f"Time between {what}.",
    )


@click.command()
@in_realms
@click.option("--kafka", is_flag=True, help="Read published realms from their topics (setting kafka_bootstrap), not the log.")
@_every("--every", "SECONDS", 10.0, "rounds over realms")
@_every("--expire-every", "HOURS", 6.0, "expiries")
@_every("--purge-every", "HOURS", 6.0, "purges")
@_every("--sweep-every", "HOURS", 6.0, "sweeps")
@_every("--files-every", "HOURS", 24.0, "sweeps of files")
@_every("--follow-files-every", "SECONDS", 0.0, "readings of new table versions into the manifest cache. 0 means never")
@click.option("--archive", metavar="FOLDER", default="", help="Also archive every realm below this folder.")
@_every("--archive-every", "HOURS", 1.0, "archive runs")
@click.option("--batch", type=click.IntRange(1), default=100_000, show_default=True, help="The most Changes per batch.")
@click.option("--parallel", type=click.IntRange(1, 64), default=2, show_default=True, help="Realms that are updated at once.")
@click.option("--once", is_flag=True, help="Run one round and every task now, then exit.")
@click.option("--master", metavar="URL", help="Run on this Spark cluster. Default: the setting spark_master.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address of the status page.")
@click.option("--port", default=6067, show_default=True, type=click.IntRange(0, 65_535), help="The port of the status page.")
@as_json
@click.pass_obj
def command(
    settings: Settings,
    /,
    realms: tuple[str, ...],
    kafka: bool,
    once: bool,
    master: str | None,
    host: str,
    port: int,
    json_output: bool,
    **chosen: Any,
) -> None:
    """Keep the retained sets of all realms current, and expire, purge, sweep (also tables' files) and archive on schedules.

    One Spark session serves all realms. New realms are picked up, a realm that fails does not stop the others, and after
    a kill the next process continues. SIGTERM ends it after the current batch. The status page shows lag by realm: / and
    /metrics.
    """
    from headwater.schemas.entry_ids import time_text
    from headwater.streaming.stream.stream_status import StreamStatus
    from headwater.wiring.kafka_readers import checked_client
    from headwater.wiring.stream import StreamOptions, check_stream, stream_app, stream_settings
    from headwater.wiring.sweeps import quiet_spark

    settings = stream_settings(settings, master)
    options = StreamOptions(realms=tuple(realms), once=once, **chosen)
    client = checked_client(settings) if kafka else None
    stopping = threading.Event()
    with the_store(settings) as store:
        check_stream(settings, store, client, realms)
        starting = StreamStatus(started_at=time_text(store.clock.now_micros()))
        # ⚠ The page comes before Spark: a port in use is reported at once, and `/livez` answers while Spark starts.
        with contextlib.nullcontext(_Shown()) if once else _page(host, port, starting, json_output) as shown:
            spark = quiet_spark(settings)
            try:
                shown.app = stream_app(settings, store, spark, client, options, stopping)
                if once:
                    _run_once(shown.app, json_output)
                else:
                    _run(shown.app, stopping)
            finally:
                with contextlib.suppress(Exception):  # a JVM that has ended cannot be stopped
                    spark.stop()


def _run_once(app: StreamApp, json_output: bool) -> None:
    failures = app.run_once()
    status = app.status
    if json_output:
        print_json(status)
    else:
        rows = [(one.realm, one.source, one.step, one.rows, one.behind) for one in status.realms.values()]
        print_table(["realm", "source", "step", "rows", "behind"], rows)
    failed_if(failures)


class _Shown:
    """What the page shows, once Spark has started."""

    app: StreamApp | None = None


@contextlib.contextmanager
def _page(host: str, port: int, starting: StreamStatus, json_output: bool) -> Iterator[_Shown]:
    from headwater.streaming.stream.stream_status import metrics_text
    from headwater.wiring.status_page import StatusSource, status_page

    shown = _Shown()

    def status() -> StreamStatus:
        return starting if shown.app is None else shown.app.status

    source = StatusSource(status=status, metrics=lambda: metrics_text(status()), is_ready=lambda: status().is_ready)
    with status_page(host, port, source) as listening:
        address = f"http://{host}:{listening}/"
        show_done(f"status: {address}", {"status": address}, json_output)
        sys.stdout.flush()
        yield shown


def _run(app: StreamApp, stopping: threading.Event) -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stopping.set())
    failure = app.run()
    failed_if([failure] if failure else [])
