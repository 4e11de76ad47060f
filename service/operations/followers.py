"""Readers who follow in a hub, and the pages that they share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeVar

from headwater.schemas.cursor import Position
from headwater.schemas.filters import Filter
from headwater.service.operations.feed_pages import Page, View

T = TypeVar("T")
KnownView = tuple[View | None] | None
"""What a reader may see, in a tuple, for None is a reader who may see everything; None if the store must be asked."""
FoundViews = dict[Hashable, Any]
"""What was found for readers of the same slice."""


class SharedPage:
    """A page and its encodings for each kind of driver, made once for all readers at the position where it begins."""

    __slots__ = ("_encoded", "ends", "generation", "is_news", "page", "reaches_head", "starts", "view", "weight")

    def __init__(self, page: Page, starts: Mapping[str, Position], view: Hashable, generation: int) -> None:
        self.page = page
        self.starts = starts
        self.ends = page.ends
        self.view = view
        self.generation = generation
        self.is_news = bool(page.entries) or page.advanced
        self.reaches_head = all(part.end.seq >= part.head.seq for part in page.parts.values())
        self.weight = sum(len(entry.json) for entry in page.entries)
        self._encoded: dict[Callable[[Page, str, Filter], Any], Any] = {}

    def encoded(self, encode: Callable[[Page, str, Filter], T], realm: str, filter: Filter) -> T:
        found: T | None = self._encoded.get(encode)
        if found is None:
            found = self._encoded[encode] = encode(self.page, realm, filter)
        return found


class Follower(Protocol):
    """A reader in a hub, driven by one transport. All calls come from the event loop and must not wait."""

    positions: dict[str, Position]

    def known_view(self, found: FoundViews) -> KnownView:
        """⚠ Asked with every page: a reader may follow for days, and its rights may end meanwhile."""
        ...

    def is_due(self, now: float) -> bool:
        """Whether it wants a page even if nothing is new."""
        ...

    def take(self, shared: SharedPage, now: float) -> bool:
        """Whether it stays in the hub, with its positions behind the page."""
        ...

    def released(self) -> None:
        """It is no longer in the hub, and continues by itself."""
        ...
