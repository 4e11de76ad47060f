"""The folders that the files of one version of a table lie in: what is at stake when that version cannot be read any more.

⚠ A reach may be wider than the truth, never narrower.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.producer.content.folding import fold, storage_of
from headwater.streaming.files.marks.manifest_marks import common_folder

PLACES_MAX = 16


class Reach:
    """Grows while a version is read."""

    def __init__(self, places: Iterable[str] = ()) -> None:
        self._places: set[str] = set(places)

    def add_file(self, location: str) -> None:
        self.add_places([f"{storage_of(location)}{fold(location).rpartition('/')[0]}/"])

    def add_places(self, places: Iterable[str]) -> None:
        self._places.update(places)
        if len(self._places) > PLACES_MAX:
            self._places = _gathered(self._places)

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(sorted(self._places))


def touched(places: Iterable[str], roots: Iterable[str]) -> set[str] | None:
    """The roots among these that may contain such files; None if a file lies below none of them, or its place is unknown."""
    roots, found = list(roots), set[str]()
    for place in places:
        if not place or not any(place.startswith(root) for root in roots):
            return None
        found.update(root for root in roots if place.startswith(root) or root.startswith(place))
    return found


def _gathered(places: set[str]) -> set[str]:
    """One folder per storage."""
    by_storage: dict[str, set[str]] = {}
    for place in places:
        scheme, separator, rest = place.partition("://")
        by_storage.setdefault(f"{scheme}{separator}{rest.partition('/')[0]}" if separator else "file", set()).add(place)
    return {common_folder(group) for group in by_storage.values()}
