"""Shows one live line per server on a terminal, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from headwater.dev.kind import Report, silent


@contextmanager
def live_reports(names: Sequence[str]) -> Iterator[Callable[[str], Report]]:
    """Returns the progress report for each server; on stderr, so that stdout stays machine-readable."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: silent
        return
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.fields[server]:10}"), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        tasks = {name: progress.add_task("waiting", total=1, server=name) for name in dict.fromkeys(names)}

        def report_for(name: str) -> Report:
            def report(line: str) -> None:
                progress.update(tasks[name], description=line, completed=int(line == "running"))

            return report

        yield report_for
