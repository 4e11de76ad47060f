"""Whether every file that a retained state needs is on storage. Changes nothing.

⚠ The storage is listed first and the states are read after that: a file that was committed meanwhile is not in the listing and
is looked for individually. A file counts as missing only if the storage says that it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from headwater.persistence.store import Store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.formats.reading import Fault, Mode
from headwater.streaming.files.kinds import FileRef
from headwater.streaming.files.marks.forgotten_contents import forgotten_contents
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.sweep.marking import Marking
from headwater.streaming.files.sweep.retained_contents import retained_contents
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.sweep.verify import current

DAMAGE_KEPT = 100
_SALT = bytes(16)
"""Kept for one run only."""

OnProgress = Callable[[str, int], None]


class FilesReport(msgspec.Struct, kw_only=True):
    realm: str
    contents: int = 0
    """Versions of tables and views that retained states hold."""
    files: int = 0
    """Distinct within each manifest."""
    listed: int = 0
    """Files below the storage roots of the realm's catalogs."""
    looked_for: int = 0
    """Files that the listing did not show, checked one by one."""
    missing: int = 0
    unreadable: int = 0
    """Metadata that is there but cannot be read: what it names is unknown."""
    forgotten: int = 0
    """Versions of dropped tables whose history was given up. Their files are not looked for."""
    damage: list[str] = []
    """The first hundred."""

    @property
    def holds(self) -> bool:
        return not (self.missing or self.unreadable)

    def record(self, line: str) -> None:
        if len(self.damage) < DAMAGE_KEPT:
            self.damage.append(line)


def verify_files(store: Store, realm: str, operations: FileOperations, on_progress: OnProgress) -> FilesReport:
    report = FilesReport(realm=realm)
    roots = {catalog.storage_root for catalog in Catalogs(store.kernel(realm)).list() if catalog.storage_root}
    listed = _listed(operations, sorted(roots), report, on_progress)
    spans = current(store.backend, realm, store.clock).spans
    marking = Marking(operations.storages, Mode.LENIENT, lambda fault: _unreadable(report, fault))
    looked_at: set[str] = set()
    forgotten = forgotten_contents(store.backend, realm, spans)
    report.forgotten = len(forgotten)
    for file in marking.files(retained_contents(store.backend, realm, spans, forgotten)):
        on_progress("files", 1)
        if fingerprint(file.location, _SALT) not in listed and file.location not in looked_at:
            looked_at.add(file.location)
            _look_for(operations, file, report)
    report.contents, report.files = marking.counts.contents, marking.counts.files
    return report


def _listed(operations: FileOperations, roots: Sequence[str], report: FilesReport, on_progress: OnProgress) -> IdSet:
    found = IdCollector()
    for root in roots:
        try:
            report.listed += _collect((file.location for file in operations.find(root)), found, on_progress)
        except HeadwaterError as error:  # files that were not listed are checked one by one
            report.record(f"{root} cannot be listed: {error}")
    return found.finish()


def _collect(locations: Iterable[str], into: IdCollector, on_progress: OnProgress) -> int:
    count = 0
    for location in locations:
        into.add((fingerprint(location, _SALT),))
        on_progress("listed", 1)
        count += 1
    return count


def _look_for(operations: FileOperations, file: FileRef, report: FilesReport) -> None:
    report.looked_for += 1
    try:
        is_there = operations.storages.of(file.location).head(file.location) is not None
    except HeadwaterError as error:
        report.unreadable += 1
        report.record(f"{file.kind} {file.location}: {error}")
        return
    if not is_there:
        report.missing += 1
        report.record(f"{file.kind} {file.location} is missing")


def _unreadable(report: FilesReport, fault: Fault) -> None:
    """A missing container is counted when it is looked for."""
    if not fault.missing:
        report.unreadable += 1
        report.record(fault.reason)
