"""Collects measures one by one, for a table and for JSON that can be compared."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table


class Measure(msgspec.Struct, frozen=True):
    """`subject` names the column of a table (a backend, a size), `name` and `unit` its row."""

    suite: str
    subject: str
    name: str
    value: float
    unit: str


def rate(work: Callable[[], int], seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """How much of it is done in a second; `work` does a portion and says how many that was. One portion is not counted.
    With `time.thread_time` as the clock, it is seconds of one core, which other programs cannot take away."""
    work()
    done, started = 0, clock()
    while (elapsed := clock() - started) < seconds or not done:
        done += work()
    return done / elapsed


def rate_in_threads(works: Sequence[Callable[[], int]], seconds: float) -> float:
    """The same with one thread for each work, all at once. A fault in one is raised here."""
    done = [0] * len(works)
    started = time.perf_counter()

    def run(n: int) -> None:
        while time.perf_counter() < started + seconds or not done[n]:
            done[n] += works[n]()

    run_all([partial(run, n) for n in range(len(works))])
    return sum(done) / (time.perf_counter() - started)


def run_all(works: Iterable[Callable[[], object]]) -> None:
    """Each on a thread of its own, to the end. A fault in one is raised here."""
    faults: list[Exception] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def show(title: str, measures: Iterable[Measure], console: Console, missed: Collection[Measure] = ()) -> None:
    """One column for each subject, one row for each name and unit, both in order of appearance. Missed goals stand out."""
    subjects: dict[str, None] = {}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for measure in measures:
        subjects.setdefault(measure.subject)
        shown = f"[red]✗ {_shown(measure.value)}[/red]" if measure in missed else _shown(measure.value)
        rows.setdefault((measure.name, measure.unit), {})[measure.subject] = shown
    table = Table()
    table.add_column("")
    table.add_column("", style="dim")
    for subject in subjects:
        table.add_column(subject, justify="right")
    for (name, unit), values in rows.items():
        table.add_row(name, unit, *[values.get(subject, "–") for subject in subjects])
    console.print(f"\n[bold]{title}[/bold]")
    console.print(table)


def write_json(file: Path, measures: Sequence[Measure], missed: Sequence[str] = ()) -> None:
    machine = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }
    content = {"machine": machine, "measures": msgspec.to_builtins(measures), "missed": list(missed)}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")


def _shown(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
