"""Measures what a removal of files costs commits, and the requests of `DROP … PURGE`, on local files.

The commits put tables whose one manifest of 1,000 entries is new; beside a removal each of these files is looked up.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.context import Context
from bench.file_tables import FilesOnDisk
from bench.measures import Measure
from headwater.persistence.coordination.removal_intents import RemovalIntent, RemovalIntents, RemovalPhase
from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import Store, open_store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import CatalogOperation, Delete, Put
from headwater.producer.content.content_types import IcebergTable
from headwater.producer.immediate_tasks import PURGE_TABLE, ImmediateTask, ImmediateTasks, TaskState
from headwater.producer.pointer_names import branch_pointer
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.files.fingerprints import fingerprints, id_set
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.reach_files import condemned_files_of
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.condemned_files import write_condemned
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, LEASE_SECONDS
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.files.tasks.task_purge import TaskPurge, TaskPurgeOptions
from headwater.streaming.reachability.fence import fence_realm
from headwater.streaming.runs.runs import Runs

TITLE = "Files: commits beside a removal, DROP … PURGE"
META = CommitMeta("bench")
ENTRIES, TABLES, CONDEMNED, PURGED = 1_000, 12, 10_000, 10_000
SALT = bytes(16)
REQUESTS = ("list", "folders", "files", "head", "read", "write", "delete")


class Lake:
    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder / "lake"
        self.operations = FileOperations(Storages(), cache_folder=str(folder / "cache"))
        realms = Realms(store)
        realms.create("bench")
        realms.init("bench")
        self.kernel = realms.require_active("bench")
        self.catalog_id = Catalogs(self.kernel).ensure("lake", storage_root=f"file://{self.folder}", meta=META).id
        self.pointer = branch_pointer(self.catalog_id, "main")

    def table(self, name: str, files: int) -> str:
        """The location of its metadata; a tenth more files lie beside those that it names."""
        return FilesOnDisk(self.folder / name, files * 10 // 9).metadata

    def commit(self, operation: CatalogOperation) -> None:
        self.kernel.committer.commit(self.pointer, CatalogCommit(self.kernel, [operation], META))


def run(context: Context) -> Iterator[Measure]:
    for measure in (_gate, _drop):
        with (
            context.console.status("writing files …"),
            tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder,
            open_store(f"sqlite:///{folder}/store.db", create=True) as store,
        ):
            yield from measure(Lake(store, Path(folder)))


def _gate(lake: Lake) -> Iterator[Measure]:
    lake.store.reach_files = condemned_files_of({})
    located = [lake.table(f"t{number}", ENTRIES) for number in range(2 * TABLES)]
    alone = _commits(lake, located[:TABLES])
    intents = RemovalIntents(lake.store.backend, lake.store.clock, "run")
    root = f"file://{lake.folder}/"
    intent = RemovalIntent("run-0", "run", root, lake.kernel.realm, lake.catalog_id, salt=SALT)
    condemned = fingerprints([f"{root}gone/{number}.parquet" for number in range(CONDEMNED)], SALT)
    condemned.sort()
    intent = write_condemned(lake.operations.storages, intent, id_set(condemned))
    intents.put(msgspec.structs.replace(intent, phase=RemovalPhase.DELETING))
    fence_realm(lake.store.backend, lake.kernel.realm, lake.store.clock)
    beside = _commits(lake, located[TABLES:])
    subject = f"put of one new manifest of {ENTRIES:,} entries"
    for unit, at in (("ms", 0), ("core ms", 1)):
        before, with_intent = (statistics.median(one[at] for one in commits) for commits in (alone, beside))
        yield Measure("file-costs", subject, "alone", before, unit)
        yield Measure("file-costs", subject, "beside a removal", with_intent, unit)
        yield Measure("file-costs", subject, "more beside a removal", with_intent - before, unit)


def _commits(lake: Lake, located: Sequence[str]) -> list[tuple[float, float]]:
    """Milliseconds of each, by the clock and of a core."""
    found = []
    for location in located:
        started, cores = time.perf_counter(), time.process_time()
        lake.commit(Put((location.split("/")[-4],), IcebergTable(location)))
        found.append(((time.perf_counter() - started) * 1_000, (time.process_time() - cores) * 1_000))
    return found


def _drop(lake: Lake) -> Iterator[Measure]:
    for root in roots_of(lake.store, [lake.kernel.realm]):
        Claims(lake.store, lake.operations.storages).claim(root)
    location = lake.table("t", PURGED)
    lake.commit(Put(("t",), IcebergTable(location)))
    _dropped(lake)
    _forget_history(lake)
    requests = _counted(lake.operations.storages.of(location))
    runs = Runs(lake.store.backend, lake.store.clock, lease_seconds=LEASE_SECONDS, lease_key=FILES_LEASE)
    started, cores = time.perf_counter(), time.process_time()
    with runs.run("files-purge") as run:
        [report] = TaskPurge(lake.store, lake.operations, TaskPurgeOptions(wait_seconds=0)).run(run)
    subject = f"DROP … PURGE of {PURGED:,} files"
    yield Measure("file-costs", subject, "after its hold ends", time.perf_counter() - started, "s")
    yield Measure("file-costs", subject, "after its hold ends", time.process_time() - cores, "core s")
    for name, count in sorted(requests.items()):
        yield Measure("file-costs", subject, f"requests: {name}", count, "")
    [task] = ImmediateTasks(lake.kernel).all()
    if task.state is not TaskState.DONE or task.purged < PURGED:
        raise AssertionError(f"{report}")


def _dropped(lake: Lake) -> None:
    """As a worker's runner leaves it."""
    lake.commit(Delete(("t",)))
    newest = list(PointerLog(lake.kernel, lake.pointer).forward("earliest"))[-1]
    tasks = ImmediateTasks(lake.kernel)
    task = ImmediateTask(
        id="0" * 32,
        kind=PURGE_TABLE,
        state=TaskState.INTENDED,
        pointer=lake.pointer,
        key=("t",),
        request_id="drop",
        after_seq=newest.entry.seq - 1,
        created_at=lake.store.clock.now_micros(),
        created_by="bench",
    )
    tasks.intend(task)
    dropped = tasks.dropped(task, change_of(newest, lake.kernel.realm_name))
    tasks.move(dropped, msgspec.structs.replace(dropped, state=TaskState.HELD))


def _forget_history(lake: Lake) -> None:
    with Runs(lake.store.backend, lake.store.clock).run("expire") as run:
        expire_realms(lake.store, run, [lake.kernel.realm], parse_retention("*=1n"))


def _counted(store: Any) -> Counter[str]:
    """Requests to a storage from now on, by kind."""
    counts: Counter[str] = Counter()

    def counting(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            counts[name] += 1
            return call(*arguments)

        return counted

    for name in REQUESTS:
        setattr(store, name, counting(name, getattr(store, name)))
    return counts
