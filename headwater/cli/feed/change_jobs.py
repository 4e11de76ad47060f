"""Runs a command of the user's for each Change, with its JSON on standard input."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable

import msgspec
from rich.console import Console

from headwater.cli.plain_text import plain_line
from headwater.schemas.change import Change
from headwater.schemas.errors import InvalidInput

EXIT_JOB_FAILED = 1

ShowChanges = Callable[[Iterable[Change], bool], None]
"""Takes Changes as they come, and whether each should name its pointer."""


def each_to(command: str) -> ShowChanges:
    """⚠ Ends this command if the job fails: a position moves past a Change only when its job has succeeded."""
    words = _words(command)

    def run_each(changes: Iterable[Change], _: bool) -> None:
        for change in changes:
            ended = subprocess.run(words, input=msgspec.json.encode(change) + b"\n", check=False)  # noqa: S603 - the user asks for it
            if ended.returncode:
                said = f"{words[0]} ended with {ended.returncode} at seq {change.seq} of {change.pointer}; its job is not done"
                Console(stderr=True, soft_wrap=True, highlight=False).print(plain_line(said), markup=False)
                sys.exit(EXIT_JOB_FAILED)

    return run_each


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(f"{command!r} cannot be read: {error}.", field="run", remedy="Close every quote.") from None
    if not words or shutil.which(words[0]) is None:
        raise InvalidInput(f"{command!r} names no program.", field="run", remedy="Name one, with its path if it has one.")
    return words
