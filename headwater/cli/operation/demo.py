"""`headwater demo`: shows a catalog under several writers, and that a kill -9 loses nothing."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.cli.catalogs.changes_output import change_line
from headwater.cli.output import as_json, print_json
from headwater.demo.maintenance import MaintenanceResult, run_maintenance
from headwater.demo.run import STORE_FILE, DemoPlan, run_demo
from headwater.demo.summary import Summary, summarize, with_upkeep
from headwater.demo.writer_processes import NAMES
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput
from headwater.settings import Settings

EXIT_PROMISE_BROKEN = 1
BRANCH_WIDTH = 16
OBJECTS = {
    "entry": "entries of logs",
    "content": "contents of tables",
    "idx-s": "parts of indexes",
    "idx-d": "directories of indexes",
    "entry-ops": "operations stored apart",
}


@click.command()
@click.option("--keep", metavar="DIR", help="Keep the store and the writers' journals in this folder.")
@click.option("--writers", default=4, show_default=True, type=click.IntRange(2, len(NAMES)), help="Processes that commit.")
@click.option("--steps", default=24, show_default=True, type=click.IntRange(8, 100), help="Commits of each process.")
@click.option("--pipeline", is_flag=True, help="Show the whole system instead: commits through Kafka and Spark to the purge.")
@click.option("--commits", default=10, show_default=True, type=click.IntRange(1, 1_000), help="Commits of --pipeline.")
@click.option("--no-spark", is_flag=True, help="Find what must stay by a walk, even if Java is installed.")
@as_json
@click.pass_obj
def command(
    settings: Settings,
    keep: str | None,
    writers: int,
    steps: int,
    pipeline: bool,
    commits: int,
    no_spark: bool,
    json_output: bool,
) -> None:
    """Show that nothing is lost: several processes commit, a follower sees every change, one writer is killed with -9.

    Then a quarter's history is streamed, expired and swept. The demo uses new SQLite stores, needs no server and takes
    less than a minute. At the end, every acknowledged commit is looked up in the log, and every retained state is
    compared with what it was before. Exit code 1 if a promise was broken.

    --pipeline starts the system of `headwater up` in a temporary folder, and shows when each commit arrives at a poller,
    an SSE reader, a Kafka group, a live view and the retained set, and the purge that follows. It needs Java and takes a
    minute or two.
    """
    console = Console(highlight=False, soft_wrap=True, quiet=json_output)

    def say(text: str) -> None:
        console.print(f"\n── {text} ──\n", style="bold", markup=False)

    if pipeline:
        _show_pipeline(settings, keep, commits, console, say, json_output)
        return
    with _folder(keep) as folder:
        happened = run_demo(
            folder, DemoPlan(writers=writers, steps=steps), show=lambda change: console.print(_line(change)), say=say
        )
        summary = with_upkeep(summarize(happened), run_maintenance(folder, say, use_spark=not no_spark))
    if json_output:
        print_json(summary)
    else:
        _print_summary(console, summary, kept=keep is not None)
    if not summary.all_kept:
        sys.exit(EXIT_PROMISE_BROKEN)


def _show_pipeline(
    settings: Settings, keep: str | None, commits: int, console: Console, say: Callable[[str], None], json_output: bool
) -> None:
    from headwater.demo.pipeline import median_and_max, run_pipeline

    def show(line: str) -> None:
        console.print(line, markup=False)

    with _folder(keep) as folder:
        result = run_pipeline(settings, folder, say, show, commits=commits)
    if json_output:
        print_json(result)
    else:
        table = Table("reader", "arrived", "median", "longest", header_style="bold", title="Arrival after a commit's answer")
        for name, seconds in result.arrivals.items():
            median, longest = median_and_max(seconds)
            table.add_row(name, f"{len(seconds)} of {result.commits}", f"{median:.2f} s", f"{longest:.2f} s")
        console.print(table)
        console.print(
            f"All processes were ready after {result.ready_seconds:.0f} s. The next sweep ended {result.purge_seconds:.0f} s"
        )
        console.print(
            f"after the last commit; {result.purged} rows are purged: {result.rows_before} before, {result.rows_after} now."
        )
        for check in result.checks:
            console.print(f"{'kept' if check.kept else 'BROKEN'}: {check.promise} ({check.detail})", markup=False)
    if not result.all_kept:
        sys.exit(EXIT_PROMISE_BROKEN)


def _line(change: Change) -> Text:
    return Text.assemble((f"{change.pointer.partition('/heads/')[2]:<{BRANCH_WIDTH}}", "cyan"), change_line(change))


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="headwater-demo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    path = Path(keep).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"{keep} cannot be made: {error.strerror}.", field="--keep", remedy="Name a folder.") from error
    if any(path.iterdir()):
        raise InvalidInput(f"{keep} is not empty.", field="--keep", remedy="Name a new folder: the demo starts afresh.")
    yield path


def _print_summary(console: Console, summary: Summary, *, kept: bool) -> None:
    console.print()
    table = Table("what happened", "", header_style="bold", title="Summary", title_justify="left")
    for row in _happened(summary):
        table.add_row(*row)
    console.print(table)
    if summary.upkeep is not None:
        _print_upkeep(console, summary.upkeep)
    promises = Table("", "promise", "how it was checked", header_style="bold", title="Promises", title_justify="left")
    for check in summary.checks:
        promises.add_row("[green]kept[/]" if check.kept else "[bold red]BROKEN[/]", check.promise, check.detail)
    console.print(promises)
    verdict = "Every promise was kept." if summary.all_kept else "A promise was broken: please report it with the store."
    console.print(f"{verdict} It took {summary.seconds_in_all} s.", style="bold")
    if kept:
        console.print(f"Look around: headwater --store {summary.store} log")


def _print_upkeep(console: Console, upkeep: MaintenanceResult) -> None:
    title = f"Maintenance of {upkeep.days} days, of which {upkeep.kept_days} are kept"
    table = Table("objects", "before", "after", "deleted", header_style="bold", title=title, title_justify="left")
    for name in sorted(upkeep.before):
        before, after = upkeep.before[name], upkeep.after.get(name, 0)
        table.add_row(OBJECTS.get(name, name), str(before), str(after), str(before - after))
    total_before, total_after = sum(upkeep.before.values()), sum(upkeep.after.values())
    table.add_section()
    table.add_row("all", str(total_before), str(total_after), str(upkeep.purged), style="bold")
    console.print(table)
    console.print(
        f"{upkeep.changes} changes; {upkeep.expired} of them are older than {upkeep.kept_days} days. {_found(upkeep)}\n"
    )


def _found(upkeep: MaintenanceResult) -> str:
    if upkeep.without_spark:
        return f"What must stay was found by walking, without Spark: {upkeep.without_spark}"
    return f"What must stay was found by streaming {upkeep.streamed} of them through Spark."


def _happened(summary: Summary) -> Iterator[tuple[str, str]]:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.kinds.items()))
    yield "writers", f"{summary.writers} processes on one {STORE_FILE}, and one follower"
    yield "changes", f"{summary.changes} on {summary.branches} branches: {kinds}"
    yield "operations", f"{summary.operations}; {summary.tables} tables are on main now"
    yield "conflicts", f"{summary.conflicts} commits lost a race, were refused as conflicts, read again and were repeated"
    yield "kill -9", _fate(summary)
    yield "follower", f"half of all changes were shown within {summary.follower_delay_seconds * 1_000:.0f} ms of their commit"


def _fate(summary: Summary) -> str:
    killed = summary.killed
    if killed.in_flight is None:
        return f"{killed.writer}, between two commits; a new process continued"
    landed = "had landed" if summary.successor_found_it else "had not landed"
    again = "was told so" if summary.successor_found_it else "committed it"
    return f"{killed.writer}, waiting for an answer; its last commit {landed}, and its successor {again}"
