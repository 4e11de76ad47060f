"""The index range that a smallest, a largest, a prefix and single keys need. Pure."""

from __future__ import annotations

import msgspec

from headwater.persistence.index import END, START, encode_key, just_after, subtree_bounds
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import InvalidInput

KEYS_MAX = 10_000


class KeyRange(msgspec.Struct, frozen=True, kw_only=True):
    """Smallest and largest are within; the prefix itself is, too."""

    smallest: KeyPath | None = None
    largest: KeyPath | None = None
    prefix: KeyPath | None = None
    keys: frozenset[KeyPath] = frozenset()
    """Only these, if there are any."""

    def bounds(self) -> tuple[bytes, bytes]:
        """[lower, upper)"""
        if self.prefix is not None and (self.smallest is not None or self.largest is not None):
            raise InvalidInput("prefix-key goes with neither min-key nor max-key.", field="prefix-key", remedy="Use one.")
        if len(self.keys) > KEYS_MAX:
            raise InvalidInput(f"{len(self.keys)} keys are given.", field="key", remedy=f"Use at most {KEYS_MAX}.")
        if self.prefix is not None:
            return subtree_bounds(self.prefix)
        lower = START if self.smallest is None else encode_key(self.smallest)
        return lower, END if self.largest is None else just_after(encode_key(self.largest))

    def wanted(self, after: bytes) -> list[bytes]:
        """The single keys after `after` that are within the bounds, in order."""
        lower, upper = self.bounds()
        encoded = sorted(encode_key(key) for key in self.keys)
        return [key for key in encoded if lower <= key < upper and key > after]
