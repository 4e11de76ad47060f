"""Random commits, references, expiries, sweeps, purges and histories given up, also in the middle of each other: every file of
every retained state is there afterwards."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.reading.state import State
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.operations import CatalogOperation, Delete, Put, Rename
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.merging.merge import MergeRequest, commit_merge
from headwater.producer.merging.transplant import TransplantRequest
from headwater.producer.pointer_names import ReferenceType, branch_pointer
from headwater.producer.references.references import References
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.files.tasks.forgetting import NamedTask
from headwater.streaming.files.watch.verify_files import verify_files
from tests.support.fixtures.purged_lake import drop_with_purge, forget_history, purge_tasks, tasks_of
from tests.support.fixtures.swept_lake import META, SweptLake, swept_lake

SEEDS, STEPS = (300, 60) if os.environ.get("HEADWATER_SOAK") == "1" else (4, 40)
FIRST_SEED = int(os.environ.get("HEADWATER_REMOVALS_SEED", "0"))
KEYS = ("a", "b", "c")
BRANCHES = ("main", "dev", "other")
AT_STEPS = ("mark", "list", "intent", "second fence", "settle", "delete", "batch", "forget")


class Removals:
    """One run. Whatever is refused with a typed error changes nothing; everything acknowledged must stay whole."""

    def __init__(self, lake: SweptLake, seed: int) -> None:
        self.lake = lake
        self.chance = random.Random(seed)
        self.realms = [lake.realm, lake.new_realm("second", "")]
        self.done: list[str] = []
        self.versions = [one for number in range(2) for one in self._table(f"first{number}")]
        self.removals = 0
        self.is_removing = False

    def _table(self, name: str) -> list[str]:
        """Versions that share files, one whose snapshots were expired, and a clone."""
        table = self.lake.table(name, 2)
        found = [table.metadata_location]
        table.append(table.scan().to_arrow())
        found.append(table.metadata_location)
        for snapshot in table.snapshots()[:-1]:
            table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
        found.append(table.metadata_location)
        path = Path(found[1].removeprefix("file://"))
        clone = path.with_name(f"clone-{path.name}")
        shutil.copy(path, clone)
        return [*found, f"file://{clone}"]

    # ── what is done ────────────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        kinds: list[Callable[[], None]] = [*[self.put] * 5, self.drop, self.rename, self.create, self.create]
        kinds += [self.delete, self.assign, self.merge, self.transplant]
        if not self.is_removing:
            kinds += [*[self.drop_with_purge] * 3, self.expire, self.sweep, self.purge, *[self.forget] * 3]
        kind = self.chance.choice(kinds)
        self.done.append(kind.__name__)
        try:
            kind()
        except HeadwaterError as error:
            self.done.append(f"{kind.__name__}: {error.code}")

    def put(self) -> None:
        """Only versions of which nothing was deleted yet, as if an engine had just written the files."""
        files = self.lake.files()
        whole = [one for one in self.versions if one in files and self.lake.needed_or_gone(one) <= files]
        if not whole:
            self.versions = whole = self._table(f"t{len(self.done)}")
        realm = self.realms[self.chance.random() < 0.2]
        self._commit(Put((self.chance.choice(KEYS),), IcebergTable(self.chance.choice(whole))), realm=realm)

    def drop(self) -> None:
        self._commit(Delete((self.chance.choice(KEYS),)), realm=self.chance.choice(self.realms))

    def rename(self) -> None:
        self._commit(Rename((self.chance.choice(KEYS),), (self.chance.choice(KEYS),)), branch=self.chance.choice(BRANCHES))

    def drop_with_purge(self) -> None:
        key = self.chance.choice(KEYS)
        kernel = self.lake.store.kernel(self.lake.realm)
        content = State(kernel, self._references().resolve("main").logged).content((key,))
        if content is not None:
            drop_with_purge(self.lake, key, str(content.value["metadata_location"]))

    def create(self) -> None:
        type = self.chance.choice([ReferenceType.BRANCH, ReferenceType.TAG])
        name = self.chance.choice(BRANCHES[1:]) if type is ReferenceType.BRANCH else "tag"
        self._references().create(name, self._old_state().commit.hex(), type=type, meta=META)

    def delete(self) -> None:
        self._references().delete(self.chance.choice((*BRANCHES[1:], "tag", "tag")), meta=META)

    def assign(self) -> None:
        self._references().assign(self.chance.choice((*BRANCHES[1:], "tag")), self._old_state().commit.hex(), meta=META)

    def merge(self) -> None:
        source = self._old_state()
        target = self._pointer(self.chance.choice(BRANCHES))
        kernel = self.lake.store.kernel(self.lake.realm)
        commit_merge(kernel, target, MergeRequest(kernel, source, source.entry.pointer, META))

    def transplant(self) -> None:
        kernel = self.lake.store.kernel(self.lake.realm)
        kernel.committer.commit(
            self._pointer(self.chance.choice(BRANCHES)), TransplantRequest(kernel, [self._old_state()], META)
        )

    def expire(self) -> None:
        forget_history(self.lake, self.chance.choice(["*=1n", "*=3n", "cat/*/heads/main=1n, *=100n"]))

    # ── removals, with something in the middle ──────────────────────────────────────────────────────────────

    def sweep(self) -> None:
        for _ in range(2):
            for root in self.lake.sweep(at=self._meanwhile()).roots:
                assert not root.damage, root.damage
                assert "missing" not in root.refusal, root.refusal
                self.removals += 0 if root.purge is None else root.purge.purged

    def purge(self) -> None:
        self._purged(None)

    def forget(self) -> None:
        waiting = [task for task in tasks_of(self.lake) if task.state in ("HELD", "DELETING")]
        if waiting:
            task = self.chance.choice(waiting)
            self._purged(NamedTask(realm=self.lake.realm, id=task.id, author="ops"))

    def _purged(self, forget: NamedTask | None) -> None:
        dies_at = self.chance.choice(["", "", "", *AT_STEPS])
        meanwhile = self._meanwhile()

        def at(step: str) -> None:
            meanwhile(step)
            if step == dies_at:
                raise KeyboardInterrupt

        before = len(self.lake.files())
        try:
            purge_tasks(self.lake, forget=forget, at=at, batch_size=3)
        except KeyboardInterrupt:
            self.done.append(f"died at {dies_at}")
        self.removals += before - len(self.lake.files())

    def _meanwhile(self) -> Callable[[str], None]:
        chosen = self.chance.choice(AT_STEPS)
        left = self.chance.randrange(4)

        def act(step: str) -> None:
            nonlocal left
            if step == chosen and left and not self.is_removing:
                self.is_removing, left = True, left - 1
                try:
                    self.step()
                finally:
                    self.is_removing = False

        return act

    # ── checks ──────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        for realm in self.realms:
            report = verify_files(self.lake.store, realm, self.lake.operations, lambda _what, _count: None)
            assert report.holds, (report.damage[:3], self.done[-12:])

    def _references(self) -> References:
        kernel = self.lake.store.kernel(self.lake.realm)
        return References(kernel, Catalogs(kernel).list()[0].id)

    def _pointer(self, branch: str) -> str:
        return branch_pointer(Catalogs(self.lake.store.kernel(self.lake.realm)).list()[0].id, branch)

    def _old_state(self) -> LogRecord:
        kernel = self.lake.store.kernel(self.lake.realm)
        name = self.chance.choice(BRANCHES)
        return self.chance.choice(list(PointerLog(kernel, self._pointer(name)).forward("earliest")))

    def _commit(self, operation: CatalogOperation, *, realm: str | None = None, branch: str = "main") -> None:
        kernel = self.lake.store.kernel(realm or self.lake.realm)
        catalog = Catalogs(kernel).list()[0]
        kernel.committer.commit(branch_pointer(catalog.id, branch), CatalogCommit(kernel, [operation], META))


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_that_was_acknowledged_loses_a_file(tmp_path: Path, seed: int) -> None:
    with swept_lake(tmp_path, cached=bool(seed % 2)) as lake:
        run = Removals(lake, seed)
        for _ in range(STEPS):
            run.step()
            run.check()
        orphan = lake.needed(lake.table("orphan").metadata_location)
        forget_history(lake)
        run.purge()
        run.sweep()
        run.check()
        assert not orphan & lake.files() and run.removals >= len(orphan), run.done
