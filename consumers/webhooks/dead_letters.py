"""Changes that no receiver took, kept in a file of JSON lines: each line is on disk before the next Change is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headwater.consumers.durable_files import append_line
from headwater.consumers.webhooks.cloud_event import CloudEvent
from headwater.schemas.errors import InvalidInput


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    time: str
    attempts: int
    error: str
    event: CloudEvent


_decode = msgspec.json.Decoder(DeadLetter).decode


def bury(path: Path, letter: DeadLetter) -> None:
    append_line(path, msgspec.json.encode(letter))


def read_dead_letters(path: Path, skipped: Callable[[int], None]) -> Iterator[DeadLetter]:
    """`skipped` is called with the number of each truncated line. A truncated letter is not lost: its sender died before it
    moved its cursor, and sends that Change again. A file without any letter is `InvalidInput`."""
    letters, torn = 0, 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                letter = _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                torn += 1
                skipped(number)
                continue
            letters += 1
            yield letter
    if torn and not letters:
        raise InvalidInput(f"{path} holds no dead letter.", field="FILE", remedy="Name the dead-letter file.")
