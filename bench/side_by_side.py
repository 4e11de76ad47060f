"""Compares commits of this version with those of another checkout, in short turns that alternate.

`python -m bench.side_by_side OTHER_CHECKOUT [--backend memory] [--turns 20] [--callers 8]`. Each version runs in a
process of its own, on a store of its own, and makes a fixed number of commits per turn. Only one works at a time, so
both meet the same machine. The lowest CPU time of a commit and the best rate count, because other programs only ever add.
Run it with `PYTHONPATH` unset; the other checkout needs no environment of its own if its requirements are the same.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import rich_click as click

COMMITS = 400
"""Of one turn, over all callers."""
WARM_TURNS = 3

PROGRAM = """
import itertools, sys, threading, time
import headwater

url, callers = sys.argv[1], int(sys.argv[2])
numbers = itertools.count()


def put(table):
    number = next(numbers)
    location = f"s3://lake/db/table_{table:05d}/metadata/{number:08d}.metadata.json"
    table_content = headwater.IcebergTable(location, snapshot_id=number, schema_id=0, spec_id=0, sort_order_id=0)
    return headwater.Put((f"table_{table:05d}",), table_content)


with headwater.open(url, create=True) as engine:
    branch = engine.ensure_realm("bench").ensure_catalog("lake").branch()
    branch.commit([put(table) for table in range(1_000)])

    def commit(count):
        for number in range(count):
            branch.commit([put(number * 7 % 1_000)])

    for line in sys.stdin:
        commits = int(line)
        threads = [threading.Thread(target=commit, args=(commits // callers,)) for _ in range(callers)]
        wall, cpu = time.perf_counter(), time.process_time()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print((time.perf_counter() - wall) / commits, (time.process_time() - cpu) / commits, flush=True)
"""


class Turn(NamedTuple):
    wall_micros: float
    """Of one commit."""
    cpu_micros: float


class Version:
    def __init__(self, checkout: Path, url: str, callers: int) -> None:
        environ = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONWARNINGS": "ignore"}
        command = [sys.executable, "-c", PROGRAM, url, str(callers)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=checkout, env=environ)
        self.turns: list[Turn] = []

    def turn(self, commits: int) -> Turn:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{commits}\n")
        self._process.stdin.flush()
        wall, cpu = self._process.stdout.readline().split()
        return Turn(1e6 * float(wall), 1e6 * float(cpu))

    def close(self) -> None:
        self._process.communicate()


def compare(checkouts: Sequence[Path], backend: str, callers: int, turns: int, commits: int) -> list[list[Turn]]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        urls = [f"sqlite:///{folder}/{number}.db" if backend == "sqlite" else "memory://" for number in range(len(checkouts))]
        versions = [Version(checkout, url, callers) for checkout, url in zip(checkouts, urls, strict=True)]
        for number in range(WARM_TURNS + turns):
            # Who goes first changes each time: the second of a pair finds the caches of the processor colder.
            for version in versions if number % 2 else reversed(versions):
                turn = version.turn(commits)
                if number >= WARM_TURNS:
                    version.turns.append(turn)
        for version in versions:
            version.close()
        return [version.turns for version in versions]


@click.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--backend", "backends", multiple=True, type=click.Choice(["memory", "sqlite"]), default=("memory", "sqlite"))
@click.option("--callers", multiple=True, type=int, default=(1, 8), show_default=True)
@click.option("--turns", default=20, show_default=True)
@click.option("--commits", default=COMMITS, show_default=True, help="Of each turn.")
def main(other: Path, backends: tuple[str, ...], callers: tuple[int, ...], turns: int, commits: int) -> None:
    """Commits of OTHER, and of this checkout beside them."""
    click.echo(f"load average {os.getloadavg()[0]:.1f}; µs a commit, lowest (median) of {turns} turns")
    for backend in backends:
        for count in callers:
            before, after = compare([other.resolve(), Path.cwd()], backend, count, turns, commits)
            for name in Turn._fields:
                old, new = ([getattr(turn, name) for turn in found] for found in (before, after))
                click.echo(
                    f"{backend:7} {count} callers  {name:12} {min(old):7.0f} ({statistics.median(old):.0f}) → "
                    f"{min(new):7.0f} ({statistics.median(new):.0f})  {min(new) / min(old):.3f} ×"
                )


if __name__ == "__main__":
    main()
