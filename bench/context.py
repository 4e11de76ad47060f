"""Command line options leave as what every suite needs: how long, on which databases, and where to talk."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console


class Context(NamedTuple):
    seconds: float
    """How long each rate is measured."""
    kinds: tuple[str, ...]
    console: Console
