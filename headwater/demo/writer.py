"""A process that commits to the demo's store and keeps a journal of it.

Each request id is built from the writer's name and step: a successor that repeats the last step after a crash commits it once.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from headwater.demo import workload
from headwater.demo.journal import Journal, JournalEvent, JournalLine
from headwater.demo.workload import WorkloadStep
from headwater.embedded import CatalogHandle, open_embedded
from headwater.producer.commits.catalog_commit import CommitResult
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation, Put
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.pointer_names import ReferenceType
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CommitConflict, HeadwaterError

SHARE_TRIES_MAX = 50
REALM, CATALOG = "default", "lake"


class WriterConfig(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    store: str
    diary: str
    first_step: int
    steps: int
    tables_at_once: int
    pause_seconds: float


class Writer:
    def __init__(self, orders: WriterConfig, lake: CatalogHandle, diary: Journal) -> None:
        self._orders = orders
        self._lake = lake
        self._main = lake.branch()
        self._diary = diary
        self._name = orders.name

    def step(self, step: int) -> None:
        match workload.workload_step(step):
            case WorkloadStep.CREATE:
                self._put_on_main(step, "Create", workload.create(self._name, step, self._orders.tables_at_once))
            case WorkloadStep.EVOLVE:
                self._put_on_main(step, "Evolve", workload.evolve(self._tables(), step))
            case WorkloadStep.RENAME:
                self._put_on_main(step, "Rename", workload.rename(self._tables(), step))
            case WorkloadStep.DROP:
                self._put_on_main(step, "Drop", workload.drop(self._tables(), step))
            case WorkloadStep.SHARE:
                self._share(step)
            case WorkloadStep.BRANCH:
                self._branch_and_merge(step)

    def _put_on_main(self, step: int, verb: str, operations: list[CatalogOperation]) -> None:
        self._commit(step, verb.lower(), "main", operations, f"{verb} {_some(len(operations))}")

    def _share(self, step: int) -> None:
        """Based on what was read: if another writer was faster, that is a conflict, and it is read again."""
        for attempt in range(SHARE_TRIES_MAX):
            seen = self._lake.snapshot("main").get(workload.SHARED)
            if seen is None:
                raise RuntimeError("the shared table is gone, which nobody drops")
            expected = msgspec.convert(seen.value, IcebergTable)
            grown = workload.table(workload.SHARED, (expected.snapshot_id or 0) + 1)
            time.sleep(self._orders.pause_seconds / 4)  # the work that is based on what was read
            try:
                self._commit(
                    step, f"share-{attempt}", "main", [Put(workload.SHARED, grown, expected=expected)], "Add to totals"
                )
            except CommitConflict:
                continue
            return
        raise RuntimeError(f"{SHARE_TRIES_MAX} writers in a row were faster")

    def _branch_and_merge(self, step: int) -> None:
        name, references = workload.branch_name(self._name, step), self._lake.references
        pointer = f"cat/{self._lake.info.id}/heads/{name}"
        type, meta = ReferenceType.BRANCH, CommitMeta(self._name)
        staged = workload.on_a_branch(self._name, self._tables(), step)
        self._do(step, "branch", pointer, 0, lambda id: references.create(name, type=type, meta=meta, request_id=id))
        for n, operations in enumerate(staged):
            self._commit(step, f"stage-{n}", name, operations, f"Stage {_some(len(operations))}")
        merge = self._lake.merge
        self._do(step, "merge", self._main.pointer, 0, lambda id: merge(name, author=self._name, request_id=id))
        self._do(step, "unbranch", pointer, 0, lambda id: references.delete(name, type=type, meta=meta, request_id=id))

    def _commit(self, step: int, what: str, branch: str, operations: list[CatalogOperation], message: str) -> None:
        handle = self._lake.branch(branch)

        def commit(request_id: str) -> CommitResult:
            return handle.commit(operations, author=self._name, message=message, request_id=request_id)

        self._do(step, what, handle.pointer, len(operations), commit)

    def _do(self, step: int, what: str, pointer: str, operations: int, act: Callable[[str], CommitResult]) -> None:
        """Write down what is tried, do it, write down the result."""
        line = JournalLine(
            event=JournalEvent.TRIED,
            step=step,
            request_id=f"{self._name}-{step:02d}-{what}",
            pointer=pointer,
            operations=operations,
        )
        self._diary.note(line)
        try:
            result = act(line.request_id)
        except HeadwaterError:
            self._diary.note(msgspec.structs.replace(line, event=JournalEvent.REFUSED))
            raise
        if result.change is None:
            raise RuntimeError(f"{line.request_id} had nothing to do")
        acknowledged = msgspec.structs.replace(
            line, event=JournalEvent.ACKNOWLEDGED, seq=result.change.seq, replayed=result.replayed
        )
        self._diary.note(acknowledged)

    def _tables(self) -> dict[KeyPath, int]:
        entries = self._lake.snapshot("main").entries((self._name,), ["ICEBERG_TABLE"])
        return {entry.key: int(entry.value["snapshot_id"]) for entry in entries}


def _some(operations: int) -> str:
    return "one table" if operations == 1 else f"{operations} keys at once"


def main(orders: WriterConfig) -> None:
    diary = Journal(Path(orders.diary))
    with open_embedded(orders.store) as engine:
        writer = Writer(orders, engine.realm(REALM).catalog(CATALOG), diary)
        print("ready", flush=True)
        if not sys.stdin.readline():
            return  # the parent process is gone
        for step in range(orders.first_step, orders.steps):
            writer.step(step)
            time.sleep(random.uniform(0.5, 1.5) * orders.pause_seconds)  # noqa: S311 - a pace, not a secret
    diary.close()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=WriterConfig))
