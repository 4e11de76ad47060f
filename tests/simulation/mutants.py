"""Each mutant takes one fix out of the product; a seed then breaks the promise that the fix was made for.

A mutant shows two things: that the fix is needed, and that the simulation would have found the defect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from headwater.consumers.clients.reader import Reader
from headwater.persistence.backend import Moves
from headwater.streaming.archive.archive_targets import ParquetArchive
from headwater.streaming.expire import pins
from tests.simulation.runtime.virtual import VirtualClock
from tests.simulation.world.database import Connection

LATE_MICROS = 5_000_000


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    apply: Callable[[], None]
    profile: str
    seed: int
    promise: str
    """That is broken without the fix."""


def moves_by_clock() -> None:
    """h2: moves are found by the time at which they were sent, by the writer's clock."""

    def moves_since(self: Connection, realm: str, token: Any) -> Moves:
        now = VirtualClock().now_micros()
        since = now if token is None else token[0] - LATE_MICROS
        sent = self._database.sent_at.items()
        return self._read(
            "moves", lambda: Moves((now,), {name: None for (of, name), at in sent if of == realm and at >= since})
        )

    Connection.moves_since = moves_since  # type: ignore[method-assign]


def unseen_is_unpinned() -> None:
    """n6: pointers that the publisher has not seen are not held for it."""
    known = pins.publisher_pins
    pins.publisher_pins = lambda backend, realm, now, created_at=None: known(backend, realm, now)  # type: ignore[assignment]


def beginning_forgotten() -> None:
    """n10: where a webhook began is kept nowhere before its first delivery."""
    begin = Reader.begin

    def begin_and_forget(self: Reader, **options: Any) -> str:
        begin(self, **options)
        return ""

    Reader.begin = begin_and_forget  # type: ignore[method-assign]


def manifest_undecided() -> None:
    """n11: a manifest is written without proof of the lease, and files without one are removed at once."""
    append, remove = ParquetArchive.append, ParquetArchive.remove_unfinished
    ParquetArchive.append = lambda self, changes, position, decide: append(self, changes, position, lambda _: None)  # type: ignore[method-assign]
    ParquetArchive.complete = lambda self, decided: None  # type: ignore[method-assign]
    ParquetArchive.remove_unfinished = lambda self: remove(self, 0.0)  # type: ignore[method-assign,assignment]


MUTANTS = {
    "h2": Mutant(apply=moves_by_clock, profile="commits", seed=4, promise="notice"),
    "n6": Mutant(apply=unseen_is_unpinned, profile="pins", seed=3, promise="pins"),
    "n10": Mutant(apply=beginning_forgotten, profile="webhooks", seed=5, promise="webhook"),
    "n11": Mutant(apply=manifest_undecided, profile="archives", seed=4, promise="archive"),
}
