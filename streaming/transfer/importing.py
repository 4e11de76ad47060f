"""Imports an exported file as a new realm: LOADING while it is filled, ACTIVE when all of it is verified.

⚠ Nothing is created before the file was read to its end. Object ids and entry ids stay, because the chain does not cover the
realm; so ids that are issued later must be greater than those of the file: its newest id is behind this store's clock before
anybody can commit. A realm that is LOADING is neither served nor swept, and becomes ACTIVE by one CAS, last of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.ids.snowflake import id_time_micros
from headwater.persistence.realms.realm_records import RealmRead, check_realm_name
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import Store
from headwater.schemas.errors import (
    ClockMovedBackwards,
    HeadwaterError,
    ImportDiffers,
    RealmExists,
    RealmNotFound,
    RealmStateConflict,
)
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.sweep.verify import verify_realm
from headwater.streaming.transfer.chain_check import check_chains
from headwater.streaming.transfer.checked_file import CheckedFile, checked_file
from headwater.streaming.transfer.file_records import FileCounts
from headwater.streaming.transfer.import_record import begin_import
from headwater.streaming.transfer.loading import Load, Progress

CLOCK_MARGIN_SECONDS = 1.0
"""The clocks of processes that write to one store may differ by this much."""
CLOCK_WAIT_SECONDS_MAX = 60.0
RESUMABLE = {RealmStatus.CREATED: "delete", RealmStatus.LOADING: "purge"}
"""The state in which a killed import leaves a realm, and how to remove it."""


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    resume: bool = False
    """Continue with a realm that an interrupted import has left LOADING."""
    active: bool = True
    """Else it ends INACTIVE."""
    dry_run: bool = False
    """Only checks the file, and that it could be imported."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    instance: str
    """Empty in a dry run."""
    status: str
    from_realm: str
    from_instance: str
    cut_at: int
    low_level: bool
    counts: FileCounts
    entries: int
    """Entries whose hashes were recomputed."""
    reached: int
    sha256: str


def import_realm(
    store: Store,
    path: Path,
    name: str,
    identifiers: Identifiers,
    options: ImportOptions | None = None,
    *,
    on_progress: Progress = lambda _what, _count: None,
) -> ImportReport:
    """A file that is refused leaves no trace; an error while it is loaded is undone, or says what is left."""
    options = options or ImportOptions()
    check_realm_name(name)
    _check_name_is_free(store, name, options)
    file = checked_file(path, lambda records: on_progress("checked", records))
    _check_clock(store, file)
    if options.dry_run:
        return _report(file, name, "", "", entries=0, reached=file.trailer.reached)
    realms = Realms(store)
    if not options.resume:
        realms.create(name)
    taken = realms.take_loading(name)
    try:
        return _Import(store, file, taken, identifiers, options, on_progress).run()
    except HeadwaterError as error:
        if not options.resume:
            _undo(realms, taken, error)
        raise


class _Import:
    def __init__(
        self,
        store: Store,
        file: CheckedFile,
        taken: RealmRead,
        identifiers: Identifiers,
        options: ImportOptions,
        on_progress: Progress,
    ) -> None:
        self._store = store
        self._file = file
        self._taken = taken
        self._instance = taken.realm.instance
        self._identifiers = identifiers
        self._options = options
        self._progress = on_progress

    def run(self) -> ImportReport:
        backend, clock = self._store.backend, self._store.clock
        begin_import(backend, self._instance, self._file, clock)
        load = Load(backend, self._instance, self._file, clock, self._progress)
        load.write()
        entries, reached = self._prove(load.compare())
        clock.sleep(_seconds_ahead(self._store, self._file))
        name = self._taken.realm.name
        realm = Realms(self._store).finish_loading(name, active=self._options.active, taken=self._taken)
        return _report(self._file, name, realm.instance, str(realm.status), entries=entries, reached=reached)

    def _prove(self, rows: Mapping[str, PointerRow]) -> tuple[int, int]:
        """Counts the entries whose hashes hold, and the objects that are reached."""
        backend = self._store.backend
        entries = check_chains(backend, self._instance, rows)
        self._progress("entries", entries)
        found = verify_realm(backend, self._instance, self._store.clock, self._identifiers)
        if not found.holds:
            raise ImportDiffers(
                f"{found.missing_count} objects that the realm reaches are not in the file. {found.failure}".strip(),
                field="file",
                remedy="Export again; `headwater maintain check` shows whether the source is whole.",
            )
        return entries, found.walked


def _check_name_is_free(store: Store, name: str, options: ImportOptions) -> None:
    try:
        found = Realms(store).get(name)
    except RealmNotFound:
        if options.resume:
            raise
        return
    resumable = found.status in RESUMABLE
    if options.resume and resumable:
        return
    if options.resume:
        raise RealmStateConflict(
            f"{name!r} is {found.status}, not LOADING.", field="realm", remedy="Only a load can be resumed.", realm=name
        )
    left = f"Continue with --resume, or {RESUMABLE[found.status]} it" if resumable else "Choose another name"
    raise RealmExists(f"{name!r} exists already and is {found.status}.", field="realm", remedy=f"{left}.", realm=name)


def _check_clock(store: Store, file: CheckedFile) -> None:
    ahead = _seconds_ahead(store, file)
    if ahead > CLOCK_WAIT_SECONDS_MAX:
        raise ClockMovedBackwards(
            f"the newest object of the file was made {ahead:.0f} seconds after the time of now.",
            field="file",
            remedy="Set the clock right, or wait: new ids must be later than those of the file.",
            behind_ms=int(ahead * 1_000),
        )


def _seconds_ahead(store: Store, file: CheckedFile) -> float:
    newest = file.trailer.newest_object_id
    if not newest:
        return 0.0
    later = id_time_micros(newest) + int(CLOCK_MARGIN_SECONDS * MICROS) - store.clock.now_micros()
    return max(later / MICROS, 0.0)


def _undo(realms: Realms, taken: RealmRead, error: HeadwaterError) -> None:
    try:
        realms.abandon_loading(taken)
    except HeadwaterError:  # the first error is the one to report; its remedy mentions this one
        error.remedy = (
            f"{error.remedy or ''} {taken.realm.name!r} is left half loaded: import it with --resume, or purge it.".strip()
        )


def _report(file: CheckedFile, name: str, instance: str, status: str, *, entries: int, reached: int) -> ImportReport:
    header = file.header
    return ImportReport(
        realm=name,
        instance=instance,
        status=status,
        from_realm=header.realm,
        from_instance=header.instance,
        cut_at=header.cut_at,
        low_level=header.low_level,
        counts=file.trailer.counts,
        entries=entries,
        reached=reached,
        sha256=file.sha256,
    )
