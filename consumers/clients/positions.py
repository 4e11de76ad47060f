"""Tracks a reader's position per pointer: passes each new Change once, in order, and builds the cursor after any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.consumers.clients.chain import Chain, Gap
from headwater.consumers.clients.transport import Received
from headwater.schemas.change import Change
from headwater.schemas.cursor import Cursor, Position, decode_cursor, encode_cursor, is_cursor
from headwater.schemas.frame import Frame


class Positions:
    """What one reader has seen of its pointers, and how much of that was returned to its user. Does no I/O."""

    def __init__(self, after: str) -> None:
        self.cursor = after
        """Send it as `after` to continue after the Change that was returned last."""
        self._chains: dict[str, Chain] = {}
        self._given: dict[str, Position] = {}
        self._newest_token: Cursor | None = None
        if is_cursor(after):
            self._newest_token = decode_cursor(after)
            for pointer, position in self._newest_token.positions.items():
                self._begin(pointer, position)

    def begin(self, received: Received) -> None:
        """⚠ Turns `latest` and similar into a token for the place where this first response begins, without taking it: sent
        again, `latest` would mean a later entry and skip those in between."""
        if is_cursor(self.cursor) or not is_cursor(received.cursor):
            return
        token = decode_cursor(received.cursor)
        starts = {frame.pointer: Position(frame.from_seq, b"") for frame in received.frames if frame.from_seq < frame.to_seq}
        self.cursor = encode_cursor(Cursor(token.realm, {**token.positions, **starts}, token.filter))

    def missing(self, received: Received) -> list[Gap]:
        """What must be read from the log before this can be taken."""
        return [
            Gap(frame.pointer, chain.seq, frame.from_seq)
            for frame in received.frames
            if (chain := self._chains.get(frame.pointer)) is not None and frame.from_seq > chain.seq
        ]

    def take(self, received: Received) -> Iterator[Change]:
        """Its new Changes, by time; `cursor` moves with every Change, and to the end after all of them."""
        new: list[Change] = []
        for frame in received.frames:
            new += self._chain(frame).accept(frame)
        if len(received.frames) > 1:
            new.sort(key=lambda change: (change.time, change.pointer))
        if is_cursor(received.cursor):
            self._newest_token = decode_cursor(received.cursor)
        for change in new:
            self._given[change.pointer] = Position(change.seq, bytes.fromhex(change.entry_id))
            self._move_cursor()
            yield change
        if received.cursor:
            self.cursor = received.cursor
        if is_cursor(received.cursor):
            self._given.update(decode_cursor(received.cursor).positions)

    def _move_cursor(self) -> None:
        """Realm instance and filter are the server's to say; without a token from it the old cursor stays, which repeats."""
        token = self._newest_token
        if token is not None:
            positions = {pointer: self._given.get(pointer, position) for pointer, position in token.positions.items()}
            self.cursor = encode_cursor(Cursor(token.realm, positions, token.filter))

    def has_reached(self, heads: Mapping[str, int]) -> bool:
        """Whether everything up to these heads was seen."""
        return all(pointer in self._chains and self._chains[pointer].seq >= seq for pointer, seq in heads.items())

    def _chain(self, frame: Frame) -> Chain:
        """A reader that knows nothing of a pointer begins at its first frame."""
        if frame.pointer not in self._chains:
            self._begin(frame.pointer, Position(frame.from_seq, b""))
        return self._chains[frame.pointer]

    def _begin(self, pointer: str, position: Position) -> None:
        self._chains[pointer] = Chain(pointer, position.seq, position.entry_id.hex())
        self._given[pointer] = position
