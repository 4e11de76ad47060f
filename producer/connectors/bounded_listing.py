"""Takes what a source lists, up to a bound: one that lists for ever would fill the memory of all that its process serves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from headwater.producer.connectors.source_spi import SourceContent
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import SourceRefused

ENTRIES_MAX, BYTES_MAX = 1_000_000, 512 * 1024 * 1024
"""Of all namespaces, tables and views of a source together, with their contents."""
T = TypeVar("T")


class ListingBounds:
    """Of one run. `keep_going` is called for each entry: a long listing can be cancelled too."""

    def __init__(self, keep_going: Callable[[], None], *, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._keep_going = keep_going
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._entries = self._bytes = 0

    def contents(self, listed: Iterable[SourceContent]) -> Iterator[SourceContent]:
        return self._bounded(listed, lambda one: _size(one.key) + len(msgspec.msgpack.encode(one.value)))

    def keys(self, listed: Iterable[KeyPath]) -> Iterator[KeyPath]:
        return self._bounded(listed, _size)

    def _bounded(self, listed: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
        for one in listed:
            self._keep_going()
            self._entries += 1
            self._bytes += size(one)
            if self._entries > self._entries_max or self._bytes > self._bytes_max:
                raise SourceRefused(
                    f"it lists more than {self._entries_max} entries, or more than {self._bytes_max} bytes.",
                    field="source",
                    remedy="Connect parts of it, each to a destination of its own.",
                )
            yield one


def _size(key: KeyPath) -> int:
    return sum(map(len, key))
