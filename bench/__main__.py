"""Names of suites enter; their tables leave on the terminal, and with --json all numbers in one file."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import rich_click as click
from rich.console import Console

from bench.context import Context
from bench.measures import Measure, show, write_json
from bench.stores import KINDS

SUITES = {
    "ids": "bench.ids",
    "persistence": "bench.persistence",
    "commit": "bench.commit",
    "index": "bench.index_suite",
    "feed": "bench.feed",
}
"""In the order in which they run. A suite is a module with `TITLE` and `run`."""


class Suite(Protocol):
    TITLE: str

    def run(self, context: Context) -> Iterator[Measure]: ...


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("suites", nargs=-1, type=click.Choice(sorted(SUITES)))
@click.option("--backend", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this database; may be repeated.")
@click.option("--seconds", default=2.0, show_default=True, help="How long each rate is measured.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all numbers there too.")
def main(suites: tuple[str, ...], kinds: tuple[str, ...], seconds: float, json_file: Path | None) -> None:
    """Measure what one machine can do. Without SUITES all of them run."""
    context = Context(seconds, kinds or KINDS, Console())
    measures: list[Measure] = []
    for name in [name for name in SUITES if not suites or name in suites]:
        suite = cast(Suite, importlib.import_module(SUITES[name]))
        found = list(suite.run(context))
        show(suite.TITLE, found, context.console)
        measures += found
    if json_file is not None:
        write_json(json_file, measures)


if __name__ == "__main__":
    main(prog_name="python -m bench")
