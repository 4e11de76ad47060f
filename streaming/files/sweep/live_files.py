"""Collects the fingerprints of every file that a retained state of any realm needs.

⚠ Marking is strict: a file that cannot be read ends the run before anything is deleted, because what it names is unknown.
⚠ Marks come from all catalogs of all realms, whatever is swept, so that overlapping and shared locations do no harm.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import IO

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.producer.content.folding import fold, storage_of
from headwater.schemas.errors import FileMissing, HeadwaterError, MaintenanceRefused
from headwater.streaming.files.fingerprints import folded_fingerprint, name_fingerprint
from headwater.streaming.files.formats.reading import Fault, Mode
from headwater.streaming.files.kinds import FileRef
from headwater.streaming.files.operations import DELTA_TABLE, TABLE, VIEW
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.files.sweep.marking import Marking
from headwater.streaming.files.sweep.retained_contents import ContentFiles, retained_contents
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.reachability.retained_identifiers import Span

READ_TRIES = 3
READ_PAUSE_SECONDS = 0.5


class LiveFiles:
    """Of one run. Filled realm by realm, and once more after the second fence with what is new."""

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
    ) -> None:
        self._roots = tuple(roots)
        """Places."""
        self._salt = salt
        self._clock = clock
        self._accept_missing = frozenset(accept_missing)
        self._safeguards = safeguards
        self._threads = threads
        mode = Mode.STRICT if safeguards.strict else Mode.LENIENT
        self._marking = Marking(storages, mode, self._fault)
        self._contents: set[ContentFiles] = set()
        self._metadata: set[str] = set()
        self._ids = IdCollector()
        self._below: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        """Every location below a root, a JSON text a line: they are needed again only if a listing does not show them."""
        self.names: set[int] = set()
        """⚠ Fingerprints of the names alone of files below no root: a mount path may mean a file that is listed."""
        self.protected: set[str] = set()
        """Folded prefixes below which nothing is deleted."""
        self.damage: list[str] = []
        self.count = 0
        self._late: list[IdSet] = []

    def add(self, backend: Backend, realm: str, spans: Mapping[str, Span]) -> None:
        fresh = IdCollector()
        try:
            new = (content for content in retained_contents(backend, realm, spans) if content not in self._contents)
            with closing(in_parallel(self._files, new, self._threads)) as read:
                for content, files in read:
                    for file in files:
                        self._add(file, fresh)
                    self._contents.add(content)
                    self._metadata.add(fold(content.location))
        except BaseException:
            self._marking.forget()  # ⚠ other threads have read manifests whose files nobody has taken
            raise
        finally:  # ⚠ also if a later content cannot be read: what was marked is not marked again for the next root
            self._late.append(fresh.finish())

    def finish(self) -> IdSet:
        """All so far: the filter is made of them."""
        self._late.clear()
        return self._ids.finish()

    def is_late(self, one: int) -> bool:
        """⚠ Marked after the filter was made, for whichever root: the filter of the others lacks it too."""
        return any(one in ids for ids in self._late)

    def holds(self, location: str) -> bool:
        """Whether a retained state has this metadata file as its own."""
        return fold(location) in self._metadata

    def below_roots(self) -> Iterator[str]:
        self._below.seek(0)
        for line in self._below:
            yield msgspec.json.decode(line, type=str)
        self._below.seek(0, 2)

    def close(self) -> None:
        self._below.close()

    def _files(self, content: ContentFiles) -> Iterable[FileRef]:
        if content.kind == DELTA_TABLE and content.location:
            self.protected.add(fold(content.location.rstrip("/") + "/"))  # its log is written without us
            return ()
        if content.kind not in (TABLE, VIEW):
            return self._unknown(content)
        return self._read(content)

    def _unknown(self, content: ContentFiles) -> Iterable[FileRef]:
        """⚠ Fails closed."""
        folder = content.location.rpartition("/")[0].removesuffix("/metadata")
        if not folder:
            raise _refused(f"the files of a {content.type} cannot be named, and it names no location.")
        self.protected.add(fold(folder + "/"))
        return ()

    def _read(self, content: ContentFiles) -> list[FileRef]:
        """All or nothing: files of a content that was read in part would look like all of them."""
        for attempt in range(1, READ_TRIES + 1):
            try:
                return list(self._marking.files([content]))
            except FileMissing as missing:
                self._marking.forget()
                location = str(missing.facts.get("location", ""))
                if content.location in self._accept_missing and location == content.location:
                    self.damage.append(f"{content.location} is missing, which was accepted")
                    return []
                raise _refused(
                    f"{location[:500]} is missing, so the files of {content.location[:500]} are not known.",
                    f"Bring it back, or give up that version with --accept-missing {content.location[:500]}.",
                ) from missing
            except HeadwaterError as error:
                self._marking.forget()  # ⚠ or the next attempt would skip what this one has read
                if attempt == READ_TRIES or not error.retriable:
                    raise _refused(f"{content.location[:500]} cannot be read: {error}") from error
                self._clock.sleep(READ_PAUSE_SECONDS * attempt)
        raise AssertionError("unreachable")

    def _fault(self, fault: Fault) -> None:
        self.damage.append(fault.reason)

    def _add(self, file: FileRef, fresh: IdCollector) -> None:
        folded = fold(file.location)
        found = (folded_fingerprint(folded, self._salt),)
        self._ids.add(found)
        fresh.add(found)
        self.count += 1
        if f"{storage_of(file.location)}{folded}".startswith(self._roots):
            self._below.write(msgspec.json.encode(file.location) + b"\n")
        elif self._safeguards.foreign_names:
            self.names.add(name_fingerprint(file.location, self._salt))


def in_parallel(
    read: Callable[[ContentFiles], Iterable[FileRef]], contents: Iterator[ContentFiles], threads: int
) -> Generator[tuple[ContentFiles, Iterable[FileRef]]]:
    """In their order, a few ahead: what is read and not taken yet is bounded."""
    if threads <= 1:
        yield from ((content, read(content)) for content in contents)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="mark") as pool:
        ahead: deque[tuple[ContentFiles, Future[Iterable[FileRef]]]] = deque()
        try:
            for content in contents:
                ahead.append((content, pool.submit(read, content)))
                if len(ahead) > threads:
                    first, files = ahead.popleft()
                    yield first, files.result()
            while ahead:
                first, files = ahead.popleft()
                yield first, files.result()
        finally:
            for _, files in ahead:
                files.cancel()


def _refused(message: str, remedy: str = "Repair it; until then no file can be known to be unused.") -> MaintenanceRefused:
    return MaintenanceRefused(message, field="metadata_location", remedy=f"Nothing was deleted. {remedy}")
