"""Where the retained states of a realm hold a table: under which keys, at which heads, and until when.

Reads every retained state, so it is for single tables: one whose history is given up, or whose metadata cannot be read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.index import Index, IndexObject, IndexRoot, decode_key
from headwater.persistence.log.head import as_index_objects, load_tail
from headwater.persistence.log.log_entry import CONTENT, LogRecord, tail_ids
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.change import COMMITTING_KINDS, KeyPath, Value
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.reachability.retained_identifiers import Span, WalkedRealm

CONTENTS_PER_READ = 500
ENTRIES_PER_PAGE = 500

IsWanted = Callable[[bytes, Value], bool]
"""Whether a content is meant, by its id and value."""
Held = dict[KeyPath, tuple[int, str]]
"""By key, the object id and the metadata file of a version."""


class TableHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Where the retained states of a realm hold a table."""

    keys: list[KeyPath]
    live: list[str]
    """Pointers of the branches and tags that hold it at their heads."""
    last_seqs: dict[str, int]
    """By pointer: the newest state that holds it."""
    versions: dict[int, str]
    """The object id of each version, and its metadata file."""


def table_history(backend: Backend, realm: str, spans: Mapping[str, Span], is_wanted: IsWanted) -> TableHistory:
    """Reads every retained state."""
    walked = WalkedRealm(backend, realm, spans)
    whole = _WholeStates(walked, is_wanted)
    keys: set[KeyPath] = set()
    versions: dict[int, str] = {}
    live: list[str] = []
    last_seqs: dict[str, int] = {}
    for pointer, span in references_in(spans):
        held: Held = {}
        for logged in _entries(walked, span):
            is_whole = logged.entry.seq == span.floor or logged.entry.kind not in COMMITTING_KINDS
            held = whole.held(logged) if is_whole else _held_after(held, logged, is_wanted)
            keys.update(held)
            versions.update(held.values())
            if held:
                last_seqs[pointer] = logged.entry.seq
        if held:
            live.append(pointer)
    return TableHistory(keys=sorted(keys), live=live, last_seqs=last_seqs, versions=versions)


def table_name(backend: Backend, realm: str, spans: Mapping[str, Span], location: str) -> str:
    """Of the table or view with this metadata file, and where it is; empty if that cannot be read either."""
    try:
        found = table_history(backend, realm, spans, lambda _, value: value.get("metadata_location") == location)
    except HeadwaterError:
        return ""
    pointers = found.live or sorted(found.last_seqs)
    if not found.keys or not pointers:
        return ""
    named = parse_reference_pointer(pointers[0])
    where = pointers[0] if named is None else f"{named.type.lower()} {named.name}"
    return f"'{'.'.join(found.keys[0])}' ({'' if found.live else 'history of '}{where})"


class _WholeStates:
    """The keys and metadata files of what is wanted in whole states. Branches share states."""

    def __init__(self, walked: WalkedRealm, is_wanted: IsWanted) -> None:
        self._walked = walked
        self._is_wanted = is_wanted
        self._read: dict[tuple[tuple[int, ...], tuple[int, ...]], Held] = {}

    def held(self, logged: LogRecord) -> Held:
        state = (logged.entry.levels, tail_ids(logged.entry, logged.object_id))
        if state not in self._read:
            self._read[state] = dict(self._of(logged))
        return dict(self._read[state])

    def _of(self, logged: LogRecord) -> Iterator[tuple[KeyPath, tuple[int, str]]]:
        items = iter(index_of(self._walked, logged).items())
        while page := list(itertools.islice(items, CONTENTS_PER_READ)):
            contents = self._walked.objects.fetch_many(CONTENT, [value.object_id for _, value in page])
            for key, value in page:
                content = contents[value.object_id]
                if self._is_wanted(content.content_id, content.value):
                    yield decode_key(key), (value.object_id, _location(content.value))


def _held_after(before: Held, logged: LogRecord, is_wanted: IsWanted) -> Held:
    """Keys are emptied first and then filled, in whatever order the operations are listed."""
    held = dict(before)
    for one in logged.entry.operations:
        held.pop(one.key, None)
        if one.from_key is not None:
            held.pop(one.from_key, None)
    for one in logged.entry.operations:
        if one.after is not None and is_wanted(one.content_id, one.after):
            held[one.key] = (one.after_id, _location(one.after))
    return held


def references_in(spans: Mapping[str, Span]) -> Iterator[tuple[str, Span]]:
    return ((name, span) for name, span in spans.items() if parse_reference_pointer(name) is not None)


def _entries(walked: WalkedRealm, span: Span) -> Iterator[LogRecord]:
    newest = walked.walk.load(span.head)
    for first in range(span.floor, span.seq + 1, ENTRIES_PER_PAGE):
        yield from walked.walk.between(newest, first, min(first + ENTRIES_PER_PAGE - 1, span.seq))


def index_of(walked: WalkedRealm, logged: LogRecord) -> Index:
    def load(ids: Sequence[int]) -> dict[int, IndexObject]:
        return as_index_objects(walked.objects.fetch_any(ids))

    return Index(load, IndexRoot(logged.entry.levels), load_tail(walked.objects, logged.entry, logged.object_id))


def _location(value: Mapping[str, object]) -> str:
    return str(value.get("metadata_location") or "")
