"""What live views ask for beyond the topic: a protocol that a server and an open store both satisfy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headwater.consumers.clients.local_transport import LocalTransport
from headwater.consumers.views.live_views import State
from headwater.consumers.views.store_lookup import StoreLookup
from headwater.schemas.change import Change
from headwater.schemas.errors import CursorGone, NotFound
from headwater.schemas.frame import Frame

GONE = (CursorGone, NotFound)
"""The errors which say that something does not exist any more."""


class NewestState(NamedTuple):
    seq: int
    state: State


class ViewsLookup(Protocol):
    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        """Entries that the topic lacks."""

    def change(self, pointer: str, seq: int) -> Change | None:
        """A Change that was too large for Kafka."""

    def state_at(self, pointer: str, seq: int) -> State:
        """`CursorGone` or `NotFound` if it is gone."""

    def heads(self) -> dict[str, int]:
        """The newest entry of every existing pointer."""


def newest_state(lookup: ViewsLookup, pointer: str) -> NewestState | None:
    """None if the pointer is gone. Looked up again if its state was swept between the two requests."""
    for _ in range(3):
        seq = lookup.heads().get(pointer)
        if seq is None:
            return None
        try:
            return NewestState(seq, lookup.state_at(pointer, seq))
        except GONE:
            continue
    return None


class StoreViews:
    """The lookup of a store that is open here."""

    def __init__(self, transport: LocalTransport, lookup: StoreLookup) -> None:
        self._transport = transport
        self._lookup = lookup

    def frames(self, pointer: str, from_seq: int, to_seq: int) -> Iterator[Frame]:
        return self._transport.frames(pointer, from_seq, to_seq)

    def change(self, pointer: str, seq: int) -> Change | None:
        return self._lookup.change_at(pointer, seq)

    def state_at(self, pointer: str, seq: int) -> State:
        return self._lookup.state_at(pointer, seq)

    def heads(self) -> dict[str, int]:
        return {pointer: position.seq for pointer, position in self._lookup.heads().items()}
