"""Reads the tables' files as they are committed, so that a sweep finds the work done.

Each new version that the log brings is expanded into the manifest cache, and damage is reported hours before a sweep meets it.

⚠ It decides nothing. A sweep fences, marks and proves as ever; it reads whatever was not followed, or was lost, itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import msgspec

from headwater.persistence.rows import PointerRow, realm_name_of
from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError, InvalidInput, RealmNotFound
from headwater.streaming.files.fingerprints import fingerprints
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks.forgotten_contents import forgotten_contents
from headwater.streaming.files.marks.manifest_cache import ManifestCache
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.executors import Progress
from headwater.streaming.files.sweep.file_safeguards import ALL_ON
from headwater.streaming.files.sweep.live_files import ContentReading, in_parallel
from headwater.streaming.files.sweep.retained_contents import ContentFiles, content_ids, contents_of, reference_spans
from headwater.streaming.files.sweep.store_marks import file_salt
from headwater.streaming.reachability.retained_identifiers import Span, WalkShare
from headwater.streaming.runs.realm_sets import realm_sets

ENTRIES_PER_TURN = 10_000
"""Entries followed per branch before progress is saved."""
POSITION_BYTES_MAX = 64 * 1024 * 1024
_ALWAYS = 2**62


class FollowReport(msgspec.Struct, kw_only=True):
    """The counts of one turn."""

    contents: int = 0
    """New versions of tables and views."""
    read: int = 0
    """Manifests and manifest lists that no earlier turn read."""
    is_behind: bool = False
    """Whether the log has more."""
    damage: list[str] = []
    failures: list[str] = []
    """Realms that were not followed; the next turn tries them again."""


class Followed(msgspec.Struct):
    """How far the log was followed, by realm and by branch or tag. Kept beside the cache."""

    positions: dict[str, dict[str, int]] = {}


class FileFollower:
    """One per process. The position is saved after what was read up to it: a process that is killed in between reads that part
    again."""

    def __init__(
        self, store: Store, operations: FileOperations, *, threads: int = 1, on_progress: Progress = lambda _what, _count: None
    ) -> None:
        if not operations.cache_folder:
            raise InvalidInput("there is no manifest cache.", field="maintenance_dir", remedy="Name a folder for it.")
        self._store = store
        self._operations = operations
        self._threads = threads
        self._progress = on_progress
        self._kept = f"{operations.cache_folder.rstrip('/')}/files/followed.json"

    def rebuild(self) -> None:
        """Start at the floors again."""
        self._keep(Followed(positions={}))

    def turn(self, is_stopping: Callable[[], bool] = lambda: False) -> FollowReport:
        """Goes over all realms once, up to a bounded number of entries per branch. One that fails stops no other."""
        followed, report = self._followed(), FollowReport(damage=[], failures=[])
        for realm in [one.instance for one in realm_sets(self._store).retain]:
            if is_stopping():
                break
            try:
                self._follow(realm, followed.positions.setdefault(realm, {}), report)
                self._keep(followed)
            except RealmNotFound:
                pass
            except HeadwaterError as error:
                report.failures.append(f"{realm_name_of(realm)}: {error}")
        return report

    def _follow(self, realm: str, positions: dict[str, int], report: FollowReport) -> None:
        rows = dict(self._store.backend.all_pointers(realm))
        spans = {name: _span(row) for name, row in rows.items() if row.head}
        forgotten = forgotten_contents(self._store.backend, realm, spans)
        spans = reference_spans(spans)
        shares = [share for name, span in spans.items() for share in _new_entries(name, span, positions.get(name, 0))]
        if not shares:
            return
        ids = content_ids(self._store.backend, realm, spans, shares)
        reads = _StampedReads(self._operations.storages)
        salt = file_salt(self._store)
        cache = self._operations.manifest_cache(salt)
        reading = ContentReading(reads, (), salt, self._store.clock, safeguards=ALL_ON, cache=cache)
        contents = contents_of(self._store.backend, realm, spans, ids, forgotten)
        with closing(in_parallel(lambda content: _damage_of(reading, content), contents, self._threads)) as read:
            for _content, damage in read:
                report.contents += 1
                report.damage += damage
                self._progress("versions", 1)
        report.damage += reading.damage
        report.read += reads.keep(cache, salt)
        reading.marking.flush()
        for share in shares:
            positions[share.pointer] = share.last
            report.is_behind |= share.last < spans[share.pointer].seq

    def _followed(self) -> Followed:
        """⚠ Losing or damaging it costs only time."""
        try:
            return msgspec.json.decode(self._operations.storages.read(self._kept, POSITION_BYTES_MAX), type=Followed)
        except (HeadwaterError, msgspec.DecodeError):
            return Followed(positions={})

    def _keep(self, followed: Followed) -> None:
        self._operations.storages.of(self._kept).write(self._kept, msgspec.json.encode(followed))


class _StampedReads(Storages):
    """Looks at each container before it is read, so that the cache knows which version was read: one that a listing shows
    unchanged need not be read again."""

    def __init__(self, storages: Storages) -> None:
        super().__init__()
        self._storages = storages
        self._seen: dict[str, FoundFile] = {}

    def read(self, location: str, bytes_max: int) -> bytes:
        found = self._storages.head(location) if location.endswith(".avro") else None
        content = self._storages.read(location, bytes_max)
        if found is not None:
            self._seen[location] = found
        return content

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        return self._storages.list(prefix)

    def head(self, location: str) -> FoundFile | None:
        return self._storages.head(location)

    def keep(self, cache: ManifestCache | None, salt: bytes) -> int:
        """How many were read."""
        if cache is not None:
            cache.listed(list(self._seen.values()), fingerprints(self._seen, salt), _ALWAYS)
        return len(self._seen)


def _span(row: PointerRow) -> Span:
    return Span(floor=min(row.floor, row.seq), head=row.head, seq=row.seq)


def _new_entries(pointer: str, span: Span, after: int) -> Sequence[WalkShare]:
    """The whole state at the floor and what follows, or only what follows the last position. ⚠ A log that is shorter than that
    position was replaced by a restore: it is read from its floor again."""
    first = after + 1 if span.floor <= after <= span.seq else span.floor
    last = min(span.seq, first + ENTRIES_PER_TURN - 1)
    return [WalkShare(0, pointer, first, last)] if first <= last else []


def _damage_of(reading: ContentReading, content: ContentFiles) -> list[str]:
    try:
        reading.marks(content)
    except HeadwaterError as error:
        return [str(error)]
    return []
