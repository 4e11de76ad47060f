"""Reduces a file's folded location to 63 bits, so that a hundred million files in use fit into 800 MB.

⚠ A collision makes garbage look like a file in use, never the reverse.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from headwater.producer.content.folding import fold, fold_all, last_segment
from headwater.streaming.reachability.id_set import IdSet

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SALT_BYTES = 16
LOOSE_MAX = 65_536
"""Fingerprints that are collected before they are sorted."""
_BYTES = 8
_POSITIVE = 2**63 - 1
"""Ids and fingerprints share their sets and filters, and those hold signed 64-bit numbers."""


def fingerprint(location: str, salt: bytes) -> int:
    return _number(fold(location), salt)


def folded_fingerprint(folded: str, salt: bytes) -> int:
    """Fingerprint of a location that is already folded."""
    return _number(folded, salt)


def name_fingerprint(location: str, salt: bytes) -> int:
    """Fingerprint of the file's name alone. It never equals that of a whole path, which begins with a slash."""
    return _number(last_segment(location), salt)


def fingerprints(locations: Iterable[str], salt: bytes) -> NDArray[np.int64]:
    return folded_fingerprints(fold_all(list(locations)), salt)


def folded_fingerprints(folded: Iterable[bytes], salt: bytes) -> NDArray[np.int64]:
    """Fingerprints of locations, or of names, that are already folded."""
    import numpy as np

    begin = blake2b(digest_size=_BYTES, key=salt).copy  # several times as fast as to begin with the key each time
    digests = bytearray()
    for one in folded:
        hashed = begin()
        hashed.update(one)
        digests += hashed.digest()
    return np.frombuffer(digests, ">i8").astype(np.int64) & _POSITIVE


class FingerprintCollector:
    """Collects millions of fingerprints: at most some twenty bytes each while they are sorted, eight afterwards."""

    def __init__(self) -> None:
        import numpy as np

        self._sorted: NDArray[np.int64] = np.empty(0, np.int64)
        self._newest = array("q")

    def add(self, one: int) -> None:
        self._newest.append(one)
        if len(self._newest) >= LOOSE_MAX:
            self._merge_if_many()

    def add_many(self, ids: NDArray[np.int64]) -> None:
        self._newest.frombytes(ids.astype("=i8", copy=False).tobytes())
        self._merge_if_many()

    def finish(self) -> IdSet:
        self._merge()
        return id_set(self._sorted)

    def _merge_if_many(self) -> None:
        if len(self._newest) >= max(LOOSE_MAX, len(self._sorted) // 4):
            self._merge()

    def _merge(self) -> None:
        import numpy as np

        if not self._newest:
            return
        both = np.concatenate([self._sorted, np.frombuffer(self._newest, np.int64)])
        self._sorted, self._newest = np.empty(0, np.int64), array("q")  # before the sort: this is the peak of memory
        both.sort(kind="stable")  # merges runs that are sorted already
        is_first = np.ones(len(both), np.bool_)
        np.not_equal(both[1:], both[:-1], out=is_first[1:])
        self._sorted = both if is_first.all() else both[is_first]


def id_set(ids: NDArray[np.int64]) -> IdSet:
    """An `IdSet` over sorted ids, without a copy."""
    view: memoryview[int] = ids.data
    return IdSet(view)


def as_array(ids: IdSet) -> NDArray[np.int64]:
    import numpy as np

    return np.frombuffer(ids.view(), np.int64)


def among(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of `wanted` are among `ids`, which are sorted."""
    import numpy as np

    if not len(ids):
        return np.zeros(len(wanted), np.bool_)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    found: NDArray[np.bool_] = ids[at] == wanted
    return found


def one_by_one(keeps: Callable[[int], bool]) -> Callable[[NDArray[np.int64]], NDArray[np.bool_]]:
    import numpy as np

    return lambda ids: np.fromiter(map(keeps, ids.tolist()), np.bool_, len(ids))


def _number(text: str, salt: bytes) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=salt).digest()
    return int.from_bytes(digest) & _POSITIVE
