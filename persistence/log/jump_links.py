"""Computes the jump link of an entry, so that any entry is O(log n) steps away.

Skew-binary jump pointers (Myers 1983): the next entry jumps over two blocks when the newest two are of one size, else it jumps
to its predecessor. The spine is the path of jumps from the head, newest first; its far end is read only when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class JumpLink(msgspec.Struct, frozen=True, gc=False):
    seq: int
    object_id: int


NO_LINK = JumpLink(0, 0)

JumpOf = Callable[[JumpLink], JumpLink]
"""The jump link of the entry that a link names; NO_LINK at the beginning of what is still there."""


class JumpPath:
    """The jump path from one head; immutable, so that a lost attempt leaves nothing behind."""

    def __init__(self, path: tuple[JumpLink, ...] = ()) -> None:
        self._path = path

    def next(self, head: JumpLink, jump_of: JumpOf) -> tuple[JumpLink, JumpPath]:
        """The jump link of the entry that follows `head`, and the spine for the one after it."""
        path = self._path if self._path and self._path[0] == head else (head,)
        while len(path) < 3 and path[-1] != NO_LINK:
            path = (*path, jump_of(path[-1]))
        first, second, third = (*path, NO_LINK, NO_LINK)[:3]
        two_blocks_of_one_size = third != NO_LINK and first.seq - second.seq == second.seq - third.seq
        jump = third if two_blocks_of_one_size else first
        return jump, JumpPath(path[2:] if two_blocks_of_one_size else path)

    def starting_at(self, head: JumpLink) -> JumpPath:
        return JumpPath((head, *self._path))
