"""Offsets of many logs as the JSON of Spark's checkpoint, and the ranges between two of them. Pure.

An offset names the realm *instance*: after a realm was deleted and re-created, the old checkpoint no longer fits. Each position
has its entry's id, so that a replaced log is noticed at the first entry after it, or at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from headwater.schemas.cursor import decode_cursor, is_cursor
from headwater.schemas.errors import CursorReset, InvalidInput


class OffsetPosition(msgspec.Struct, frozen=True, array_like=True):
    """The last entry of a pointer that was seen."""

    seq: int
    entry_id: str = ""
    """Empty if it is not known: below the floor, or before the first entry."""


class LogOffset(msgspec.Struct, frozen=True):
    realm: str
    """The realm instance."""
    pointers: dict[str, OffsetPosition]
    begins: dict[str, OffsetPosition] | None = None
    """Set in the end offset of a stream's first batch: where that batch begins. Spark's checkpoint holds only ends, and asks
    again for the beginning when it repeats the first batch."""

    def as_json(self) -> dict[str, Any]:
        """As Spark stores it: pointers sorted, so that equal offsets are equal text."""
        json = {"realm": self.realm, "pointers": _positions_json(self.pointers)}
        return json if self.begins is None else json | {"begins": _positions_json(self.begins)}

    def as_text(self) -> str:
        return msgspec.json.encode(self.as_json()).decode()

    def seq_of(self, pointer: str) -> int:
        """A pointer that is not named did not exist yet: all of it lies after the offset."""
        position = self.pointers.get(pointer)
        return 0 if position is None else position.seq

    def beyond(self, heads: LogOffset) -> Iterator[tuple[str, OffsetPosition]]:
        """⚠ Positions with an id that lie at or beyond the head without being the head. What they wait for never comes: unless
        the head was read too late, a restore has removed the entry."""
        for name, at in self.pointers.items():
            head = heads.pointers.get(name)
            if head is None or not at.entry_id or head.seq > at.seq:
                continue
            if head.seq < at.seq or head.entry_id not in ("", at.entry_id):
                yield name, at

    def covers(self, other: LogOffset) -> bool:
        return self.realm == other.realm and all(self.seq_of(name) >= at.seq for name, at in other.pointers.items())


def _positions_json(positions: Mapping[str, OffsetPosition]) -> dict[str, list[Any]]:
    return {name: [at.seq, at.entry_id] for name, at in sorted(positions.items())}


class LogRange(msgspec.Struct, frozen=True, array_like=True):
    """Entries (after, last] of one pointer."""

    pointer: str
    after: OffsetPosition
    last: OffsetPosition

    @property
    def count(self) -> int:
        return self.last.seq - self.after.seq


def offset_of(json: Mapping[str, Any]) -> LogOffset:
    try:
        return msgspec.convert(dict(json), LogOffset)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"the offset cannot be read: {error}.", field="after", remedy="Use one that was given out."
        ) from error


def offset_of_text(text: str) -> LogOffset:
    try:
        decoded = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"the offset cannot be read: {error}.", field="after", remedy="Use one that was given out."
        ) from error
    return offset_of(decoded)


def given_offset(text: str, realm: str) -> LogOffset | None:
    """The offset or cursor token given as `after` or `until`; None for anything else."""
    if text.startswith("{"):
        offset = msgspec.structs.replace(offset_of_text(text), begins=None)
    elif is_cursor(text):
        cursor = decode_cursor(text)
        seen = {name: OffsetPosition(at.seq, at.entry_id.hex()) for name, at in cursor.positions.items()}
        offset = LogOffset(cursor.realm, seen)
    else:
        return None
    if offset.realm != realm:
        raise CursorReset(
            f"the position is of realm {offset.realm}, the log of {realm}.",
            field="after",
            remedy="Start again without a cursor.",
        )
    return offset


PositionAt = Callable[[str, int, OffsetPosition], OffsetPosition]
"""Given a pointer, a seq and the head: the position of that seq."""


def bounded_offset(realm: str, start: LogOffset, heads: LogOffset, limit: int, at: PositionAt) -> LogOffset:
    """As far towards the heads as one batch goes."""
    pending = {name: head.seq - start.seq_of(name) for name, head in heads.pointers.items() if head.seq > start.seq_of(name)}
    if sum(pending.values()) <= limit:
        return LogOffset(realm, {**start.pointers, **{name: heads.pointers[name] for name in pending}})
    ends = dict(start.pointers)
    for name, count in shares(pending, limit).items():
        if count:
            ends[name] = at(name, start.seq_of(name) + count, heads.pointers[name])
    return LogOffset(realm, ends)


def ranges_between(start: LogOffset, end: LogOffset) -> list[LogRange]:
    """The entries after `start` up to `end`; a pointer that is gone by now adds nothing."""
    if start.realm != end.realm:
        raise CursorReset(
            f"the position is of realm {start.realm}, the log of {end.realm}: the realm was deleted and re-created.",
            field="realm",
            remedy="Start again with a new checkpoint.",
        )
    found = [LogRange(name, start.pointers.get(name, OffsetPosition(0)), last) for name, last in sorted(end.pointers.items())]
    return [one for one in found if one.count > 0]


def shares(pending: Mapping[str, int], limit: int) -> dict[str, int]:
    """How many of each pointer's waiting entries go into a batch of `limit`: all of a small number, else an even share, at
    least one while the limit lasts. So a busy pointer cannot hold up the others."""
    given: dict[str, int] = {}
    left, waiting = limit, len(pending)
    for name, count in sorted(pending.items(), key=lambda item: (item[1], item[0])):
        given[name] = min(count, max(left // waiting, min(left, 1)))
        left -= given[name]
        waiting -= 1
    return given


def cut(range: LogRange, entries_max: int) -> Iterator[tuple[int, int]]:
    """(after, last] in pieces for one task each."""
    after = range.after.seq
    while after < range.last.seq:
        last = min(range.last.seq, after + entries_max)
        yield after, last
        after = last
