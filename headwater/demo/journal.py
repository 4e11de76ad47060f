"""A writer's journal of its requests and their answers, readable after its death.

A line is flushed before the next step begins, so a killed writer has at most one commit whose outcome it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TextIO

import msgspec


class JournalEvent(StrEnum):
    TRIED = "tried"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    event: JournalEvent
    step: int
    request_id: str
    pointer: str
    operations: int = 0
    """How many operations the tried commit holds; 0 if its writer cannot know (a merge)."""
    seq: int = 0
    """Its position in the log, from the answer."""
    replayed: bool = False
    """It had landed before, although its first writer got no answer."""


class Journal:
    """One writer's file, open for writing."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("a", encoding="utf-8")

    def note(self, line: JournalLine) -> None:
        self._file.write(msgspec.json.encode(line).decode() + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_journal(path: Path) -> list[JournalLine]:
    """Complete lines only: the last one may still be being written."""
    if not path.exists():
        return []
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    return [msgspec.json.decode(line, type=JournalLine) for line in whole.splitlines()]


def acknowledged(lines: Iterable[JournalLine]) -> list[JournalLine]:
    return [line for line in lines if line.event is JournalEvent.ACKNOWLEDGED]


def in_flight(lines: list[JournalLine]) -> JournalLine | None:
    """The last commit that was tried, if its outcome is not recorded."""
    return lines[-1] if lines and lines[-1].event is JournalEvent.TRIED else None
