"""Collects the fingerprints of every file that a retained state of any realm needs.

⚠ Marking is strict: a file that cannot be read ends the run before anything is deleted, because what it names is unknown.
⚠ Marks come from all catalogs of all realms, whatever is swept, so that overlapping and shared locations do no harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.producer.content.folding import fold
from headwater.schemas.errors import FileMissing, HeadwaterError, MaintenanceRefused, MalformedMetadata, Unsupported
from headwater.streaming.files.fingerprints import FingerprintCollector, fingerprint, name_fingerprint
from headwater.streaming.files.formats.iceberg_tables import whole_manifest
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.formats.reading import Fault, MetadataReader, Mode
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks.below_roots import BelowRoots, is_below_any
from headwater.streaming.files.marks.content_marks import ContentMarking, ContentMarks, MarkedManifest
from headwater.streaming.files.marks.forgotten_contents import forgotten_contents
from headwater.streaming.files.marks.manifest_cache import ManifestCache
from headwater.streaming.files.marks.manifest_marks import ManifestMarks, mark_manifest, unpacked
from headwater.streaming.files.marks.reach import touched
from headwater.streaming.files.marks.table_histories import table_name
from headwater.streaming.files.operations import DELTA_TABLE, TABLE, VIEW
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.retained_contents import ContentFiles, retained_contents
from headwater.streaming.reachability.id_set import IdSet
from headwater.streaming.reachability.retained_identifiers import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

READ_TRIES = 3
READ_PAUSE_SECONDS = 0.5
_Read = TypeVar("_Read")


class ContentReading:
    """Reads contents strictly: a version that cannot be read refuses roots. Thread-safe."""

    def __init__(
        self,
        storages: Storages,
        roots: Collection[str],
        salt: bytes,
        clock: Clock,
        *,
        accept_missing: Collection[str] = (),
        safeguards: FileSafeguards,
        cache: ManifestCache | None = None,
        decodes: bool = True,
    ) -> None:
        """`roots` are places."""
        self._storages = storages
        self._roots = tuple(roots)
        self._salt = salt
        self._clock = clock
        self._accept_missing = frozenset(accept_missing)
        self.reader = MetadataReader(storages, Mode.STRICT if safeguards.strict else Mode.LENIENT, self._fault)
        self.marking = ContentMarking(salt, cache, decodes=decodes)
        self.name_of: Callable[[ContentFiles], str] = lambda _: ""
        """The name of a table whose metadata cannot be read, for people."""
        self.protected: set[str] = set()
        """Folded prefixes below which nothing is deleted."""
        self.damage: list[str] = []
        self.refused: dict[str, str] = {}
        """⚠ Place of a root → why nothing below it may go: a version that cannot be read has files there."""

    def marks(self, content: ContentFiles) -> ContentMarks:
        if content.kind == DELTA_TABLE and content.location:
            self.protected.add(fold(content.location.rstrip("/") + "/"))  # its log is written without us
            return _nothing()
        if content.kind not in (TABLE, VIEW):
            return self._unknown(content)
        mark = self.marking.mark_table if content.kind == TABLE else self.marking.mark_view
        rest = partial(self._what_is_left, content)
        return self._patiently(content, lambda: mark(self.reader, content.location), rest) or _nothing()

    def manifest(self, content: ContentFiles, manifest: ManifestRef) -> ManifestMarks | None:
        """A manifest that this content needs."""
        read = partial(whole_manifest, manifest, self.reader)
        return self._patiently(content, lambda: mark_manifest(manifest.location, read(), self._salt))

    def _unknown(self, content: ContentFiles) -> ContentMarks:
        """⚠ Fails closed."""
        folder = content.location.rpartition("/")[0].removesuffix("/metadata")
        if not folder:
            raise _refused(f"the files of a {content.type} cannot be named, and it names no location.")
        self.protected.add(fold(folder + "/"))
        return _nothing()

    def _what_is_left(self, content: ContentFiles) -> ContentMarks:
        """⚠ Of a version that an operator gives up: what can still be read stays in use. It is read apart from the others: they
        would take containers that were read in part for complete."""
        marking = ContentMarking(self._salt)
        reader = MetadataReader(self._storages, Mode.LENIENT, self._fault)
        mark = marking.mark_table if content.kind == TABLE else marking.mark_view
        return mark(reader, content.location)

    def _patiently(
        self, content: ContentFiles, read: Callable[[], _Read], rest: Callable[[], _Read] | None = None
    ) -> _Read | None:
        """All or nothing: a partly read content would pass for a complete one. None if reading was given up, or refuses
        roots. `rest` reads what is left of a version that is given up."""
        for attempt in range(1, READ_TRIES + 1):
            try:
                return read()
            except FileMissing as missing:
                self.marking.forget()
                location = str(missing.facts.get("location", ""))
                is_there = bool(location) and self._storages.head(location) is not None
                if is_there and attempt < READ_TRIES:  # ⚠ it is there after all
                    self._clock.sleep(READ_PAUSE_SECONDS * attempt)
                    continue
                reason = f"{location[:500]} is missing, so the files of {content.location[:500]} are not known."
                if content.location in self._accept_missing and not is_there:
                    return self._given_up(reason, rest)
                self._unreadable(content, reason, f"Bring it back, or {_way_out(content)}", missing)
                return None
            except HeadwaterError as error:
                self.marking.forget()  # ⚠ or the next attempt would skip what this one has read
                if attempt == READ_TRIES or not error.retriable:
                    reason = f"{content.location[:500]} cannot be read: {error.message}"
                    is_damaged = isinstance(error, (MalformedMetadata, Unsupported))
                    if content.location in self._accept_missing and is_damaged:
                        return self._given_up(reason, rest)
                    way_out = f"Repair it, or {_way_out(content)}" if is_damaged else "Try again when the storage answers."
                    self._unreadable(content, reason, way_out, error)
                    return None
                self._clock.sleep(READ_PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable")

    def _given_up(self, reason: str, rest: Callable[[], _Read] | None) -> _Read | None:
        self.damage.append(f"{reason} This was accepted.")
        return None if rest is None else rest()

    def _unreadable(self, content: ContentFiles, reason: str, remedy: str, error: HeadwaterError) -> None:
        """⚠ Refuses the roots in which its files lie, if an earlier run has read it completely, and otherwise all: the files
        may be anywhere."""
        places = self.marking.reach(self.reader, content.location)
        roots = None if places is None else touched(places, self._roots)
        if name := self.name_of(content):
            reason = f"{name}: {reason}"
        if roots is None:
            raise _refused(reason, remedy) from error
        self.damage.append(reason)
        self.refused.update(dict.fromkeys(roots, f"{reason} Nothing was deleted below this root. {remedy}"))

    def _fault(self, fault: Fault) -> None:
        self.damage.append(fault.reason)


def _way_out(content: ContentFiles) -> str:
    return (
        f"give up what is lost of that version with --accept-missing {content.location[:500]}, or drop the table and let its "
        "history expire."
    )


class LiveFiles:
    """The files in use for one run. Filled realm by realm, and once more after the second fence with what is new."""

    def __init__(
        self,
        storages: Storages,
        roots: Collection[str],
        salt: bytes,
        clock: Clock,
        *,
        accept_missing: Collection[str] = (),
        safeguards: FileSafeguards,
        threads: int = 1,
        cache: ManifestCache | None = None,
        forgotten: Mapping[str, Collection[int]] | None = None,
    ) -> None:
        """`forgotten` are versions by realm whose history is being given up, beside those whose history was."""
        self._roots = tuple(roots)
        """Places of the roots."""
        self._forgotten = forgotten or {}
        self._salt = salt
        self._safeguards = safeguards
        self._threads = threads
        self._reading = ContentReading(
            storages, roots, salt, clock, accept_missing=accept_missing, safeguards=safeguards, cache=cache
        )
        self._contents: set[ContentFiles] = set()
        self._metadata: set[str] = set()
        self._ids: FingerprintCollector | None = FingerprintCollector()
        """None once the filter is made."""
        self._below = BelowRoots(storages)
        self.names: set[int] = set()
        """⚠ Fingerprints of the names alone of files below no root: a mount path may mean a file that is listed."""
        self.protected = self._reading.protected
        self.damage = self._reading.damage
        self.refused = self._reading.refused
        self.count = 0
        self.late: list[IdSet] = []
        """⚠ What was marked after the filter was made."""

    def add(self, backend: Backend, realm: str, spans: Mapping[str, Span]) -> None:
        fresh = FingerprintCollector() if self._ids is None else self._ids
        self._reading.name_of = lambda content: table_name(backend, realm, spans, content.location)
        try:
            forgotten = {*forgotten_contents(backend, realm, spans), *self._forgotten.get(realm, ())}
            found = retained_contents(backend, realm, spans, forgotten)
            new = (content for content in found if content not in self._contents)
            with closing(in_parallel(self._reading.marks, new, self._threads)) as read:
                for content, marks in read:
                    self._add(marks, fresh)
                    self._contents.add(content)
                    self._metadata.add(fold(content.location))
        except BaseException:
            self._reading.marking.forget()  # ⚠ other threads have read manifests whose files nobody has taken
            raise
        finally:  # ⚠ also if a later content cannot be read: what was marked is not marked again for the next root
            for marks in self._reading.marking.half_read():
                self._add(marks, fresh)
            if fresh is not self._ids:
                self.late.append(fresh.finish())

    def finish(self) -> IdSet:
        """Everything so far: the filter is built from it. Call it once."""
        self.prove_cache()
        if self._ids is None:
            raise AssertionError("the filter is made already")
        ids, self._ids = self._ids.finish(), None
        return ids

    def is_late(self, one: int) -> bool:
        """⚠ Whether it was marked after the filter was made, for whichever root: the filter of the other roots lacks it too."""
        return any(one in ids for ids in self.late)

    def holds(self, location: str) -> bool:
        """Whether a retained state has this metadata file as its own."""
        return fold(location) in self._metadata

    def unlisted(self, root_place: str, listed: IdSet) -> Iterator[str]:
        """Locations below a root that its listing lacks, possibly among some that it has."""
        return self._below.unlisted(root_place, listed)

    def prove_cache(self) -> None:
        """⚠ `MaintenanceRefused` if the cache does not agree with the files."""
        self._reading.marking.prove_cache(self._reading.reader)

    def listed(self, files: Sequence[FoundFile], ids: NDArray[np.int64], before: int) -> None:
        """⚠ Records what a listing shows of manifests that were answered from the cache: `prove_cache` re-reads those that
        changed."""
        self._reading.marking.listed(files, ids, before)

    def close(self) -> None:
        self._reading.marking.flush()
        self._below.close()

    def _add(self, marks: ContentMarks, fresh: FingerprintCollector) -> None:
        self.count += marks.count
        for file in marks.files:
            fresh.add(fingerprint(file.location, self._salt))
            if is_below_any(file.location, self._roots):
                self._below.add_file(file.location)
            elif self._safeguards.foreign_names:
                self.names.add(name_fingerprint(file.location, self._salt))
        for manifest in marks.manifests:
            self._add_manifest(manifest, fresh)

    def _add_manifest(self, manifest: MarkedManifest, fresh: FingerprintCollector) -> None:
        marks = manifest.marks
        ids = unpacked(marks.ids)
        fresh.add_many(ids)
        if not marks.place.startswith(self._roots) and self._safeguards.foreign_names:
            self.names.update(unpacked(marks.names).tolist())  # ⚠ also of those that lie below one: in doubt they spare
        if len(ids):
            self._below.add_manifest(manifest)


def in_parallel(
    read: Callable[[ContentFiles], _Read], contents: Iterator[ContentFiles], threads: int
) -> Generator[tuple[ContentFiles, _Read]]:
    """In order, a few ahead: results that wait to be taken are bounded."""
    if threads <= 1:
        yield from ((content, read(content)) for content in contents)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="mark") as pool:
        ahead: deque[tuple[ContentFiles, Future[_Read]]] = deque()
        try:
            for content in contents:
                ahead.append((content, pool.submit(read, content)))
                if len(ahead) > threads:
                    first, marks = ahead.popleft()
                    yield first, marks.result()
            while ahead:
                first, marks = ahead.popleft()
                yield first, marks.result()
        finally:
            for _, marks in ahead:
                marks.cancel()


def _nothing() -> ContentMarks:
    return ContentMarks(files=[], manifests=[])


def _refused(message: str, remedy: str = "Repair it; until then no file can be known to be unused.") -> MaintenanceRefused:
    return MaintenanceRefused(message, field="metadata_location", remedy=f"Nothing was deleted. {remedy}")
