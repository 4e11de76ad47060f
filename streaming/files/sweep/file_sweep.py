"""Deletes files below claimed storage roots that no retained state of any realm needs.

⚠ The order is the protocol:
 1. claim      the root's claim is ours, and no other store has claimed a folder around it; writing it again gives T, by the
               storage's own clock. Folders below the root that another store has claimed are left alone
 2. fence      every realm of the store: heads and floors
 3. mark       every retained content of every realm, strictly: fingerprints of all files in use
 4. list       the root; candidates are files of tables, not in use, older than T minus the grace
 5. prove      files in use that are older than T were listed
 6. look twice an earlier complete run has condemned the candidate too, at least `confirm_hours` before
 7. share      not suddenly most of the files
 8. intent     with the list of what may go; from now on commits look their files up in it
 9. fence      again, and mark what is new; that is taken off the list
10. delete     in batches; before each one lease, claim and intent are checked
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.location_reservations import LocationReservations
from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents, RemovalPhase, read_intents
from headwater.persistence.store import Store
from headwater.producer.content.folding import fold
from headwater.schemas.errors import (
    HeadwaterError,
    InvalidInput,
    MaintenanceRefused,
    MaintenanceStopped,
    MaintenanceSuperseded,
)
from headwater.streaming.files.deleted_keys import drop_old_records
from headwater.streaming.files.file_groups import FileGroup
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.sweep.asked_files import Asked
from headwater.streaming.files.sweep.candidates import Judgement
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.condemned_files import (
    LIST_NAME,
    OWN_FOLDER,
    SECOND_LOOK_NAME,
    StoredList,
    condemned_stem,
    drop_list,
    stem_of,
    with_list,
)
from headwater.streaming.files.sweep.doomed import Doomed
from headwater.streaming.files.sweep.executors import (
    FileExecutor,
    FileMarks,
    ListWork,
    MarkWork,
    Progress,
    RemovalProof,
    RootListing,
)
from headwater.streaming.files.sweep.file_safeguards import ALL_ON, FileSafeguards
from headwater.streaming.files.sweep.local_executor import LocalExecutor
from headwater.streaming.files.sweep.roots import Root, RootRecord, Roots, chosen, closed_inside, roots_of
from headwater.streaming.files.sweep.store_marks import REQUEST_SECONDS, fence_patiently, file_salt, markable_realms
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.retained.retained_filter import FilterKind, capacity_after
from headwater.streaming.runs.runs import Counts, FileCounts, Run

FILES_LEASE = "files"
LEASE_SECONDS = 300.0
GRACE_HOURS, GRACE_HOURS_MIN = 168.0, 24.0
CONFIRM_HOURS = 24.0
SHARE_MAX = 0.5
SHARE_GROWTH_MAX = 3.0
HOUR_MICROS = 3_600 * MICROS
_FILES = "files"


class FileSweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    grace_hours: float = GRACE_HOURS
    confirm_hours: float = CONFIRM_HOURS
    share_max: float = SHARE_MAX
    expect_files: int | None = None
    """Up to this many files are deleted whatever their share."""
    filter: FilterKind = "exact"
    batch_size: int = 250
    files_per_second: float = 0
    batches_per_second: float = 10
    threads: int = 8
    """Tables whose metadata is read in parallel, and folders that are listed in parallel."""
    list_prefixes: int = 64
    """Parts into which the listing of a root is split, for these threads."""
    protected: Sequence[str] = ()
    """Patterns of locations that stay."""
    kept: Sequence[str] = ()
    """Folders that stay: our own, such as retained sets."""
    roots: Sequence[str] = ()
    accept_missing: Sequence[str] = ()
    dry_run: bool = False


class RootReport(msgspec.Struct, kw_only=True):
    root: str
    realm: str
    catalog: str
    listed: int = 0
    listed_bytes: int = 0
    live: int = 0
    young: int = 0
    unknown: int = 0
    protected: int = 0
    mismatched: int = 0
    condemned: int = 0
    """Not in use and older than the grace."""
    condemned_bytes: int = 0
    confirmed: int = 0
    """Condemned by an earlier run too."""
    rescued: int = 0
    """Taken off the list after the second fence."""
    purge: PurgeStats | None = None
    damage: list[str] = []
    refusal: str = ""
    sample: list[FileGroup] = []
    """In a dry run: what is condemned, by table and kind."""


class FileSweepReport(msgspec.Struct, frozen=True, kw_only=True):
    roots: list[RootReport]
    live_files: int
    damage: list[str]


def check_options(options: FileSweepOptions) -> None:
    if not GRACE_HOURS_MIN <= options.grace_hours < math.inf:
        raise InvalidInput(
            f"a grace of {options.grace_hours:g} hours.",
            field="--grace",
            remedy=f"Use at least {GRACE_HOURS_MIN:g} hours: writers that are under way need them.",
        )
    if not 0 <= options.confirm_hours < math.inf:
        raise InvalidInput(f"{options.confirm_hours:g} hours.", field="--confirm", remedy="Use 0 or more.")
    if not 0 < options.share_max <= 1:
        raise InvalidInput(f"a share of {options.share_max:g}.", field="--share", remedy="Use more than 0 and at most 1.")


class FileSweep:
    """One run over all roots."""

    def __init__(
        self,
        store: Store,
        operations: FileOperations,
        options: FileSweepOptions,
        *,
        clock: Clock | None = None,
        safeguards: FileSafeguards = ALL_ON,
        on_progress: Progress = lambda _what, _count: None,
        at: Callable[[str], None] = lambda _step: None,
        asked: Asked | None = None,
        doomed: Doomed | None = None,
        executor: FileExecutor | None = None,
    ) -> None:
        """`at` is called before each step of the protocol, with its name: tests act there. `asked` are files that an operator
        names, replacing the listing: their age, share and an earlier look do not count, everything else does. `doomed` are
        realms and catalogs that are purged: what they need does not count, and their roots are swept at once."""
        if asked is None and safeguards.grace:
            check_options(options)
        self._store = store
        self._operations = operations
        self._storages = operations.storages
        self._options = options
        self._clock = clock or store.clock
        self._safeguards = safeguards
        if asked is not None:
            self._safeguards = msgspec.structs.replace(safeguards, grace=False, proof=False, second_look=False, share=False)
        if doomed is not None:
            self._safeguards = msgspec.structs.replace(safeguards, grace=doomed.grace, second_look=False, share=False)
        self._asked = asked
        self._doomed = doomed
        self._executor = executor or LocalExecutor()
        self._progress = on_progress
        self._at = at
        self._roots = Roots(store.backend, self._clock)
        self._claims = Claims(store, self._storages)
        self._salt = file_salt(store)
        self._around: list[Root] = []
        """All roots of the store."""

    def run(self, run: Run) -> FileSweepReport:
        if not self._options.dry_run:
            RemovalIntents(self._store.backend, self._clock, run.record.id).end_others()
            LocationReservations(self._store.backend, self._clock).drop_old()
        realms = self._realms()
        known = roots_of(self._store, realms) if self._doomed is None else self._doomed.roots
        self._around = [*known, *([] if self._doomed is None else roots_of(self._store, realms))]
        roots = chosen(known, self._options.roots)
        reports = {root.place: RootReport(root=root.location, realm=root.realm, catalog=root.catalog) for root in roots}
        claimed = [one for root in roots if (one := self._claim(root, reports[root.place])) is not None]
        marks = self._executor.marks(
            MarkWork(
                store=self._store,
                operations=self._operations,
                clock=self._clock,
                salt=self._salt,
                roots=tuple(root.place for root, _, _ in claimed),
                accept_missing=tuple(self._options.accept_missing),
                safeguards=self._safeguards,
                threads=self._options.threads,
                progress=self._progress,
            )
        )
        try:
            if claimed:
                self._mark(run, realms, marks, claimed)
                self._filter(marks, claimed)
                for root, record, listed_at in claimed:
                    self._guarded(reports[root.place], _RootSweep(self, run, root, record, listed_at, marks))
        finally:  # also of a run that ends early: what it has deleted is gone
            marks.close()
            self._count(run, list(reports.values()))
        return FileSweepReport(roots=list(reports.values()), live_files=marks.count, damage=list(marks.damage))

    def reserved(self) -> list[str]:
        """⚠ Folders of tables that are being staged, folded: their files may be old, and no state names them yet."""
        gone = frozenset() if self._doomed is None else self._doomed.realms
        found = LocationReservations(self._store.backend, self._clock).all()
        return [fold(f"{one.location.rstrip('/')}/") for one in found if one.realm not in gone]

    def _realms(self) -> list[str]:
        return markable_realms(self._store, besides=frozenset() if self._doomed is None else self._doomed.realms)

    def _spans(self, realm: str) -> dict[str, Span]:
        spans = self.fence(realm).spans
        return spans if self._doomed is None else self._doomed.others(realm, spans)

    def _counts(self, realm: str, roots: Sequence[Root]) -> bool:
        """⚠ Every realm counts, whatever is swept."""
        return self._safeguards.union or any(root.realm == realm for root in roots)

    def _claim(self, root: Root, report: RootReport) -> tuple[Root, RootRecord, int] | None:
        """Also returns the storage's time at which its listing begins."""
        record = self._roots.get(root)
        self._at("claim")
        try:
            if self._safeguards.claim:
                self._claims.require(root, record)
            if self._safeguards.nested_claims:
                self._claims.require_alone(root)
            if self._options.dry_run:
                return root, record, self._clock.now_micros()
            record, written = self._claims.renew(root, record)
        except HeadwaterError as error:
            report.refusal = str(error)
            return None
        if written.modified is None:
            report.refusal = "the storage reports no times, so the age of its files is not known."
            return None
        return root, record, written.modified

    # ── mark ────────────────────────────────────────────────────────────────────────────────────────────────

    def _mark(self, run: Run, realms: Sequence[str], marks: FileMarks, claimed: Sequence[tuple[Root, RootRecord, int]]) -> None:
        for realm in realms:
            if not self._counts(realm, [root for root, _, _ in claimed]):
                continue
            run.check()
            self._at("mark")
            before = marks.count
            marks.add(realm, self._spans(realm))
            self._progress("files in use", marks.count - before)

    def fence(self, realm: str) -> FencedRealm:
        return fence_patiently(self._store.backend, realm, self._clock)

    def _filter(self, marks: FileMarks, claimed: list[tuple[Root, RootRecord, int]]) -> None:
        found = marks.finish()
        if self._options.filter == "bloom":
            capacity = max(capacity_after(record.live_files) for _, record, _ in claimed)
            try:
                marks.use_bloom(capacity)
            finally:  # ⚠ even if a filter overflowed: the next one fits
                if not self._options.dry_run:
                    for number, (root, record, listed_at) in enumerate(claimed):
                        kept = self._roots.put(root, msgspec.structs.replace(record, live_files=found))
                        claimed[number] = (root, kept, listed_at)
        if self._safeguards.probe:
            self._progress("probed", marks.probe())

    # ── one root ────────────────────────────────────────────────────────────────────────────────────────────

    def _guarded(self, report: RootReport, sweep: _RootSweep) -> None:
        """A root that is refused is left alone while the others continue."""
        try:
            sweep.run(report)
        except (MaintenanceSuperseded, MaintenanceStopped):
            raise
        except HeadwaterError as error:
            report.refusal = str(error)

    def _count(self, run: Run, reports: Sequence[RootReport]) -> None:
        for report in reports:
            counts = run.record.counts.setdefault(report.realm, {}).setdefault(_FILES, Counts())
            purged = report.purge or PurgeStats()
            counts.add(
                Counts(
                    scanned=report.listed,
                    retained=report.live,
                    newer=report.young,
                    purged=purged.purged,
                    failed=purged.failed,
                    would_purge=report.confirmed if self._options.dry_run else 0,
                )
            )
            run.record.files.setdefault(report.realm, FileCounts()).add(_files_of(report))
            if report.refusal:
                run.record.failures = [*run.record.failures, f"{report.root}: {report.refusal}"]


def _files_of(report: RootReport) -> FileCounts:
    purge = report.purge or PurgeStats()
    done = purge.purged + purge.missing + purge.failed
    refused = max(0, report.condemned - done) if report.refusal else 0
    refused_bytes = max(0, report.condemned_bytes - purge.bytes) if refused else 0
    return FileCounts(
        listed=report.listed,
        kept=max(0, report.listed - done - refused),
        deleted=purge.purged,
        missing=purge.missing,
        failed=purge.failed,
        refused=refused,
        listed_bytes=report.listed_bytes,
        kept_bytes=max(0, report.listed_bytes - purge.bytes - refused_bytes),
        deleted_bytes=purge.bytes,
        refused_bytes=refused_bytes,
        refusals=bool(report.refusal),
    )


class _RootSweep:
    """Steps 4 to 10 of one root."""

    def __init__(self, sweep: FileSweep, run: Run, root: Root, record: RootRecord, listed_at: int, marks: FileMarks) -> None:
        self._sweep = sweep
        self._run = run
        self._root = root
        self._record = record
        self._listed_at = listed_at
        self._marks = marks
        self._options = sweep._options
        self._safeguards = sweep._safeguards
        self._salt = sweep._salt
        self._intents = RemovalIntents(sweep._store.backend, sweep._clock, run.record.id)

    def run(self, report: RootReport) -> None:
        self._check_readable()
        listing = self._list()
        try:
            self._spare(report, listing)
            self._judge(report, listing)
        finally:
            listing.close()
        if not self._options.dry_run:
            self._drop_old_lists()

    def _judge(self, report: RootReport, listing: RootListing) -> None:
        if self._safeguards.proof:
            self._sweep._at("prove")
            report.damage = [f"{location} is missing" for location in listing.prove()]
        if not self._options.dry_run:
            self._marks.prove_cache()
        old = listing.counts.old
        report.confirmed = self._confirm(listing)
        if self._options.dry_run:
            report.sample = listing.sample()
        share = report.confirmed / max(1, old)
        if self._safeguards.share:
            self._check_share(report.confirmed, share)
        if self._options.dry_run:
            return
        if self._sweep._asked is None and self._sweep._doomed is None:
            self._remember(listing, share)
        if report.confirmed:
            self._delete(report, listing)

    def _check_readable(self) -> None:
        """⚠ A version with files below this root cannot be read."""
        reason = self._marks.refused.get(self._root.place) if self._safeguards.strict else None
        if reason is not None:
            raise MaintenanceRefused(reason, field="metadata_location")

    def _list(self) -> RootListing:
        self._sweep._at("list")
        judgement = Judgement(
            salt=self._salt,
            older_than=self._listed_at - int(self._options.grace_hours * HOUR_MICROS),
            safeguards=self._safeguards,
            patterns=tuple(self._options.protected),
        )
        work = ListWork(
            root=self._root,
            judgement=judgement,
            listed_at=self._listed_at,
            threads=self._options.threads,
            shares=self._options.list_prefixes,
            asked=self._sweep._asked,
            dry_run=self._options.dry_run,
        )
        return self._marks.list(work)

    def _spare(self, report: RootReport, listing: RootListing) -> None:
        """Folders that are not this sweep's to judge."""
        listed = listing.counts
        if listed.claims and self._safeguards.nested_claims:
            listed.spare(self._sweep._claims.foreign_folders(self._root, listed.claims))
        kept = [fold(f"{folder.rstrip('/')}/") for folder in self._options.kept]
        if closed := [*closed_inside(self._sweep._around, self._root), *kept]:
            listed.spare(closed)
        if self._safeguards.reservations and (reserved := self._sweep.reserved()):
            listed.spare(reserved)
        for name in ("listed", "live", "young", "unknown", "protected", "mismatched"):
            setattr(report, name, getattr(listed, name))
        report.listed_bytes = listed.bytes
        report.condemned = len(listed.candidates)
        report.condemned_bytes = listing.bytes

    # ── second look and share ───────────────────────────────────────────────────────────────────────────────

    def _is_due(self) -> bool:
        age = self._listed_at - self._record.condemned_time
        return bool(self._record.condemned) and age >= self._options.confirm_hours * HOUR_MICROS

    @property
    def _earlier(self) -> StoredList:
        return StoredList(self._record.condemned, self._record.condemned_digest)

    def _confirm(self, listing: RootListing) -> int:
        """⚠ A faulty mark or a wrong setting in one run deletes nothing, and the first run of a root never deletes."""
        if not self._safeguards.second_look:
            return listing.confirm(None)
        if self._is_due():
            try:
                return listing.confirm(self._earlier)
            except MaintenanceRefused:
                raise
            except HeadwaterError:  # lost or damaged: this run is the first again
                self._record = msgspec.structs.replace(self._record, condemned="")
        listing.confirm_none()
        return 0

    def _remember(self, listing: RootListing, share: float) -> None:
        record, before = msgspec.structs.replace(self._record, share=share), self._earlier
        if self._is_due() or not self._record.condemned:  # ⚠ an earlier list stays until it is old enough to be used
            written = listing.write_condemned(f"{self._root.location}{OWN_FOLDER}{SECOND_LOOK_NAME}{self._run.record.id}")
            record = msgspec.structs.replace(
                record, condemned=written.location, condemned_digest=written.digest, condemned_time=self._listed_at
            )
        self._record = self._sweep._roots.put(self._root, record)
        if before.location and before != self._earlier:
            drop_list(self._sweep._storages, before)

    def _check_share(self, files: int, share: float) -> None:
        before, expected = self._record.share, self._options.expect_files
        if expected is not None and files <= expected:
            return
        grown = before > 0 and share > SHARE_GROWTH_MAX * before
        if share > self._options.share_max or grown:
            raise MaintenanceRefused(
                f"{files} files below {self._root.location} would go, {share:.0%} of those that are older than the grace"
                + (f"; {before:.0%} went last time." if grown else "."),
                field="--expect-files",
                remedy=f"Nothing was deleted there. If that is right, allow it with --expect-files {files}.",
                files=files,
                share=share,
            )

    # ── delete ──────────────────────────────────────────────────────────────────────────────────────────────

    def _delete(self, report: RootReport, listing: RootListing) -> None:
        intent = RemovalIntent(
            id=f"{self._run.record.id}-{self._root.catalog_id}",
            holder=self._run.record.id,
            root=self._root.location,
            realm=self._root.realm,
            catalog_id=self._root.catalog_id,
            salt=self._salt,
        )
        self._check(None)
        if self._safeguards.nested_claims:
            self._sweep._claims.require_alone(self._root)
        intent = with_list(intent, listing.write_confirmed(condemned_stem(intent)))
        self._sweep._at("intent")
        intent = self._intents.put(msgspec.structs.replace(intent, phase=RemovalPhase.DELETING))
        if self._safeguards.second_fence:
            report.rescued = report.confirmed - self._take_off_new(listing)
        listing.keep_keys(self._run.record.id)
        self._sweep._at("delete")
        spec = PurgeSpec(
            batch_size=self._options.batch_size,
            files_per_second=self._options.files_per_second,
            batches_per_second=self._options.batches_per_second,
            before_request=lambda: self._check(intent),
            on_batch=lambda stats: self._told(report, stats),
        )
        proof = RemovalProof(lease=self._run.lease.claim, intent=intent, root=self._root.location, claim=self._record.claim)
        report.purge = listing.purge(spec, proof)
        self._intents.done(intent)

    def _take_off_new(self, listing: RootListing) -> int:
        """⚠ Takes off what was committed while we listed. A realm created since is fenced and marked as a whole. Returns how
        many go."""
        for realm in self._sweep._realms():
            if not self._sweep._counts(realm, [self._root]):
                continue
            self._sweep._at("second fence")
            self._marks.add(realm, self._sweep._spans(realm))
        self._marks.prove_cache()
        self._check_readable()
        return listing.take_off_late()

    def _check(self, intent: RemovalIntent | None) -> None:
        """⚠ Called before each batch: a process that was suspended deletes nothing."""
        self._run.check()
        if self._safeguards.lease:
            self._run.lease.require_for(REQUEST_SECONDS)
            if intent is not None:  # ⚠ checked first, then renewed: a lease that has ended is not revived
                self._intents.require(intent, REQUEST_SECONDS)
                self._intents.put(intent)
        if self._safeguards.claim:
            self._sweep._claims.require(self._root, self._record)

    def _told(self, report: RootReport, stats: PurgeStats) -> None:
        done = 0 if report.purge is None else report.purge.purged
        self._sweep._progress("purged", stats.purged - done)
        report.purge = msgspec.structs.replace(stats)

    def _drop_old_lists(self) -> None:
        needed = {stem_of(intent.condemned_at) for intent in read_intents(self._sweep._store.backend)}
        if self._record.condemned:
            needed.add(stem_of(self._record.condemned))
        names = (LIST_NAME, SECOND_LOOK_NAME)
        drop_old_records(self._sweep._operations, self._root.location, names, self._listed_at, needed=needed)
