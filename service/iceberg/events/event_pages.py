"""Reads a page of a branch's events after a continuation token, filtered.

The token holds the position in the log, how far into a Change the last page went, and the filters: nothing is kept on the
server, so it outlives restarts, and any worker can continue with it.
"""

from __future__ import annotations

import msgspec

from headwater.producer.page_tokens import make_token, read_token
from headwater.schemas.change import Change
from headwater.schemas.cursor import Position, decode_cursor, encode_cursor
from headwater.schemas.entry_ids import time_text
from headwater.schemas.errors import InvalidInput
from headwater.service.iceberg.events.event_shapes import Event, FilterableEvent, events_of
from headwater.service.operations.feed_pages import View
from headwater.service.operations.realm_feeds import RealmFeed

PAGE_EVENTS = 100
PAGE_EVENTS_MAX = 1_000
SCANNED_CHANGES_MAX = 5_000
"""For one page: with a filter that fits little, it ends early with a token that continued."""
READ_CHANGES = 200
FILTER_ITEMS_MAX = 1_000
TIME_MS_MAX = 253_402_300_799_000
"""The end of the year 9999."""


class EventFilter(msgspec.Struct, frozen=True, array_like=True):
    operation_types: list[str] | None = None
    names: list[tuple[str, ...]] | None = None
    uuids: list[str] | None = None
    object_types: list[str] | None = None

    def shows(self, event: FilterableEvent) -> bool:
        if self.operation_types is not None and event.operation_type not in self.operation_types:
            return False
        if self.object_types is not None and event.object_type not in self.object_types:
            return False
        if self.uuids is not None and event.uuid not in self.uuids:
            return False
        return self.names is None or any(key[: len(name)] == name for name in self.names for key in event.keys)


class EventQuery(msgspec.Struct, frozen=True):
    filter: EventFilter = EventFilter()
    token: str | None = None
    size: int = PAGE_EVENTS
    since_ms: int | None = None


class EventPage(msgspec.Struct, frozen=True, rename="kebab"):
    continuation_token: str
    events: list[Event]


class _Token(msgspec.Struct, frozen=True, array_like=True):
    cursor: str
    sent: int
    """Events already sent of the Change that follows the cursor."""
    filter: EventFilter


def read_events(feed: RealmFeed, pointer: str, query: EventQuery, view: View | None = None) -> EventPage:
    """Without a view its reader may see everything."""
    local = feed.pages.local
    position, sent_before, filter = _start(feed, pointer, query)
    events: list[Event] = []
    scanned = 0
    while scanned < SCANNED_CHANGES_MAX:
        page = local.page(pointer, position, limit=READ_CHANGES)
        for change in page.frame.changes:
            seen = change if view is None else view.seen(change)
            rest = None if seen is None else _take(seen, sent_before, filter, events, query.size)
            if rest is not None:
                return EventPage(_token(feed, pointer, position, rest, filter), events)
            position, sent_before = Position(change.seq, bytes.fromhex(change.entry_id)), 0
        scanned += len(page.frame.changes)
        position = page.last
        if page.last.seq >= page.head.seq or not page.frame.changes:
            break
    return EventPage(_token(feed, pointer, position, sent_before, filter), events)


def _take(change: Change, sent_before: int, filter: EventFilter, events: list[Event], size: int) -> int | None:
    """Adds the Change's events; if the page is full, returns how many of them were added."""
    for number, candidate in enumerate(events_of(change)):
        if number < sent_before or not filter.shows(candidate):
            continue
        if len(events) == size:
            return number
        events.append(candidate.event)
    return None


def _start(feed: RealmFeed, pointer: str, query: EventQuery) -> tuple[Position, int, EventFilter]:
    local = feed.pages.local
    if query.token is not None:
        token = read_token(query.token, _Token)
        if query.filter not in (EventFilter(), token.filter):
            raise InvalidInput("The token is of other filters.", field="continuation-token", remedy="Leave the filters out.")
        decode_cursor(token.cursor, field="continuation-token")
        return local.start(pointer, token.cursor), token.sent, token.filter
    if query.since_ms is None or query.since_ms <= 0:
        return local.start(pointer, "earliest"), 0, query.filter
    return local.start(pointer, time_text(min(query.since_ms, TIME_MS_MAX) * 1_000 - 1)), 0, query.filter


def _token(feed: RealmFeed, pointer: str, position: Position, sent: int, filter: EventFilter) -> str:
    cursor = encode_cursor(feed.pages.local.token({pointer: position}))
    return make_token(_Token(cursor, sent, filter))
