"""Runs the tasks that DROP … PURGE has left to their end.

⚠ The order is the protocol, as in a sweep, without grace and second look, because a user named this table:
 1. hold     while the state before the drop is readable, or any retained state has the metadata file
 2. fence    every realm of the store, and mark strictly what any retained state needs
 3. choose   the table's files that are below the claimed root and that nothing needs
 4. intent   with the list of what may go; from now on commits look their files up in it
 5. fence    again, and mark what is new; that is taken off the list
 6. delete   data files before their manifests, the metadata file last; lease, claim and intent are checked before each batch
A crash leaves the task as it was recorded; the next run reads what is left of the table and continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.location_reservations import LocationReservations
from headwater.persistence.coordination.registered_tables import RegisteredTables
from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents, RemovalPhase
from headwater.persistence.realms.realm_states import RealmStatus
from headwater.persistence.store import Store
from headwater.producer.content.folding import fold
from headwater.producer.immediate_tasks import ImmediateTask, ImmediateTasks, TaskState
from headwater.producer.pointer_names import parse_reference_pointer
from headwater.schemas.errors import HeadwaterError, MaintenanceRefused, MaintenanceStopped, MaintenanceSuperseded
from headwater.streaming.files.batches import distinct
from headwater.streaming.files.deleted_keys import keep_keys
from headwater.streaming.files.file_groups import FileGroup, file_groups
from headwater.streaming.files.fingerprints import fingerprint, one_by_one
from headwater.streaming.files.formats.reading import Fault
from headwater.streaming.files.kinds import FileRef, FoundFile
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stats import PurgeStats
from headwater.streaming.files.sweep.asked_files import surroundings
from headwater.streaming.files.sweep.candidates import Judgement, Sorting
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.condemned_files import write_condemned
from headwater.streaming.files.sweep.file_safeguards import ALL_ON as FILES_ALL_ON
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.roots import Root, RootRecord, Roots, closed_inside, is_below, roots_of
from headwater.streaming.files.sweep.store_marks import REQUEST_SECONDS, fence_patiently, file_salt, markable_realms
from headwater.streaming.files.tasks.forgetting import WAITING, Forgetting, NamedTask
from headwater.streaming.files.tasks.task_files import UNOWNED_KINDS, files_of_table, gives_up_no_data
from headwater.streaming.files.tasks.task_holds import held_by_history, holders
from headwater.streaming.reachability.id_set import IdCollector, IdSet
from headwater.streaming.reachability.retained_identifiers import Span
from headwater.streaming.runs.realm_sets import all_realms
from headwater.streaming.runs.runs import Counts, FileCounts, Run

WAIT_SECONDS = 300
"""For this long a dropped table can be restored by a branch from before the drop, whatever the retention."""
TRY_SECONDS = 7 * 24 * 3_600
"""For this long deletion of failed files is retried."""
_FILES = "files"


class TaskSafeguards(msgspec.Struct, frozen=True, kw_only=True):
    """Tests switch one off at a time, to show that it then loses a file."""

    history: bool = True
    union: bool = True
    below_root: bool = True
    claim: bool = True
    second_fence: bool = True
    lease: bool = True
    surroundings: bool = True
    reservations: bool = True
    unowned: bool = True
    registered: bool = True
    forgetting: bool = True
    """Whether what heads and readers hold keeps a table's history from being given up."""


ALL_ON = TaskSafeguards()


class TaskPurgeOptions(msgspec.Struct, frozen=True, kw_only=True):
    batch_size: int = 250
    files_per_second: float = 0
    batches_per_second: float = 10
    wait_seconds: float = WAIT_SECONDS
    registered: bool = False
    """Also of tables that were registered by their metadata."""
    forget: NamedTask | None = None
    """Only this table, and without waiting for its history."""
    dry_run: bool = False


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    realm: str
    task: ImmediateTask
    would_purge: int = 0
    sample: list[FileGroup] = []
    """In a dry run: what would go, by kind."""


class _Due(msgspec.Struct, kw_only=True):
    """One task in progress."""

    realm: str
    task: ImmediateTask
    files: list[FileRef] = []
    going: set[str] = set()
    faults: list[str] = []
    is_gone: bool = False
    """The metadata file is gone."""


class TaskPurge:
    """One run over all held tasks of all realms."""

    def __init__(
        self,
        store: Store,
        operations: FileOperations,
        options: TaskPurgeOptions | None = None,
        *,
        safeguards: TaskSafeguards = ALL_ON,
        on_progress: Callable[[str, int], None] = lambda _what, _count: None,
        at: Callable[[str], None] = lambda _step: None,
    ) -> None:
        """`at` is called before each step of the protocol, with its name: tests act there."""
        self._store = store
        self._operations = operations
        self._options = options or TaskPurgeOptions()
        self._safeguards = safeguards
        self._progress = on_progress
        self._at = at
        self._clock = store.clock
        self._salt = file_salt(store)
        self._roots = Roots(store.backend, store.clock)
        self._claims = Claims(store, operations.storages)
        self._forgetting = Forgetting(
            store, self._options.forget, dry_run=self._options.dry_run, checks=safeguards.forgetting, at=at
        )
        self._reports: list[TaskReport] = []
        self._counts: dict[str, Counts] = {}
        self._files: dict[str, FileCounts] = {}
        """By realm, for this run alone: a task's own counts cover all its runs."""

    def run(self, run: Run) -> list[TaskReport]:
        try:
            self._run(run)
        finally:  # also of a run that ends early: what it has deleted is gone
            self._count(run)
        return self._reports

    def _run(self, run: Run) -> None:
        due = [one for one in self._due() if not (self._waits_for_history(one) or self._waits_for_word(one))]
        if not self._options.dry_run:
            RemovalIntents(self._store.backend, self._clock, run.record.id).end_others()
        if due:
            realms = markable_realms(self._store)
            roots = roots_of(self._store, realms)
            live = LiveFiles(
                self._operations.storages,
                [root.place for root in roots],
                self._salt,
                self._clock,
                safeguards=FILES_ALL_ON,
                cache=self._operations.manifest_cache(self._salt),
                forgotten=self._forgetting.versions,
            )
            try:
                _MarkedRun(self, run, live, roots).run(due)
            finally:
                live.close()

        for one in due:
            if one.task.state in WAITING:  # nothing of it was deleted, so its history stays
                self._forgetting.withdraw_unsettled(one.realm, one.task)

    def _due(self) -> list[_Due]:
        """The due tasks of the realms that can be written to."""
        oldest = self._clock.now_micros() - int(self._options.wait_seconds * MICROS)
        active = [realm.instance for realm in all_realms(self._store) if realm.status is RealmStatus.ACTIVE]
        held = [(realm, task) for realm in active for task in ImmediateTasks(self._store.kernel(realm)).held()]
        if self._forgetting.is_asked:  # ⚠ alone: if its history stays after all, no other table was purged without it
            held = [(realm, task) for realm, task in held if self._forgetting.is_named(realm, task)]
            for _, task in held:
                self._forgetting.require_due(task, self._options.wait_seconds)
        return [_Due(realm=realm, task=task) for realm, task in held if task.created_at <= oldest]

    def _waits_for_history(self, due: _Due) -> bool:
        if not self._safeguards.history or self._forgetting.is_settled(due.realm, due.task):
            return False
        if self._forgetting.is_named(due.realm, due.task):
            if holders := self._forgetting.begin(due.realm, due.task):
                self._hold(due, [f"{one}, so its history stays" for one in holders])
            return bool(holders)
        if due.task.state in WAITING:
            self._forgetting.withdraw_unsettled(due.realm, due.task)
        holder = held_by_history(self._store.backend, due.realm, due.task)
        if holder:
            self._hold(due, [holder])
        return bool(holder)

    def _waits_for_word(self, due: _Due) -> bool:
        """⚠ The files of a registered table were written by somebody else."""
        backend, id = self._store.backend, due.task.content_id
        if self._options.registered or not self._safeguards.registered:
            return False
        if not RegisteredTables(backend, due.realm, self._clock).has(id):
            return False
        self._hold(due, ["it was registered, and its files may be another catalog's: --registered takes them"])
        return True

    def _hold(self, due: _Due, by: Sequence[str]) -> None:
        """Logged only when the reason has changed."""
        self._record(due, state=TaskState.HELD, held_by=[one[:500] for one in by])

    def _record(self, due: _Due, **changes: object) -> None:
        moved = msgspec.structs.replace(due.task, **changes)
        if moved != due.task and not self._options.dry_run:
            due.task = ImmediateTasks(self._store.kernel(due.realm)).move(due.task, moved)
        elif self._options.dry_run:
            due.task = moved
        if due.task.state is not TaskState.DELETING or not due.files:
            sample = _sample(due) if self._options.dry_run else []
            self._reports.append(TaskReport(realm=due.realm, task=due.task, would_purge=len(due.going), sample=sample))

    def _count(self, run: Run) -> None:
        for report in self._reports:
            task = report.task
            self._counts.setdefault(report.realm, Counts()).would_purge += report.would_purge
            if task.failed or task.fault:
                line = f"{'.'.join(task.key)}: {task.fault or f'{task.failed} files could not be deleted'}"
                run.record.failures = [*run.record.failures, line]
        for realm, counts in self._counts.items():
            run.record.counts.setdefault(realm, {}).setdefault(_FILES, Counts()).add(counts)
        for realm, files in self._files.items():
            run.record.files.setdefault(realm, FileCounts()).add(files)

    def _purged(self, due: _Due, stats: PurgeStats) -> None:
        """What one pass over one table did. If the pass ended early, what it did not reach counts as zero."""
        failed = stats.failed + len(due.faults)
        self._counts.setdefault(due.realm, Counts()).add(Counts(purged=stats.purged, failed=failed, retained=stats.spared))
        files = list(distinct(due.files))
        listed = stats.purged + stats.missing + stats.failed + stats.spared
        known_bytes = sum(file.size or 0 for file in files) if listed == len(files) else stats.bytes
        self._files.setdefault(due.realm, FileCounts()).add(
            FileCounts(
                listed=listed,
                kept=stats.spared,
                deleted=stats.purged,
                missing=stats.missing,
                failed=stats.failed,
                listed_bytes=known_bytes,
                kept_bytes=max(0, known_bytes - stats.bytes),
                deleted_bytes=stats.bytes,
            )
        )

    def _refused(self, due: _Due) -> None:
        self._files.setdefault(due.realm, FileCounts()).refusals += 1


class _MarkedRun:
    """Steps 2 to 6."""

    def __init__(self, purge: TaskPurge, run: Run, live: LiveFiles, roots: Sequence[Root]) -> None:
        self._purge = purge
        self._run = run
        self._live = live
        self._roots = roots
        self._store = purge._store
        self._options = purge._options
        self._safeguards = purge._safeguards
        self._salt = purge._salt
        self._spans: dict[str, dict[str, Span]] = {}
        self._marked: IdSet = IdCollector().finish()
        self._intents = RemovalIntents(self._store.backend, self._store.clock, run.record.id)
        self._kept: tuple[str, ...] = ()
        """Folded folders below the root of one group from which nothing is deleted."""

    def run(self, due: Sequence[_Due]) -> None:
        self._mark("mark", {one.realm for one in due})
        self._marked = self._live.finish()
        due = [one for one in due if not self._keeps_history(one)]
        for root in [*self._roots, None]:
            group = [one for one in due if self._root_of(one) == root]
            if not group:
                continue
            try:
                self._purge_group(root, group)
            except (MaintenanceSuperseded, MaintenanceStopped):
                raise
            except HeadwaterError as error:
                for one in group:
                    self._interrupted(one, str(error))

    def _keeps_history(self, due: _Due) -> bool:
        """⚠ After the fence: a table that was to be forgotten and that somebody holds by now."""
        if not self._purge._forgetting.is_named(due.realm, due.task):
            return False
        holders = self._purge._forgetting.check(due.realm, due.task, self._spans[due.realm])
        if holders:
            self._purge._hold(due, [f"{one}, so its history stays" for one in holders])
        return bool(holders)

    def _interrupted(self, due: _Due, reason: str) -> None:
        due.files = []
        self._purge._refused(due)
        if due.task.state in (TaskState.HELD, TaskState.WAITING_FOR_FILE_DELETION):
            self._purge._hold(due, [reason])
        elif due.task.state is TaskState.DELETING:
            self._purge._record(due, fault=reason[:1_000])

    def _mark(self, step: str, realms_of_tasks: set[str]) -> None:
        """⚠ Every realm counts, whichever realm dropped the table."""
        for realm in markable_realms(self._store):
            if self._safeguards.union or realm in realms_of_tasks:
                self._run.check()
                self._purge._at(step)
                fenced = fence_patiently(self._store.backend, realm, self._store.clock)
                spans = fenced.spans if self._safeguards.history else _heads(fenced.spans)
                self._spans[realm] = spans
                self._live.add(self._store.backend, realm, spans)
        self._purge._progress("files in use", self._live.count)

    def _root_of(self, due: _Due) -> Root | None:
        named = parse_reference_pointer(due.task.pointer)
        catalog = None if named is None else named.catalog_id
        return next((root for root in self._roots if (root.realm, root.catalog_id) == (due.realm, catalog)), None)

    def _purge_group(self, root: Root | None, group: Sequence[_Due]) -> None:
        if root is None:
            for one in group:
                self._purge._hold(one, ["its catalog has no storage root of its own"])
            return
        self._check_readable(root)
        record = self._purge._roots.get(root)
        if self._safeguards.claim:
            self._purge._claims.require(root, record)
            self._purge._claims.require_alone(root)
        self._kept = self._kept_below(root)
        ready = [one for one in self._unheld(group) if self._choose(one, root)]
        if self._options.dry_run:
            for one in ready:
                self._purge._record(one, held_by=[])
            return
        if not ready:
            return
        intent = self._announce(root, ready)
        if self._safeguards.second_fence:
            self._mark("second fence", {one.realm for one in ready})
            self._live.prove_cache()
            self._check_readable(root)
            ready = [one for one in ready if not self._keeps_history(one)]
        for one in self._unheld(ready):
            self._rescue(one, root)
            self._delete(one, root, record, intent)
        self._intents.done(intent)

    def _check_readable(self, root: Root) -> None:
        """⚠ A version with files below this root cannot be read."""
        if root.place in self._live.refused:
            raise MaintenanceRefused(self._live.refused[root.place], field="metadata_location")

    def _unheld(self, group: Sequence[_Due]) -> list[_Due]:
        held = [one for one in group if self._live.holds(one.task.metadata_location)]
        for one in held:
            forgotten = self._purge._forgetting.versions
            self._purge._hold(one, holders(self._store.backend, self._spans, one.task.metadata_location, forgotten))
        return [one for one in group if one not in held]

    # ── choose ──────────────────────────────────────────────────────────────────────────────────────────────

    def _choose(self, due: _Due, root: Root) -> bool:
        """Whether the table's remaining files are known."""

        gone: set[str] = set()

        def fault(found: Fault) -> None:
            if found.missing:
                gone.add(found.location)
            else:
                due.faults.append(found.reason)

        location = due.task.metadata_location
        older = self._purge._forgetting.locations(due.realm, due.task, self._spans.get(due.realm, {}))
        older = [one for one in older if one != location]
        due.files = files_of_table(self._purge._operations, location, older, fault)
        due.is_gone = gone.issuperset([location, *older])
        unowned = UNOWNED_KINDS if self._safeguards.unowned and gives_up_no_data(self._purge._operations, due.task) else ()
        if due.is_gone:
            is_finished = due.task.state is TaskState.DELETING and not due.task.failed
            ends = TaskState.DONE if is_finished else TaskState.METADATA_UNREADABLE
            due.files = []
            self._purge._record(due, state=ends, held_by=[], fault="" if is_finished else "the metadata file is gone")
            return False
        due.going = {file.location for file in due.files if file.kind not in unowned}
        self._rescue(due, root)
        if self._safeguards.surroundings:
            self._look_around(due, root)
        return True

    def _kept_below(self, root: Root) -> tuple[str, ...]:
        """⚠ The folders of catalogs that take no claim and of tables that are being staged: no state names their files yet."""
        reserved = LocationReservations(self._store.backend, self._store.clock).all() if self._safeguards.reservations else ()
        return (*closed_inside(self._roots, root), *(fold(f"{one.location.rstrip('/')}/") for one in reserved))

    def _look_around(self, due: _Due, root: Root) -> None:
        """⚠ Metadata can name files of tables that no catalog of this store knows: those files stay."""
        operations = self._purge._operations
        around = surroundings(operations, root, (FoundFile(location, 1, 0) for location in due.going))
        kept = (*around.kept, *self._purge._claims.foreign_folders(root, around.claims))
        due.going = {location for location in due.going if not fold(location).startswith(kept)}

    def _rescue(self, due: _Due, root: Root) -> None:
        """⚠ File by file: what another table, branch or catalog needs is spared, and so is what lies elsewhere."""
        protected = (*self._live.protected, *self._kept)
        judgement = Judgement(salt=self._salt, older_than=2**62, safeguards=FILES_ALL_ON, protected=protected)
        keeps = one_by_one(lambda one: one in self._marked or self._live.is_late(one))
        sorting = Sorting(keeps, self._live.names, judgement)
        known = [FoundFile(file.location, file.size or 1, 0) for file in due.files if file.location in due.going]
        listed = sorting.sort(root.location, [known], lambda _: None)
        due.going = {
            file.location
            for file in listed.candidates
            if not self._safeguards.below_root or is_below(root.location, file.location)
        }

    # ── delete ──────────────────────────────────────────────────────────────────────────────────────────────

    def _announce(self, root: Root, ready: Sequence[_Due]) -> RemovalIntent:
        condemned = IdCollector()
        condemned.add(fingerprint(location, self._salt) for one in ready for location in one.going)
        intent = RemovalIntent(
            id=f"{self._run.record.id}-{root.catalog_id}",
            holder=self._run.record.id,
            root=root.location,
            realm=root.realm,
            catalog_id=root.catalog_id,
            salt=self._salt,
        )
        self._run.check()
        intent = write_condemned(self._purge._operations.storages, intent, condemned.finish())
        self._purge._at("intent")
        return self._intents.put(msgspec.structs.replace(intent, phase=RemovalPhase.DELETING))

    def _delete(self, due: _Due, root: Root, record: RootRecord, intent: RemovalIntent) -> None:
        now = self._store.clock.now_micros()
        self._purge._at("settle")
        self._purge._forgetting.settle(due.realm, due.task)
        self._purge._record(due, state=TaskState.DELETING, held_by=[], deleting_since=due.task.deleting_since or now, fault="")
        storages = self._purge._operations.storages
        keep_keys(storages, root.location, self._run.record.id, sorted(due.going), part=due.task.id[:16])
        self._purge._at("delete")
        stats = PurgeStats()

        def count(so_far: PurgeStats) -> None:
            nonlocal stats
            stats = so_far

        spec = PurgeSpec(
            batch_size=self._options.batch_size,
            files_per_second=self._options.files_per_second,
            batches_per_second=self._options.batches_per_second,
            may_delete=lambda file: file.location in due.going,
            before_request=lambda: self._check(root, record, intent),
            on_batch=count,
        )
        try:
            stats = self._purge._operations.purge(due.files, spec)
        finally:
            self._purge._purged(due, stats)
        self._purge._progress("purged", stats.purged)
        self._purge._at("record")
        due.files = []
        self._purge._record(due, **self._result(due, stats, now))

    def _result(self, due: _Due, stats: PurgeStats, now: int) -> dict[str, object]:
        """⚠ A failure never reads as success."""
        failed = stats.failed + len(due.faults)
        state = TaskState.DONE
        if failed:
            is_over = now - due.task.deleting_since > TRY_SECONDS * MICROS
            state = TaskState.DONE_WITH_FAILURES if is_over else TaskState.DELETING
        reasons = [*due.faults, *(one.reason for one in stats.failures)]
        return {
            "state": state,
            "purged": due.task.purged + stats.purged,
            "missing": stats.missing,
            "spared": stats.spared,
            "failed": failed,
            "fault": reasons[0][:1_000] if reasons else "",
        }

    def _check(self, root: Root, record: RootRecord, intent: RemovalIntent) -> None:
        """⚠ Before each batch. A process that slept deletes nothing."""
        self._purge._at("batch")
        self._run.check()
        if self._safeguards.lease:
            self._run.lease.require_for(REQUEST_SECONDS)
            self._intents.require(intent, REQUEST_SECONDS)
            self._intents.put(intent)
        if self._safeguards.claim:
            self._purge._claims.require(root, record)


def _sample(due: _Due) -> list[FileGroup]:
    files = (file for file in distinct(due.files) if file.location in due.going)
    return file_groups(files, lambda _: ".".join(due.task.key))


def _heads(spans: dict[str, Span]) -> dict[str, Span]:
    """What a purge would see if it ignored history; only tests use it."""
    return {name: msgspec.structs.replace(span, floor=span.seq) for name, span in spans.items()}
