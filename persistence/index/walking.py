"""Lists the ids of all index objects that a root reaches, for maintenance, without reading stripes."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.persistence.index.level import open_levels
from headwater.persistence.index.objects import IndexRoot, Load


def walk(load: Load, root: IndexRoot) -> Iterator[int]:
    """Each id once: a level's top object, then the stripes that it names."""
    for level in open_levels(load, root):
        if level.top:
            yield level.top
        yield from (ref.id for ref in level.refs if ref.id != level.top)


def reachable(load: Load, root: IndexRoot) -> set[int]:
    return set(walk(load, root))
