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
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents, RemovalPhase, read_intents
from headwater.persistence.store import Store
from headwater.schemas.errors import (
    HeadwaterError,
    InvalidInput,
    MaintenanceRefused,
    MaintenanceStopped,
    MaintenanceSuperseded,
)
from headwater.streaming.files.deleted_keys import drop_old_records, keep_keys
from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.kinds import FileRef, FoundFile, kind_by_name
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.sweep.asked_files import Asked, delta_tables, folders_between
from headwater.streaming.files.sweep.candidates import Listed, Sorting, spare
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.condemned_files import (
    CLAIM_NAME,
    LIST_NAME,
    OWN_FOLDER,
    read_list,
    write_condemned,
    write_list,
)
from headwater.streaming.files.sweep.doomed import Doomed
from headwater.streaming.files.sweep.file_groups import FileGroup, file_groups, table_folder
from headwater.streaming.files.sweep.file_safeguards import ALL_ON, FileSafeguards
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.proof import prove_listing
from headwater.streaming.files.sweep.roots import Root, RootRecord, Roots, chosen, roots_of
from headwater.streaming.files.sweep.store_marks import REQUEST_SECONDS, fence_patiently, file_salt, markable_realms
from headwater.streaming.reachability.fence import FencedRealm
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.retained.retained_filter import FilterKind, build_bloom, capacity_after, probe, refuse_overfull
from headwater.streaming.runs.runs import Counts, FileCounts, Run

FILES_LEASE = "files"
LEASE_SECONDS = 300.0
GRACE_HOURS, GRACE_HOURS_MIN = 168.0, 24.0
CONFIRM_HOURS = 24.0
SHARE_MAX = 0.5
SHARE_GROWTH_MAX = 3.0
HOUR_MICROS = 3_600 * MICROS
_FILES = "files"

Progress = Callable[[str, int], None]


class FileSweepOptions(msgspec.Struct, frozen=True, kw_only=True):
    grace_hours: float = GRACE_HOURS
    confirm_hours: float = CONFIRM_HOURS
    share_max: float = SHARE_MAX
    expect_files: int | None = None
    """Deletes up to so many files, whatever their share."""
    filter: FilterKind = "exact"
    batch_size: int = 250
    files_per_second: float = 0
    batches_per_second: float = 10
    threads: int = 8
    """Tables whose metadata is read at a time."""
    protected: Sequence[str] = ()
    """Patterns of locations that stay."""
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
    ) -> None:
        """`at` is called before each step of the protocol, with its name: tests act there. `asked` are files that an operator
        names, in place of the listing: their age, share and an earlier look do not count, everything else does. `doomed` are
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
        self._progress = on_progress
        self._at = at
        self._roots = Roots(store.backend, self._clock)
        self._claims = Claims(store, self._storages)
        self._salt = file_salt(store)

    def run(self, run: Run) -> FileSweepReport:
        if not self._options.dry_run:
            RemovalIntents(self._store.backend, self._clock, run.record.id).end_others()
        realms = self._realms()
        known = roots_of(self._store, realms) if self._doomed is None else self._doomed.roots
        roots = chosen(known, self._options.roots)
        reports = {root.place: RootReport(root=root.location, realm=root.realm, catalog=root.catalog) for root in roots}
        claimed = [one for root in roots if (one := self._claim(root, reports[root.place])) is not None]
        live = LiveFiles(
            self._storages,
            [root.place for root, _, _ in claimed],
            self._salt,
            self._clock,
            accept_missing=self._options.accept_missing,
            safeguards=self._safeguards,
            threads=self._options.threads,
            cache=self._operations.manifest_cache(self._salt, self._safeguards.cache),
        )
        try:
            if claimed:
                self._mark(run, realms, live, claimed)
                keeps = self._filter(live, claimed)
                for root, record, listed_at in claimed:
                    self._guarded(reports[root.place], _RootSweep(self, run, root, record, listed_at, live, keeps))
        finally:  # also of a run that ends early: what it has deleted is gone
            live.close()
            self._count(run, list(reports.values()))
        return FileSweepReport(roots=list(reports.values()), live_files=live.count, damage=live.damage)

    def _realms(self) -> list[str]:
        return markable_realms(self._store, besides=frozenset() if self._doomed is None else self._doomed.realms)

    def _spans(self, realm: str) -> dict[str, Span]:
        spans = self.fence(realm).spans
        return spans if self._doomed is None else self._doomed.others(realm, spans)

    def _counts(self, realm: str, roots: Sequence[Root]) -> bool:
        """⚠ Every realm does, whatever is swept."""
        return self._safeguards.union or any(root.realm == realm for root in roots)

    def _claim(self, root: Root, report: RootReport) -> tuple[Root, RootRecord, int] | None:
        """With the time of the storage at which its listing begins."""
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

    def _mark(self, run: Run, realms: Sequence[str], live: LiveFiles, claimed: Sequence[tuple[Root, RootRecord, int]]) -> None:
        for realm in realms:
            if not self._counts(realm, [root for root, _, _ in claimed]):
                continue
            run.check()
            self._at("mark")
            before = live.count
            live.add(self._store.backend, realm, self._spans(realm))
            self._progress("files in use", live.count - before)

    def fence(self, realm: str) -> FencedRealm:
        return fence_patiently(self._store.backend, realm, self._clock)

    def _filter(self, live: LiveFiles, claimed: list[tuple[Root, RootRecord, int]]) -> Callable[[int], bool]:
        ids = live.finish()
        if self._options.filter == "exact":
            return ids.__contains__
        capacity = max(capacity_after(record.live_files) for _, record, _ in claimed)
        bloom = build_bloom({_FILES: ids}, capacity)
        try:
            refuse_overfull(bloom, capacity, len(ids))
        finally:  # ⚠ also of a filter that overflowed: the next one fits
            if not self._options.dry_run:
                for number, (root, record, listed_at) in enumerate(claimed):
                    kept = self._roots.put(root, msgspec.structs.replace(record, live_files=len(ids)))
                    claimed[number] = (root, kept, listed_at)
        if self._safeguards.probe:
            self._progress("probed", probe(bloom, _FILES, ids))
        return lambda one: bloom.keeps(_FILES, one)

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

    def __init__(
        self,
        sweep: FileSweep,
        run: Run,
        root: Root,
        record: RootRecord,
        listed_at: int,
        live: LiveFiles,
        keeps: Callable[[int], bool],
    ) -> None:
        self._sweep = sweep
        self._run = run
        self._root = root
        self._record = record
        self._listed_at = listed_at
        self._live = live
        self._keeps = keeps
        self._options = sweep._options
        self._safeguards = sweep._safeguards
        self._salt = sweep._salt
        self._intents = RemovalIntents(sweep._store.backend, sweep._clock, run.record.id)

    def run(self, report: RootReport) -> None:
        self._check_readable()
        listed = self._list(report)
        if self._safeguards.proof:
            self._sweep._at("prove")
            report.damage = [f"{location} is missing" for location in self._prove(listed)][:100]
        if not self._options.dry_run:
            self._live.prove_cache()
        condemned = self._ids(listed.candidates)
        confirmed = self._confirmed(listed)
        report.confirmed = len(confirmed)
        if self._options.dry_run:
            report.sample = self._sample(listed, confirmed)
        share = len(confirmed) / max(1, listed.old)
        if self._safeguards.share:
            self._check_share(len(confirmed), share)
        if self._options.dry_run:
            return
        if self._sweep._asked is None and self._sweep._doomed is None:
            self._remember(condemned, listed, share)
        if confirmed:
            self._delete(report, confirmed)
        self._drop_old_lists()

    def _check_readable(self) -> None:
        """⚠ A version with files below this root cannot be read."""
        reason = self._live.refused.get(self._root.place) if self._safeguards.strict else None
        if reason is not None:
            raise MaintenanceRefused(reason, field="metadata_location")

    def _sample(self, listed: Listed, confirmed: Sequence[FoundFile]) -> list[FileGroup]:
        going = {file.location for file in confirmed}
        return file_groups(self._refs(listed.candidates), lambda one: table_folder(self._root.location, one), going)

    def _refs(self, files: Iterable[FoundFile]) -> Iterator[FileRef]:
        """As they were named, or else as their names suggest."""
        named = {} if self._sweep._asked is None else self._sweep._asked.refs
        for file in files:
            yield named.get(file.location) or FileRef(file.location, kind_by_name(file.location), file.size)

    def _list(self, report: RootReport) -> Listed:
        self._sweep._at("list")
        older_than = self._listed_at - int(self._options.grace_hours * HOUR_MICROS)
        sorting = Sorting(
            self._keeps,
            self._live.names,
            self._live.protected,
            self._salt,
            older_than,
            self._safeguards,
            patterns=self._options.protected,
            on_found=self._shown,
        )
        asked = self._sweep._asked
        files = self._sweep._operations.find(self._root.location) if asked is None else asked.below(self._root)
        listed = sorting.sort(self._root.location, files, lambda count: self._sweep._progress("listed", count))
        if asked is not None:
            self._look_around(listed)
        if listed.claims and self._safeguards.nested_claims:
            spare(listed, self._sweep._claims.foreign_folders(self._root, listed.claims))
        for name in ("listed", "live", "young", "unknown", "protected", "mismatched"):
            setattr(report, name, getattr(listed, name))
        report.listed_bytes = listed.bytes if asked is None else sum(it.size or 0 for it in asked.refs_below(self._root))
        report.condemned = len(listed.candidates)
        report.condemned_bytes = sum(file.size or 0 for file in self._refs(listed.candidates))
        return listed

    def _shown(self, file: FoundFile, found: int) -> None:
        """⚠ Files that an operator names say nothing of their age, and a dry run knows no time by the storage's clock."""
        if self._sweep._asked is None:
            self._live.listed(file, found, 0 if self._options.dry_run else self._listed_at)

    def _look_around(self, listed: Listed) -> None:
        """What a listing of the whole root would have shown."""
        folders = folders_between(self._root, listed.candidates)
        spare(listed, delta_tables(self._sweep._operations, folders))
        listed.claims = [f"{folder}{OWN_FOLDER}{CLAIM_NAME}" for folder in folders]

    def _prove(self, listed: Listed) -> list[str]:
        seen = listed.fingerprints or IdCollector().finish()
        below = self._live.unlisted(self._root.place, seen)
        return prove_listing(self._sweep._storages, self._root.location, below, seen, self._salt, self._listed_at)

    def _ids(self, files: Sequence[FoundFile]) -> IdSet:
        found = IdCollector()
        found.add(fingerprint(file.location, self._salt) for file in files)
        return found.finish()

    # ── second look and share ───────────────────────────────────────────────────────────────────────────────

    def _is_due(self) -> bool:
        age = self._listed_at - self._record.condemned_time
        return bool(self._record.condemned) and age >= self._options.confirm_hours * HOUR_MICROS

    def _confirmed(self, listed: Listed) -> list[FoundFile]:
        """⚠ A faulty mark or a wrong setting of one run deletes nothing, and the first run of a root never deletes."""
        if not self._safeguards.second_look:
            return listed.candidates
        if not self._is_due():
            return []
        try:
            earlier = read_list(self._sweep._storages, self._record.condemned, self._record.condemned_digest)
        except HeadwaterError:  # lost or damaged: this run is the first again
            self._record = msgspec.structs.replace(self._record, condemned="")
            return []
        return [file for file in listed.candidates if fingerprint(file.location, self._salt) in earlier]

    def _remember(self, condemned: IdSet, listed: Listed, share: float) -> None:
        record = msgspec.structs.replace(self._record, share=share)
        if self._is_due() or not self._record.condemned:  # ⚠ an earlier list stays until it is old enough to be used
            location = f"{self._root.location}{OWN_FOLDER}second-look.bin"
            digest = write_list(self._sweep._storages, location, condemned)
            record = msgspec.structs.replace(
                record, condemned=location, condemned_digest=digest, condemned_time=self._listed_at
            )
        self._record = self._sweep._roots.put(self._root, record)

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

    def _delete(self, report: RootReport, confirmed: list[FoundFile]) -> None:
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
        intent = write_condemned(self._sweep._storages, intent, self._ids(confirmed))
        self._sweep._at("intent")
        intent = self._intents.put(msgspec.structs.replace(intent, phase=RemovalPhase.DELETING))
        going = self._still_unused(confirmed) if self._safeguards.second_fence else confirmed
        report.rescued = len(confirmed) - len(going)
        keep_keys(self._sweep._storages, self._root.location, self._run.record.id, (file.location for file in going))
        self._sweep._at("delete")
        spec = PurgeSpec(
            batch_size=self._options.batch_size,
            files_per_second=self._options.files_per_second,
            batches_per_second=self._options.batches_per_second,
            before_request=lambda: self._check(intent),
            on_batch=lambda stats: self._told(report, stats),
        )
        report.purge = self._sweep._operations.purge(self._refs(going), spec)
        self._intents.done(intent)

    def _still_unused(self, confirmed: list[FoundFile]) -> list[FoundFile]:
        """⚠ What was committed while we listed. A realm that has come since is fenced and marked as a whole."""
        for realm in self._sweep._realms():
            if not self._sweep._counts(realm, [self._root]):
                continue
            self._sweep._at("second fence")
            self._live.add(self._sweep._store.backend, realm, self._sweep._spans(realm))
        self._live.prove_cache()
        self._check_readable()
        sorting = Sorting(
            self._live.is_late,
            self._live.names,
            self._live.protected,
            self._salt,
            2**62,
            self._safeguards,
        )
        return sorting.sort(self._root.location, confirmed, lambda _: None).candidates

    def _check(self, intent: RemovalIntent | None) -> None:
        """⚠ Before each batch. A process that slept deletes nothing."""
        self._run.check()
        if self._safeguards.lease:
            self._run.lease.require_for(REQUEST_SECONDS)
            if intent is not None:  # ⚠ first proved, then renewed: what has ended is not brought back
                self._intents.require(intent, REQUEST_SECONDS)
                self._intents.put(intent)
        if self._safeguards.claim:
            self._sweep._claims.require(self._root, self._record)

    def _told(self, report: RootReport, stats: PurgeStats) -> None:
        done = 0 if report.purge is None else report.purge.purged
        self._sweep._progress("purged", stats.purged - done)
        report.purge = msgspec.structs.replace(stats)

    def _drop_old_lists(self) -> None:
        needed = {intent.condemned_at for intent in read_intents(self._sweep._store.backend)}
        drop_old_records(self._sweep._operations, self._root.location, LIST_NAME, self._listed_at, needed=needed)
