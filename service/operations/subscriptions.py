"""Named readers with positions on the server: create, read, acknowledge, rewind, delete, read on.

Two readers on one name: the second to acknowledge sends an outdated version and gets `SubscriptionMoved`, with the
version to continue from; nothing is acknowledged twice and no position moves back unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.records.subscriptions import Subscription, SubscriptionRecord, Subscriptions, moved, no_subscription
from headwater.schemas.change import Kind, Op
from headwater.schemas.cursor import (
    POINTERS_MAX,
    After,
    Cursor,
    Position,
    check_many,
    decode_cursor,
    encode_cursor,
    parse_after,
)
from headwater.schemas.entry_ids import parse_id, time_text
from headwater.schemas.errors import (
    HeadwaterError,
    InvalidInput,
    InvalidName,
    PointerNotFound,
    PointerPurged,
    SubscriptionExists,
)
from headwater.schemas.filters import NO_FILTER, Filter
from headwater.schemas.http.feed_json import (
    Acknowledgement,
    FilterBody,
    Rewind,
    SubscriptionBody,
    SubscriptionInfo,
    SubscriptionPosition,
)
from headwater.service.operations.feed_pages import FeedPages

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class Subscribing:
    """Subscriptions of one realm, over its feed."""

    def __init__(self, pages: FeedPages, *, owner: str = "", sees_all: bool = True) -> None:
        """An owner who does not see all does not find those of others."""
        self._owner = owner
        self._sees_all = sees_all
        self._pages = pages
        self._rows = Subscriptions(pages.kernel)

    def create(self, name: str, body: SubscriptionBody) -> tuple[SubscriptionInfo, bool]:
        """The subscription, and whether it was made now: asking again for the same thing is not a fault."""
        _check_subscription_name(name)
        after = parse_after(body.after)
        check_many(after, len(body.pointers))
        wanted = SubscriptionRecord(
            positions=self._starts(body.pointers, after),
            filter=_filter(body.filter),
            pin_seconds=body.pin_seconds,
            owner=self._owner,
        )
        try:
            return self._info(self._rows.create(name, wanted)), True
        except SubscriptionExists:
            found = self._rows.find(name)
            if found is None or not self._is_mine(found) or not _asks_for_the_same(found.record, wanted):
                raise
            return self._info(found), False

    def read(self, name: str) -> Subscription:
        found = self._rows.get(_check_subscription_name(name))
        if not self._is_mine(found):
            raise no_subscription(name)
        return found

    def get(self, name: str) -> SubscriptionInfo:
        return self._info(self.read(name))

    def acknowledge(self, name: str, body: Acknowledgement, request_id: str = "") -> SubscriptionInfo:
        """Move forward to what a page says; the version is the one that was read before the page."""
        if (done := self._done_by(name, request_id)) is not None:
            return done
        read = self._expect(name, body.version)
        positions = self._acknowledged(body)
        for pointer, position in positions.items():
            if pointer not in read.record.positions:
                raise InvalidInput(
                    f"{pointer!r} is not of this subscription.", field="positions", remedy="Acknowledge what it has."
                )
            if position.seq < read.record.positions[pointer].seq:
                raise InvalidInput(
                    f"{pointer}: {position.seq} is before {read.record.positions[pointer].seq}.",
                    field="positions",
                    remedy="Rewind, if that is meant.",
                )
            self._check_exists(pointer, position)
        record = msgspec.structs.replace(read.record, positions=read.record.positions | positions, moved_by=request_id)
        return self._info(self._rows.write(read, record))

    def rewind(self, name: str, body: Rewind, request_id: str = "") -> SubscriptionInfo:
        """Reset positions, back or forth."""
        if (done := self._done_by(name, request_id)) is not None:
            return done
        read = self._expect(name, body.version)
        pointers = body.pointers or list(read.record.positions)
        strange = [pointer for pointer in pointers if pointer not in read.record.positions]
        if strange:
            raise InvalidInput(f"{strange[0]!r} is not of this subscription.", field="pointers", remedy="Name those it has.")
        after = parse_after(body.after)
        check_many(after, len(pointers))
        starts = {pointer: self._rewound(pointer, after) for pointer in pointers}
        record = msgspec.structs.replace(read.record, positions=read.record.positions | starts, moved_by=request_id)
        return self._info(self._rows.write(read, record))

    def delete(self, name: str, version: str | None) -> None:
        """With a version, only if it was not moved since."""
        self._rows.delete(self._expect(name, version) if version is not None else self.read(name))

    def _done_by(self, name: str, request_id: str) -> SubscriptionInfo | None:
        """⚠ The row as that request has left it, if it was the last to write it: a crash had kept its answer back."""
        read = self.read(name) if request_id else None
        return self._info(read) if read is not None and read.record.moved_by == request_id else None

    def _is_mine(self, one: Subscription) -> bool:
        return self._sees_all or one.record.owner == self._owner

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _expect(self, name: str, version: str) -> Subscription:
        read = self.read(name)
        if read.version != version:
            raise moved(name, read)
        return read

    def _starts(self, pointers: Iterable[str], after: After, field: str = "pointers") -> dict[str, Position]:
        positions = {}
        for pointer in pointers:
            try:
                positions[pointer] = self._pages.start(pointer, after)
            except PointerNotFound as error:
                error.field = field
                raise
        return positions

    def _rewound(self, pointer: str, after: After) -> Position:
        """⚠ A pointer that was purged is set to its end: a subscription over several must not be lost with one of them."""
        try:
            return self._starts([pointer], after, field="after")[pointer]
        except PointerPurged:
            ended = self._pages.watch.head_or_end(pointer)
            return Position(ended.seq, ended.newest.entry_id)

    def _acknowledged(self, body: Acknowledgement) -> dict[str, Position]:
        if (body.cursor is None) == (not body.positions):
            raise InvalidInput("it says no position, or two.", field="cursor", remedy="Send either positions or a cursor.")
        if body.cursor is None:
            return {
                pointer: Position(at.seq, parse_id(at.entry_id, field="positions") if at.entry_id else b"")
                for pointer, at in body.positions.items()
            }
        cursor = decode_cursor(body.cursor, field="cursor")
        if cursor.realm != self._pages.kernel.realm:
            pointer = next(iter(cursor.positions), "")
            head = self._pages.watch.head_or_end(pointer)
            raise PointerLog(self._pages.kernel, pointer).reset("the cursor is of another realm.", head)
        return dict(cursor.positions)

    def _check_exists(self, pointer: str, position: Position) -> None:
        """⚠ Acknowledging what is not there would skip what comes: beyond the head is refused, and so is another history."""
        self._pages.read({pointer: position}, 1, NO_FILTER)

    def _info(self, one: Subscription) -> SubscriptionInfo:
        positions = one.record.positions
        return SubscriptionInfo(
            name=one.name,
            version=one.version,
            positions={
                pointer: SubscriptionPosition(seq=at.seq, entry_id=at.entry_id.hex()) for pointer, at in positions.items()
            },
            filter=msgspec.convert(one.record.filter, FilterBody, from_attributes=True),
            pin_seconds=one.record.pin_seconds,
            pinned_until=time_text(one.pinned_until),
            created=time_text(one.created_at),
            updated=time_text(one.record.updated_at),
            lag={pointer: self._lag(pointer, at) for pointer, at in positions.items()},
            cursor=encode_cursor(Cursor(self._pages.kernel.realm, positions, one.record.filter))
            if len(positions) <= POINTERS_MAX
            else None,
        )

    def _lag(self, pointer: str, at: Position) -> int:
        try:
            return max(0, self._pages.watch.head(pointer).seq - at.seq)
        except HeadwaterError:
            return 0


def _filter(body: FilterBody) -> Filter:
    """Unknown kinds and operations would never match: readers may receive them, but not filter by them."""
    for field, asked, known in (("kinds", body.kinds, frozenset(Kind)), ("operations", body.operations, frozenset(Op))):
        for one in asked:
            if one not in known:
                raise InvalidInput(
                    f"{one!s:.40} is none of {', '.join(sorted(known))}.", field=f"filter.{field}", remedy="Use one of those."
                )
    return msgspec.convert(body, Filter, from_attributes=True)


def _asks_for_the_same(found: SubscriptionRecord, wanted: SubscriptionRecord) -> bool:
    """Positions may have moved since."""
    same_pointers = found.positions.keys() == wanted.positions.keys()
    return same_pointers and found.filter == wanted.filter and found.pin_seconds == wanted.pin_seconds


def _check_subscription_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name[:80]!r} is not a name for a subscription.",
            field="name",
            remedy="Use 1 to 128 letters, digits and _ . -, beginning with a letter, digit or _.",
        )
    return name
