"""What every suite needs, from the command line: durations, databases and the console."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console


class Context(NamedTuple):
    seconds: float
    """How long each rate is measured."""
    kinds: tuple[str, ...]
    console: Console
    tables: tuple[int, ...] = (100_000,)
    """Sizes of the catalogs that are compared with a small one."""
    entries: int = 100_000
    """Of the long log."""
    objects: tuple[int, ...] = (100_000,)
    """Sizes of the stores that are swept."""
