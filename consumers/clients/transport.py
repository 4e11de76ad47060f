"""The interface of a transport: given a cursor it returns frames, the cursor after them, and the heads that were known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

import msgspec

from headwater.schemas.frame import Frame


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One response, event or batch of records: at most one frame per pointer, in any order."""

    frames: tuple[Frame, ...] = ()
    cursor: str = ""
    """The cursor after the frames."""
    heads: dict[str, int] = {}
    """By pointer: the newest seq that was known."""


class Transport(Protocol):
    def receive(self, after: str, *, follow: bool) -> Iterator[Received]:
        """Frames after the cursor. Without `follow` it ends at the heads; with it, only by an error."""
        ...


class AsyncTransport(Protocol):
    def receive(self, after: str, *, follow: bool) -> AsyncIterator[Received]: ...


class Log(Protocol):
    """Where a gap is repaired from."""

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        """All of (from_seq, to_seq], oldest first."""
        ...


class AsyncLog(Protocol):
    def frames(self, pointer: str, from_seq: int, to_seq: int) -> AsyncIterator[Frame]: ...
