"""Finds the ids of all objects that must stay by walking pointers from floor to head.

Plug-ins are entry points of the groups `headwater.realm_identifiers` (called once for each realm) and
`headwater.object_identifiers` (called for each identified object of their type, which may lead to more). Each declares which
object types it decides about. ⚠ A type that no identifier covers is never purged, nor an unregistered one, nor a mutable one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import NamedTuple, Protocol

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.index import DIRECTORY, STRIPE, Index, IndexObject, IndexRoot
from headwater.persistence.index.level import open_levels
from headwater.persistence.log.head import as_index_objects, load_tail
from headwater.persistence.log.log_entry import CONTENT, ENTRY, SPILLED_OPERATIONS, LogRecord, tail_ids
from headwater.persistence.log.log_walk import LogWalk
from headwater.persistence.objects.cache import ObjectCache
from headwater.persistence.objects.object_types import Life, ObjectTypes, all_object_types
from headwater.persistence.objects.realm_objects import Decoded, RealmObjects
from headwater.persistence.records.metadata_copies import METADATA_COPY
from headwater.schemas.change import COMMITTING_KINDS
from headwater.streaming.reachability.id_set import IdCollector, IdSet

REALM_GROUP = "headwater.realm_identifiers"
OBJECT_GROUP = "headwater.object_identifiers"
ENTRIES_PER_PAGE = 500
RESULTS_PER_MARK = 10_000
CACHE_BYTES = 64 * 1024 * 1024


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a pointer's log that is kept: the states from `floor` to the entry `head`."""

    floor: int
    head: bytes
    seq: int


class WalkShare(NamedTuple):
    """A part of the marking that can run anywhere: entries `first` to `last` of a pointer, by the built-in identifier; or,
    without a pointer, everything that the identifier of that number marks."""

    identifier: int
    pointer: str = ""
    first: int = 0
    last: int = 0

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


class WalkedRealm:
    """What identifiers read from. ⚠ It bypasses the store's cache, which would show objects that are gone."""

    def __init__(self, backend: Backend, realm: str, spans: Mapping[str, Span], types: ObjectTypes | None = None) -> None:
        self.backend = backend
        self.realm = realm
        self.spans = spans
        cache: ObjectCache[Decoded] = ObjectCache(CACHE_BYTES)
        self.objects = RealmObjects(backend, realm, cache, types or all_object_types())
        self.walk = LogWalk(self.objects)


class Marks:
    """Collects identified objects; calls the identifiers of their types, which may find more."""

    def __init__(self, realm: WalkedRealm, by_type: Mapping[str, Sequence[ObjectIdentifier]]) -> None:
        self._realm = realm
        self._by_type = by_type
        self._asked: dict[str, set[int]] = {name: set() for name in by_type}
        self._collector = IdCollector()

    def mark(self, type: str, ids: Iterable[int]) -> None:
        ids = list(ids)
        self._collector.add(ids)
        for identifier in self._by_type.get(type, ()):
            fresh = [object_id for object_id in ids if object_id not in self._asked[type]]
            self._asked[type].update(fresh)
            for object_id in fresh:
                identifier.identify(self._realm, object_id, self)

    def finish(self) -> IdSet:
        return self._collector.finish()


class RealmIdentifier(Protocol):
    covers: frozenset[str]
    """Object types of which it marks every object that must stay."""

    def identify(self, realm: WalkedRealm, marks: Marks) -> None: ...


class ObjectIdentifier(Protocol):
    type: str
    """It is called for each identified object of this type."""
    covers: frozenset[str]

    def identify(self, realm: WalkedRealm, object_id: int, marks: Marks) -> None: ...


class LogIdentifier:
    """Every pointer of every realm, `::system::` too, is a log: its entries, their tails and indexes, and the contents."""

    covers = frozenset({ENTRY.name, SPILLED_OPERATIONS.name, CONTENT.name, METADATA_COPY.name, STRIPE.name, DIRECTORY.name})
    """Copies of metadata are marked with their contents, because they share their ids."""

    def identify(self, realm: WalkedRealm, marks: Marks) -> None:
        self.identify_some(realm, marks, ((span, span.floor, span.seq) for span in realm.spans.values()))

    def identify_some(self, realm: WalkedRealm, marks: Marks, parts: Iterable[tuple[Span, int, int]]) -> None:
        """Like `identify`, but restricted to the entries from one seq to another of each span."""
        marker = _LogMarker(realm, marks)
        for span, first, last in parts:
            marker.mark(span, first, last)


class _LogMarker:
    def __init__(self, realm: WalkedRealm, marks: Marks) -> None:
        self._realm = realm
        self._marks = marks
        self._levels_done: set[int] = set()
        self._states_done: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def mark(self, span: Span, first_seq: int, last_seq: int) -> None:
        newest = self._realm.walk.load(span.head)
        for first in range(first_seq, last_seq + 1, ENTRIES_PER_PAGE):
            last = min(first + ENTRIES_PER_PAGE - 1, last_seq)
            for logged in self._realm.walk.between(newest, first, last):
                self.mark_entry(logged, whole_state=logged.entry.seq == span.floor)

    def mark_entry(self, logged: LogRecord, *, whole_state: bool) -> None:
        """Contents are read in full where a sequence of states begins; after that each entry lists what it put."""
        entry = logged.entry
        self._marks.mark(ENTRY.name, (logged.object_id, *tail_ids(entry, logged.object_id)))
        if entry.operations_id:
            self._marks.mark(SPILLED_OPERATIONS.name, (entry.operations_id,))
        self._mark_levels(entry.levels)
        if whole_state or entry.kind not in COMMITTING_KINDS:
            self._mark_contents(logged)
        else:
            self._marks.mark(CONTENT.name, (op.after_id for op in entry.operations if op.after_id))

    def _mark_levels(self, levels: Sequence[int]) -> None:
        fresh = tuple(top for top in levels if top not in self._levels_done)
        if not fresh:
            return
        for level in open_levels(self._load, IndexRoot(fresh)):
            stripes = {ref.id for ref in level.refs}
            if level.top and level.top not in stripes:
                self._marks.mark(DIRECTORY.name, (level.top,))
            self._marks.mark(STRIPE.name, stripes)
        self._levels_done.update(fresh)

    def _mark_contents(self, logged: LogRecord) -> None:
        entry, tail = logged.entry, tail_ids(logged.entry, logged.object_id)
        if (entry.levels, tail) in self._states_done:  # branches share states
            return
        index = Index(self._load, IndexRoot(entry.levels), load_tail(self._realm.objects, entry, logged.object_id))
        batch: list[int] = []
        for _, value in index.items():
            batch.append(value.object_id)
            if len(batch) == RESULTS_PER_MARK:
                self._marks.mark(CONTENT.name, batch)
                batch = []
        self._marks.mark(CONTENT.name, batch)
        self._states_done.add((entry.levels, tail))

    def _load(self, ids: Sequence[int]) -> dict[int, IndexObject]:
        return as_index_objects(self._realm.objects.fetch_any(ids))


def reachable_ids(realm: WalkedRealm, logged: LogRecord) -> IdSet:
    """What the state after one entry reaches."""
    marks = Marks(realm, {})
    _LogMarker(realm, marks).mark_entry(logged, whole_state=True)
    return marks.finish()


class Identifiers:
    """The built-in identifier and those of plug-ins."""

    def __init__(
        self,
        of_realms: Sequence[RealmIdentifier] = (),
        of_objects: Sequence[ObjectIdentifier] = (),
        types: ObjectTypes | None = None,
    ) -> None:
        self._of_logs = LogIdentifier()
        self._of_realms: list[RealmIdentifier] = [self._of_logs, *of_realms]
        self._by_type: dict[str, list[ObjectIdentifier]] = {}
        for identifier in of_objects:
            self._by_type.setdefault(identifier.type, []).append(identifier)
        self._types = types or all_object_types()

    def purgeable_types(self, *, spare_mutable: bool = True) -> frozenset[str]:
        """⚠ Known, not mutable, and covered by an identifier. (`spare_mutable` lets tests show that this is needed.)"""
        covered = {name for it in self._of_realms for name in it.covers}
        covered |= {name for group in self._by_type.values() for it in group for name in it.covers}
        found = ((name, self._types.find(name)) for name in covered)
        return frozenset(
            name for name, known in found if known is not None and not (spare_mutable and known.life is Life.MUTABLE)
        )

    @property
    def are_plugged_in(self) -> bool:
        """Whether some are not the built-in one: the streamed set does not contain what they mark."""
        return len(self._of_realms) > 1 or bool(self._by_type)

    def signature(self) -> list[str]:
        """These identifiers in order. ⚠ Shares refer to them by number: a worker of a share must have the same ones, or what a
        missing one would have marked is taken for garbage."""
        of_objects = [it for _, group in sorted(self._by_type.items()) for it in group]
        every: list[RealmIdentifier | ObjectIdentifier] = [*self._of_realms, *of_objects]
        return [f"{type(it).__module__}.{type(it).__qualname__} of {', '.join(sorted(it.covers))}" for it in every]

    def retained(self, backend: Backend, realm: str, spans: Mapping[str, Span]) -> IdSet:
        """`ObjectNotFound` if a state that must stay misses an object: then nothing of the realm may be deleted."""
        return self.retained_of(backend, realm, spans, [WalkShare(number) for number in range(len(self._of_realms))])

    def shares(self, spans: Mapping[str, Span], entries_max: int) -> Iterator[WalkShare]:
        """All of the marking, in shares; together they mark what `retained` does."""
        for pointer, span in spans.items():
            for first in range(span.floor, span.seq + 1, entries_max):
                yield WalkShare(0, pointer, first, min(first + entries_max - 1, span.seq))
        for number in range(1, len(self._of_realms)):
            yield WalkShare(number)

    def retained_of(self, backend: Backend, realm: str, spans: Mapping[str, Span], shares: Sequence[WalkShare]) -> IdSet:
        walked = WalkedRealm(backend, realm, spans, self._types)
        marks = Marks(walked, self._by_type)
        of_logs = ((spans[share.pointer], share.first, share.last) for share in shares if share.pointer)
        self._of_logs.identify_some(walked, marks, of_logs)
        for share in shares:
            if not share.pointer:
                self._of_realms[share.identifier].identify(walked, marks)
        return marks.finish()


def installed_identifiers() -> Identifiers:
    def loaded(group: str) -> list[RealmIdentifier | ObjectIdentifier]:
        # In a fixed order: the order of discovery differs between machines.
        found = sorted(metadata.entry_points(group=group), key=lambda it: (it.name, it.value))
        return [it.load()() for it in found]

    return Identifiers(loaded(REALM_GROUP), loaded(OBJECT_GROUP))  # type: ignore[arg-type]
