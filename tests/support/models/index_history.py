"""A geometry small enough that a few dozen keys split, push, combine and change levels, and one fixed history under it."""

from __future__ import annotations

import hashlib
import random

from bench.index import IndexRows, table_key
from headwater.persistence.index import Geometry, IndexRoot, IndexValue, flush

TINY = Geometry(
    first_level_weight=80,
    growth=2,
    whole_weight_max=160,
    stripe_weight_max=120,
    stripe_weight_min=40,
    push_weight_max=240,
    push_work_per_tail=16,
)


def written_digest(*, shuffled: bool = False) -> str:
    """Of every byte and id that a fixed history writes; called in other processes too."""
    store, root, chance = IndexRows(), IndexRoot(), random.Random(5)
    digest = hashlib.sha256()
    for _ in range(150):
        tail: list[tuple[bytes, IndexValue | None]] = [
            (table_key(number), IndexValue(store.new_id(), 1) if number % 9 else None)
            for number in chance.sample(range(2_000), 8)
        ]
        flushed = flush(store.load, root, dict(tail[::-1] if shuffled else tail), store.new_id, TINY)
        store.write(flushed.added)
        for object_id, _ in flushed.added:
            digest.update(store.rows[object_id].payload)
        digest.update(repr((flushed.root, [object_id for object_id, _ in flushed.added], flushed.released)).encode())
        root = flushed.root
    return digest.hexdigest()
