"""`headwater up`: the whole system as supervised processes of this machine, on one screen."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import get_args

import rich_click as click

from headwater.cli.maintenance.maintain_output import Amount
from headwater.cli.output import as_json
from headwater.settings import Settings
from headwater.up.screen import Lines, screen
from headwater.up.supervisor import ProcessStatus, Supervisor
from headwater.up.system import Database, System, SystemOptions, make_system
from headwater.up.up_lock import held_folder

LOOK_SECONDS = 0.1


@click.command()
@click.option("--dir", "folder", metavar="DIR", help="Folder for everything. Default: next to the folder of `headwater dev`.")
@click.option(
    "--database", type=click.Choice(get_args(Database)), default="sqlite", show_default=True, help="The database of the store."
)
@click.option(
    "--port", default=8181, show_default=True, type=click.IntRange(0, 65_535), help="Port of the server; 0: a free one."
)
@click.option(
    "--every", metavar="SECONDS", type=Amount(0), default=1.0, show_default=True, help="Time between rounds of the stream."
)
@click.option(
    "--maintain-every", metavar="HOURS", type=Amount(0, min_open=True), default=6.0, show_default=True,
    help="Time between expiries, purges and sweeps.",
)  # fmt: skip
@as_json
@click.pass_obj
def command(
    settings: Settings,
    folder: str | None,
    database: Database,
    port: int,
    every: float,
    maintain_every: float,
    json_output: bool,
) -> None:
    """Run the whole system here: store, Kafka, registry, server, publisher, live views and the stream on Spark.

    Processes that end are restarted. Ctrl-C or SIGTERM stops all of them in order; the data stay in the folder. It is for
    development: the server requires no token, and everything listens only on this machine. --json prints a line for each
    change, and one with the event `ready` when everything is ready for the first time.
    """
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    place = Path(folder or Path(settings.dev_dir).parent / "up").absolute()
    options = SystemOptions(folder=place, database=database, port=port, every_seconds=every, hours=maintain_every)
    with held_folder(place) as lock:
        system = make_system(settings, options)
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, stop)
        _run(system, place, lock, stopping, json_output)


def _run(system: System, place: Path, lock: int, stopping: threading.Event, json_output: bool) -> None:
    watchers: list[Lines] = []

    def watch(status: ProcessStatus) -> None:
        for lines in watchers:
            lines.state(status)

    supervisor = Supervisor(system.processes, lock, watch=watch)
    title, note = "headwater up (Ctrl-C stops it)", f"data and logs are in {place}; docs/pipeline.md shows a first commit"
    with screen(lambda: supervisor.statuses, json_output=json_output, title=title, note=note) as lines:
        watchers.append(lines)
        began = time.monotonic()
        supervisor.start()
        was_ready = False
        try:
            while not stopping.wait(LOOK_SECONDS):
                if not was_ready and supervisor.is_ready:
                    was_ready = True
                    lines.ready(time.monotonic() - began, supervisor.statuses)
        finally:
            supervisor.stop()
    lines.end()
