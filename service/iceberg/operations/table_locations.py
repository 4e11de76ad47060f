"""Refuses a table whose files would lie at, above or below those of another table of the branch.

Two tables on one place destroy each other: engines remove "orphans" by folder, and credentials are scoped by folder. The places
are kept in memory, read once from the state of the branch and then from its log. Where a table has files its newest metadata
says, which is read unless its name tells all there is to know.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from headwater.persistence.log.log_entry import LogRecord, change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import RealmKernel
from headwater.producer.content.snapshots import Snapshots
from headwater.schemas.change import COMMITTING_KINDS, Change, KeyPath, Op, Value
from headwater.schemas.errors import FileMissing, HeadwaterError, LocationForbidden, MalformedMetadata
from headwater.service.iceberg.metadata.file_names import FOLDER, only_place
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.storage.locations import folded, places_of

NAMESPACE, TABLE = "NAMESPACE", "ICEBERG_TABLE"
ENTRIES_FOLLOWED_MAX = 100_000
"""Longer sections of the log are not read: the state is."""
READERS_MAX = 16
"""Metadata files that are read at once."""


class Places:
    """Which folders tables and namespaces of one state have. Pure; not thread-safe."""

    def __init__(self) -> None:
        self._of: dict[KeyPath, tuple[str, ...]] = {}
        self._tables: dict[str, set[KeyPath]] = {}
        self._below: Counter[str] = Counter()
        """How many tables and namespaces lie at or below a folder."""

    def put(self, key: KeyPath, places: Iterable[str], *, is_table: bool) -> None:
        self.remove(key)
        self._of[key] = spelled = tuple(folded(place) for place in places)
        for place in spelled:
            self._below.update(_at_and_above(place))
            if is_table:
                self._tables.setdefault(place, set()).add(key)

    def remove(self, key: KeyPath) -> None:
        for place in self._of.pop(key, ()):
            for folder in _at_and_above(place):
                self._below[folder] -= 1
                if not self._below[folder]:
                    del self._below[folder]
            holders = self._tables.get(place)
            if holders is not None:
                holders.discard(key)
                if not holders:
                    del self._tables[place]

    def overlap(self, keys: Set[KeyPath], place: str) -> bool:
        """Whether a table other than those of the keys lies at, above or below the place, or a namespace at or below it."""
        place = folded(place)
        if any(self._tables.get(folder, set()) - keys for folder in _at_and_above(place)):
            return True
        own = sum(place in _at_and_above(one) for key in keys for one in self._of.get(key, ()))
        return self._below[place] > own

    def tables_at(self, place: str) -> set[KeyPath]:
        """Those that have files at, above or below the place."""
        place = folded(place)
        found = {key for folder in _at_and_above(place) for key in self._tables.get(folder, ())}
        if self._below[place]:
            found |= {key for one, keys in self._tables.items() if one.startswith(f"{place}/") for key in keys}
        return found


class TableLocations:
    """One per branch. Thread-safe."""

    def __init__(self, kernel: RealmKernel, catalog_id: int, metadata: MetadataFiles) -> None:
        self._kernel = kernel
        self._snapshots = Snapshots(kernel, catalog_id)
        self._metadata = metadata
        self._lock = threading.Lock()
        self._at: LogRecord | None = None
        self._places = Places()
        self._unread: dict[KeyPath, str] = {}
        """Where the metadata lies of tables whose places only it can tell."""

    def check(self, at: LogRecord, key: KeyPath, wanted: Iterable[str], freed: Set[KeyPath] = frozenset()) -> None:
        """`LocationForbidden` if a place that the table of the key wants is another's in the state at an entry, and that one
        is not among the freed."""
        with self._lock:
            self._know(at)
            taken = next((place for place in wanted if self._places.overlap({key} | freed, place)), None)
        if taken is not None:
            raise _overlapping(taken)

    def tables_at(self, at: LogRecord, places: Iterable[str]) -> set[KeyPath]:
        """Those that have files at, above or below the places in the state at an entry."""
        with self._lock:
            self._know(at)
            return {key for place in places for key in self._places.tables_at(place)}

    def _know(self, at: LogRecord) -> None:
        self._advance(at)
        if self._unread:
            with ThreadPoolExecutor(max_workers=min(len(self._unread), READERS_MAX)) as readers:
                found = zip(self._unread, readers.map(partial(places_in, self._metadata), self._unread.values()), strict=True)
                for key, places in found:
                    self._places.put(key, places, is_table=True)
            self._unread = {}

    def _advance(self, at: LogRecord) -> None:
        if self._at is not None and self._at.entry_id == at.entry_id:
            return
        changes = self._changes_up_to(at)
        if changes is None:
            self._read_whole(at)
        else:
            for change in changes:
                self._apply(change)
        self._at = at

    def _changes_up_to(self, at: LogRecord) -> list[Change] | None:
        """None if the log does not lead from the known state to this one by commits alone."""
        known = self._at
        if known is None or not 0 < at.entry.seq - known.entry.seq <= ENTRIES_FOLLOWED_MAX:
            return None
        if known.entry.pointer != at.entry.pointer:
            return None
        found: list[Change] = []
        previous = known.entry_id
        try:
            for logged in PointerLog(self._kernel, at.entry.pointer).forward(known.entry.seq):
                if logged.entry.previous != previous or logged.entry.kind not in COMMITTING_KINDS:
                    return None
                found.append(change_of(logged, self._kernel.realm_name))
                previous = logged.entry_id
                if previous == at.entry_id:
                    return found
        except HeadwaterError:  # expired, or of another history: the state itself is there
            return None
        return None

    def _read_whole(self, at: LogRecord) -> None:
        self._at, self._places, self._unread = None, Places(), {}
        for entry in self._snapshots.entries(at, types=[NAMESPACE, TABLE]):
            self._put(entry.key, entry.type, entry.value)

    def _apply(self, change: Change) -> None:
        for one in change.operations:
            if one.op is Op.RENAME and one.from_key is not None:
                self._forget(one.from_key)
            value = one.after if one.op is not Op.RENAME else one.after or one.before
            if value is None:
                self._forget(one.key)
            else:
                self._put(one.key, one.type, value)

    def _put(self, key: KeyPath, type: str, value: Value) -> None:
        self._forget(key)
        if type == NAMESPACE:
            self._places.put(key, [self._metadata.warehouse.namespace_location(key)], is_table=False)
        elif type == TABLE:
            location = str(value["metadata_location"])
            place = only_place(location)
            if place is None:
                self._unread[key] = location
            else:
                self._places.put(key, [place], is_table=True)

    def _forget(self, key: KeyPath) -> None:
        self._places.remove(key)
        self._unread.pop(key, None)


def places_in(metadata: MetadataFiles, location: str) -> list[str]:
    """⚠ What the metadata says, and where that lies: a table may keep its data apart from its metadata."""
    folder = location.rpartition("/")[0]
    home = [folder.removesuffix(FOLDER)] if folder.endswith(FOLDER) else []
    try:
        table = metadata.load(location).table
    except (FileMissing, MalformedMetadata, LocationForbidden):  # nothing but the folder is known of it
        return home or [folder]
    return list(dict.fromkeys([*home, *places_of(table["location"], table["properties"])]))


def check_apart(wanted: Mapping[KeyPath, Iterable[str]]) -> None:
    """`LocationForbidden` if tables of one request want overlapping places."""
    places = Places()
    for key, of_key in wanted.items():
        taken = next((place for place in of_key if places.overlap({key}, place)), None)
        if taken is not None:
            raise _overlapping(taken)
        places.put(key, of_key, is_table=True)


def _overlapping(place: str) -> LocationForbidden:
    """⚠ Without the name of the other table: the caller may have no right to know it."""
    return LocationForbidden(
        f"{place[:200]!r} is at, above or below the location of another table or namespace.",
        field="location",
        remedy="Leave the location out, choose another one, or set table_overlap=allow for the catalog.",
    )


def _at_and_above(place: str) -> Iterator[str]:
    yield place
    while "/" in place.partition("://")[2]:
        place = place.rpartition("/")[0]
        yield place
