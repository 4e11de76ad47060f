"""Follows every branch of a catalog that other processes write to: each Change once, in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from headwater.consumers.clients.chain import Chain
from headwater.embedded import CatalogHandle
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position
from headwater.schemas.entry_ids import micros_of

PAGE_CHANGES = 500
DISCOVER_SECONDS = 0.25
"""How often new branches are looked for; branches that are known cost the store no query."""


class Follower:
    """Every frame goes through the chain check: a frame that does not follow from what was seen before stops the demo."""

    def __init__(self, lake: CatalogHandle, clock_micros: Callable[[], int]) -> None:
        self.seen: dict[str, list[str]] = {}
        """Entry ids by pointer, as they came."""
        self.delays_micros: list[int] = []
        """From the time in the entry until it was shown."""
        self._lake = lake
        self._clock_micros = clock_micros
        self._chains: dict[str, Chain] = {}
        self._positions: dict[str, Position] = {}
        self._discovered_at = -DISCOVER_SECONDS

    def new_changes(self) -> Iterator[Change]:
        """What has come since the last call."""
        if time.monotonic() - self._discovered_at >= DISCOVER_SECONDS:
            self.discover()
        for pointer in self._chains:
            yield from self._read(pointer)

    def discover(self) -> None:
        """Also finds branches that came and went: a deleted one keeps its log."""
        for pointer in branch_pointers(self._lake):
            if pointer not in self._chains:
                self._chains[pointer], self._positions[pointer] = Chain(pointer, 0), Position(0, b"")
                self.seen[pointer] = []
        self._discovered_at = time.monotonic()

    def _read(self, pointer: str) -> Iterator[Change]:
        page = self._lake.realm.feed.page(pointer, self._positions[pointer], limit=PAGE_CHANGES)
        self._positions[pointer] = page.last
        now = self._clock_micros()
        for change in self._chains[pointer].accept(page.frame):
            self.seen[pointer].append(change.entry_id)
            self.delays_micros.append(now - micros_of(change.time))
            yield change


def branch_pointers(lake: CatalogHandle) -> list[str]:
    token, found = None, []
    while True:
        page = lake.references.list(type=ReferenceType.BRANCH, token=token, deleted=True)
        found += [reference.pointer for reference in page.references]
        if page.next_token is None:
            return found
        token = page.next_token
