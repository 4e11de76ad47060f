"""The filter that decides whether an id must stay: exact or Bloom, in one process or on many workers.

`exact` is the sorted ids themselves. `bloom` is sized for a false-positive rate of 1e-5; above 5e-5 it is not used
at all.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Literal, Protocol

import msgspec

from headwater.schemas.errors import FilterOverflow, MaintenanceRefused
from headwater.streaming.reachability.id_set import IdSet
from headwater.streaming.retained.bloom import SALT_BYTES, BloomFilter

FALSE_POSITIVES_MAX = 5e-5
GROWTH = 1.1
"""The next run's filter is sized for this many times what the last one kept."""
CAPACITY_MIN = 100_000
HAS_NUMPY = find_spec("numpy") is not None
"""It comes with Spark; without it ids are looked up one by one."""

FilterKind = Literal["exact", "bloom"]


class FilterChoice(msgspec.Struct, frozen=True, kw_only=True):
    kind: FilterKind = "exact"
    capacity: int = 0
    """Capacity of a bloom filter."""


class RetainedFilter(Protocol):
    def keeps(self, realm: str, object_id: int) -> bool: ...


class ExactFilter:
    """Kept in the order of ids; eight bytes each."""

    name = "exact"

    def __init__(self, by_realm: Mapping[str, IdSet]) -> None:
        self._by_realm = dict(by_realm)

    def keeps(self, realm: str, object_id: int) -> bool:
        return object_id in self._by_realm[realm]


def kept_of(retained: RetainedFilter, realm: str, ids: Sequence[int]) -> list[bool]:
    """Which of them the filter keeps."""
    if HAS_NUMPY and isinstance(retained, BloomFilter):
        import numpy as np

        found: list[bool] = retained.keeps_many(realm, np.fromiter(ids, np.int64, len(ids))).tolist()
        return found
    return [retained.keeps(realm, object_id) for object_id in ids]


def capacity_after(retained_before: int) -> int:
    return max(CAPACITY_MIN, math.ceil(retained_before * GROWTH))


def build_bloom(by_realm: Mapping[str, IdSet], capacity: int) -> BloomFilter:
    bloom = BloomFilter(capacity, secrets.token_bytes(SALT_BYTES))
    for realm, ids in by_realm.items():
        if HAS_NUMPY:
            import numpy as np

            bloom.add_many(realm, np.frombuffer(ids.packed(), np.int64))
        else:
            bloom.add(realm, ids)
    return bloom


def refuse_overfull(bloom: BloomFilter, capacity: int, found: int) -> float:
    """⚠ `FilterOverflow` above the limit: then nothing is deleted, and the next run is sized by what was found now."""
    measured = bloom.measured_false_positives()
    if measured > FALSE_POSITIVES_MAX:
        raise FilterOverflow(
            f"the filter was made for {capacity} ids and took {found}: it would spare one in {round(1 / measured)}.",
            field="filter",
            remedy="Run it again: the next filter is sized by this run. Or use --filter exact.",
            capacity=capacity,
            retained=found,
            false_positives=measured,
        )
    return measured


def probe(retained: RetainedFilter, realm: str, ids: Iterable[int]) -> int:
    """⚠ Passes each retained id through the filter that workers will use, before anything is deleted. Returns how many there
    were."""
    count = 0
    for object_id in ids:
        if not retained.keeps(realm, object_id):
            raise lost_by_filter(realm, object_id)
        count += 1
    return count


def lost_by_filter(realm: str, object_id: int) -> MaintenanceRefused:
    return MaintenanceRefused(
        f"the filter has lost object {object_id} of {realm!r}.",
        field="filter",
        remedy="Nothing was deleted. Report this; --filter exact works without it.",
        object_id=object_id,
    )
