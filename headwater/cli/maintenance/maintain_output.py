"""What the `headwater maintain` commands share: flags, a progress bar on stderr, and reports of failures."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import rich_click as click
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from headwater.cli.output import echo, print_table
from headwater.persistence.rows import realm_name_of

if TYPE_CHECKING:
    from headwater.streaming.files.file_groups import FileGroup

EXIT_FAILURES = 1
FAILURES_SHOWN = 20

in_realms = click.option(
    "--realm",
    "realms",
    multiple=True,
    metavar="NAME",
    help="Only this realm; may be repeated. Default: all realms.",
)
dry_run = click.option("--dry-run", is_flag=True, help="Change nothing; show what would be done.")
supersede = click.option("--supersede", metavar="RUN", help="Take over from this run, which seems to be alive.")


def realm_labels(instances: Iterable[str]) -> dict[str, str]:
    """Instance → what a table calls it: the realm's name, unless another instance has the same."""
    names = {instance: realm_name_of(instance) for instance in instances}
    times = Counter(names.values())
    return {instance: name if times[name] == 1 else instance for instance, name in names.items()}


class Amount(click.FloatRange):
    """A number that can be counted with: `nan` and `inf` are floats too, and compare with no bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        amount = float(super().convert(value, param, ctx))
        if not math.isfinite(amount):
            self.fail(f"{amount} is not an amount.", param, ctx)
        return amount

    def _describe_range(self) -> str:
        """For --help, where click shows a missing bound as `x<=None`."""
        return "" if self.min is None and self.max is None else super()._describe_range()


class Bar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def add(self, what: str, count: int) -> None:
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=None)
        self._progress.advance(self._tasks[what], count)


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """Only on a terminal: logs are spared."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        yield Bar(progress)


def merged_failures(failures: Sequence[str]) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in failures[:FAILURES_SHOWN]:
        console.print(f"failed: {line}", markup=False)


def failed_if(failures: Sequence[str]) -> None:
    """Exit code 1: something was left for the next run."""
    if failures:
        merged_failures(failures)
        sys.exit(EXIT_FAILURES)


def print_file_groups(groups: Iterable[FileGroup]) -> None:
    """What a dry run would delete."""
    columns = ["table", "kind", "files", "deletable now", "known bytes", "example"]
    rows = [(it.table, it.kind, it.files, it.confirmed, it.bytes, name) for it in groups for name in it.examples[:1]]
    if rows:
        print_table(columns, rows, title="Would be deleted")
    else:
        echo("Nothing would be deleted.")
