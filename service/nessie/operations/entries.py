"""Lists keys and contents of one commit, filtered, in pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice

import msgspec

from headwater.persistence.index import IndexValue, decode_key, just_after
from headwater.persistence.log.log_entry import Content, LogRecord
from headwater.persistence.reading.state import State
from headwater.persistence.store import RealmKernel
from headwater.producer.content.content_types import all_content_types
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import ObjectNotFound, ReferenceNotFound
from headwater.service.nessie.content_json import nessie_type
from headwater.service.nessie.operations.cel_values import key_value
from headwater.service.nessie.operations.filters import FILTER_SECONDS_MAX, CelFilter
from headwater.service.nessie.operations.key_ranges import KeyRange

PAGE_ENTRIES_MAX = 10_000
BULK_ENTRIES = 1_000
"""How many keys are looked at, and contents read, at once."""


class FoundEntry(msgspec.Struct, frozen=True):
    key: KeyPath
    content: Content


class EntriesPage(msgspec.Struct, frozen=True):
    entries: list[FoundEntry]
    last: bytes | None
    """The key after which the next page begins; None after the last page."""


def read_entries(
    kernel: RealmKernel, at: LogRecord, range: KeyRange, *, after: bytes, limit: int | None, filter: CelFilter | None
) -> EntriesPage:
    state = State(kernel, at)
    limit = min(limit or PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX)
    deadline = time.monotonic() + FILTER_SECONDS_MAX
    found: list[FoundEntry] = []
    keys = _keys(state, range, after)
    last = after
    try:
        while bulk := list(islice(keys, BULK_ENTRIES if filter else min(BULK_ENTRIES, limit + 1 - len(found)))):
            for key, content in _read(state, bulk, filter, deadline):
                if len(found) == limit:
                    return EntriesPage(found, last)
                last = key
                if content is not None:
                    found.append(FoundEntry(decode_key(key), content))
            if filter is not None and time.monotonic() > deadline:
                return EntriesPage(found, last)
    except ObjectNotFound as gone:
        raise ReferenceNotFound(f"the state at {at.commit.hex()} has expired.", field="ref") from gone
    return EntriesPage(found, None)


def read_contents(kernel: RealmKernel, at: LogRecord, keys: list[KeyPath]) -> dict[KeyPath, Content]:
    page = read_entries(kernel, at, KeyRange(keys=frozenset(keys)), after=b"", limit=None, filter=None)
    return {entry.key: entry.content for entry in page.entries}


def _keys(state: State, range: KeyRange, after: bytes) -> Iterator[tuple[bytes, IndexValue]]:
    lower, upper = range.bounds()
    if not range.keys:
        return state.index.items(max(lower, just_after(after)) if after else lower, upper)
    wanted = range.wanted(after)
    values = state.index.get_many(wanted)
    return ((key, values[key]) for key in wanted if key in values)


def _read(
    state: State, bulk: list[tuple[bytes, IndexValue]], filter: CelFilter | None, deadline: float
) -> Iterator[tuple[bytes, Content | None]]:
    """Each key with its content, or None where the filter does not let it pass. What does not pass is not read, unless only
    the content itself tells its type. ⚠ Ends early at the deadline: a filter may take milliseconds at each key."""
    types = {value.tag: all_content_types().name_of(value.tag) for _, value in bulk}
    passing = []
    for number, (key, value) in enumerate(bulk):
        if filter is not None and number and time.monotonic() > deadline:
            bulk = bulk[:number]
            break
        if filter is None or (type := types[value.tag]) is None or _passes(filter, decode_key(key), type):
            passing.append((key, value))
    contents = state.contents(value for _, value in passing)
    let_through = {key: contents[value.object_id] for key, value in passing}
    for number, (key, value) in enumerate(bulk):
        content = let_through.get(key)
        if content is not None and filter is not None and types[value.tag] is None:
            if number and time.monotonic() > deadline:
                return
            content = content if _passes(filter, decode_key(key), content.type) else None
        yield key, content


def _passes(filter: CelFilter, key: KeyPath, type: str) -> bool:
    return filter.matches({"entry": {**key_value(key), "contentType": nessie_type(type)}})
