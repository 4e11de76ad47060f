"""Runs suites by name and prints their tables; --json also writes all numbers to one file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import rich_click as click
from rich.console import Console

from bench.context import Context
from bench.goals import goal_of, missed
from bench.measures import Measure, show, write_json
from bench.stores import KINDS

SUITES = {
    "ids": "bench.ids",
    "persistence": "bench.persistence",
    "commit": "bench.commit",
    "index": "bench.index_suite",
    "scale": "bench.scale",
    "feed": "bench.feed",
    "grpc": "bench.grpc",
    "fan-out": "bench.fan_out",
    "iceberg": "bench.iceberg",
    "nessie": "bench.nessie",
    "merge": "bench.merge",
    "workers": "bench.workers",
    "publish": "bench.publish",
    "maintain": "bench.maintenance",
    "retained": "bench.retained",
    "planning": "bench.planning",
    "directory": "bench.directory",
    "files": "bench.files",
    "file-scale": "bench.file_scale",
    "file-costs": "bench.file_costs",
}
"""In the order in which they run. A suite is a module with `TITLE` and `run`."""


class Suite(Protocol):
    TITLE: str

    def run(self, context: Context) -> Iterator[Measure]: ...


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("suites", nargs=-1, type=click.Choice(sorted(SUITES)))
@click.option("--backend", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this database; may be repeated.")
@click.option("--seconds", default=1.0, show_default=True, help="How long each rate is measured.")
@click.option(
    "--tables", multiple=True, type=int, default=(100_000,), show_default=True, help="Of a large catalog; repeatable."
)
@click.option("--entries", default=100_000, show_default=True, help="Of a long log.")
@click.option("--objects", multiple=True, type=int, default=(100_000,), show_default=True, help="To sweep; repeatable.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all numbers there too.")
def main(
    suites: tuple[str, ...],
    kinds: tuple[str, ...],
    seconds: float,
    tables: tuple[int, ...],
    entries: int,
    objects: tuple[int, ...],
    json_file: Path | None,
) -> None:
    """Measure what one machine can do, and compare it with the goals. Without SUITES all of them run.

    The goals for large stores take some minutes more: scale --tables 100000 --tables 500000 --entries 1000000.
    """
    context = Context(seconds, kinds or KINDS, Console(), tables, entries, objects)
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    context.console.print(f"[dim]{os.cpu_count()} cores, load average {load}: what else runs here takes from every rate.[/dim]")
    measures: list[Measure] = []
    for name in [name for name in SUITES if not suites or name in suites]:
        suite = cast(Suite, importlib.import_module(SUITES[name]))
        found = list(suite.run(context))
        show(suite.TITLE, found, context.console, [measure for measure, _ in missed(found)])
        measures += found
    lines = [
        f"{one.suite}, {one.subject}: {one.name}: {one.value:,.4g} {one.unit}, goal {goal}" for one, goal in missed(measures)
    ]
    reached = sum(goal_of(measure) is not None for measure in measures) - len(lines)
    context.console.print(f"\n{reached} goals met, {len(lines)} missed")
    for line in lines:
        context.console.print(f"[red]missed[/red]  {line}", highlight=False)
    if json_file is not None:
        write_json(json_file, measures, lines)


if __name__ == "__main__":
    main(prog_name="python -m bench")
