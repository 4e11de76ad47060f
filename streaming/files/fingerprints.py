"""Reduces a file's folded location to 63 bits, so that a hundred million files in use fit into 800 MB.

⚠ A collision makes garbage look like a file in use, never the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from headwater.producer.content.folding import fold, last_segment

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SALT_BYTES = 16
_POSITIVE = 2**63 - 1
"""Ids and fingerprints share their sets and filters, and those hold signed numbers of 64 bits."""


def fingerprint(location: str, salt: bytes) -> int:
    return _number(fold(location), salt)


def folded_fingerprint(folded: str, salt: bytes) -> int:
    """Of a location that is folded already."""
    return _number(folded, salt)


def name_fingerprint(location: str, salt: bytes) -> int:
    """Of the file's name alone. It cannot be mistaken for that of a whole path, which begins with a slash."""
    return _number(last_segment(location), salt)


def fingerprints(locations: Iterable[str], salt: bytes) -> NDArray[np.int64]:
    import numpy as np

    return np.fromiter((_number(fold(location), salt) for location in locations), np.int64)


def _number(text: str, salt: bytes) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=salt).digest()
    return int.from_bytes(digest) & _POSITIVE
