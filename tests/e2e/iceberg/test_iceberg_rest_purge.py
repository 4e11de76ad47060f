"""Dropping with purge: a task is recorded whatever crashes, one runner continues with it, and maintenance deletes the files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx
import msgspec
import pytest

import headwater
from headwater.embedded import CatalogHandle, Headwater
from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import RealmKernel
from headwater.producer.immediate_tasks import IMMEDIATE_TASKS, ImmediateTask, ImmediateTasks, TaskState
from headwater.schemas.errors import CommitOutcomeUnknown, HistoryForgotten, MalformedMetadata, TableNotFound
from headwater.service.iceberg.operations.key_locks import KeyLocks
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.iceberg.operations.namespaces import create_namespace
from headwater.service.iceberg.operations.purging import files_named_by
from headwater.service.iceberg.operations.tables import TableCreation, create_table, drop_table, load_table, register_table
from headwater.service.operations import task_runner
from headwater.service.operations.task_runner import TaskRunner
from headwater.service.storage.files import LocalFiles
from headwater.service.storage.locations import Warehouse, local_path
from headwater.streaming.expire.expire import expire_realms
from headwater.streaming.expire.retention import parse_retention
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.files.tasks.forgetting import named_task
from headwater.streaming.files.tasks.task_purge import TaskPurge, TaskPurgeOptions
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.iceberg_lake import table_body
from tests.support.servers.served import ServedStore

ME = CommitAuthor("me")
KEY = ("db", "t")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Headwater]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as opened:
        yield opened


@pytest.fixture
def catalog(engine: Headwater, tmp_path: Path) -> CatalogHandle:
    return engine.ensure_realm().create_catalog("lake", storage_root=(tmp_path / "warehouse").as_uri())


@pytest.fixture
def branch(catalog: CatalogHandle) -> LakeBranch:
    metadata = MetadataFiles(Warehouse(catalog.info.storage_root), LocalFiles())
    made = LakeBranch(catalog.realm.kernel, catalog.info, "", metadata, KeyLocks())
    create_namespace(made, ME, ("db",), {})
    create_table(made, ME, KEY, TableCreation(name="t", schema=table_body("t")["schema"]))
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An intent is not left to anybody."""
    monkeypatch.setattr(task_runner, "INTENT_SECONDS", 0.0)


def runner_of(branch: LakeBranch) -> TaskRunner:
    return TaskRunner(lambda: [branch.kernel], files_named_by(Lakes()))


def only_task(branch: LakeBranch) -> ImmediateTask:
    (task,) = ImmediateTasks(branch.kernel).all()
    return task


def test_a_drop_with_purge_leaves_a_task_and_all_files(branch: LakeBranch, catalog: CatalogHandle) -> None:
    location = load_table(branch, KEY).location
    drop_table(branch, ME, KEY, purge=True)
    assert only_task(branch).state is TaskState.DROPPED
    assert runner_of(branch).run_realm(branch.kernel) == 1
    task = only_task(branch)
    assert (task.state, task.files_named) == (TaskState.HELD, 1)
    assert (task.metadata_location, task.key) == (location, KEY)
    assert Path(local_path(location)).exists()
    newest = list(catalog.branch().changes())[-1]
    assert (task.commit_id, newest.headers["iceberg.purge"]) == (newest.commit_id, "true")
    assert runner_of(branch).run_realm(branch.kernel) == 0
    assert ImmediateTasks(branch.kernel).open() == [], "what is done is looked at again and again"


def purging(branch: LakeBranch, **options: Any) -> Callable[[], TaskState]:
    """A run over the tasks, below the claimed root."""
    store, operations = branch.kernel.store, FileOperations(Storages())
    claims = Claims(store, operations.storages)
    for root in roots_of(store, [branch.kernel.realm]):
        claims.claim(root)
    runs = Runs(store.backend, store.clock, lease_seconds=300, lease_key=FILES_LEASE)

    def purge() -> TaskState:
        with runs.run("files-purge") as run:
            TaskPurge(store, operations, TaskPurgeOptions(wait_seconds=0, **options)).run(run)
        return only_task(branch).state

    return purge


def expire(branch: LakeBranch) -> None:
    store = branch.kernel.store
    with Runs(store.backend, store.clock).run("expire") as run:
        expire_realms(store, run, [branch.kernel.realm], parse_retention("cat/*=1n"))


def test_maintenance_deletes_the_files_when_history_has_expired(branch: LakeBranch) -> None:
    location = load_table(branch, KEY).location
    drop_table(branch, ME, KEY, purge=True)
    runner_of(branch).run_realm(branch.kernel)
    purge = purging(branch)
    assert purge() is TaskState.HELD and Path(local_path(location)).exists()
    expire(branch)
    assert purge() is TaskState.DONE and not Path(local_path(location)).exists()
    told = [change_of(one, "default") for one in PointerLog(branch.kernel, IMMEDIATE_TASKS).forward("earliest")]
    states = [one.after["state"] for change in told for one in change.operations if one.after is not None]
    assert states[-3:] == ["HELD", "DELETING", "DONE"]


def test_a_reader_of_the_past_is_told_that_the_history_was_given_up(branch: LakeBranch) -> None:
    location = load_table(branch, KEY).location
    before = branch.state().at.commit.hex()
    drop_table(branch, ME, KEY, purge=True)
    runner_of(branch).run_realm(branch.kernel)
    past = LakeBranch(branch.kernel, branch.catalog, f"main@{before}", branch.metadata, KeyLocks())
    assert load_table(past, KEY).location == location
    named = named_task(branch.kernel.store, "db.t", "ops")
    assert purging(branch, forget=named)() is TaskState.DONE and not Path(local_path(location)).exists()
    for load in (past.load_metadata, past.load_metadata_if_there):
        with pytest.raises(HistoryForgotten) as error:
            load(KEY, location)
        assert (error.value.http_status, error.value.facts) == (410, {"key": ["db", "t"]})
    create_table(branch, ME, KEY, TableCreation(name="t", schema=table_body("t")["schema"]))
    again = LakeBranch(branch.kernel, branch.catalog, f"main@{branch.state().at.commit.hex()}", branch.metadata, KeyLocks())
    assert load_table(again, KEY).location != location, "another table of that name is not meant"


def test_files_of_a_table_that_was_registered_wait_for_a_word(branch: LakeBranch) -> None:
    location = load_table(branch, KEY).location
    drop_table(branch, ME, KEY)
    register_table(branch, ME, KEY, location, overwrite=False)
    drop_table(branch, ME, KEY, purge=True)
    runner_of(branch).run_realm(branch.kernel)
    expire(branch)
    assert purging(branch)() is TaskState.HELD and Path(local_path(location)).exists()
    assert "--registered" in only_task(branch).held_by[0]
    assert purging(branch, registered=True)() is TaskState.DONE and not Path(local_path(location)).exists()


def test_the_same_request_leaves_one_task(branch: LakeBranch) -> None:
    caller = CommitAuthor("me", RequestKey("key-1"))
    drop_table(branch, caller, KEY, purge=True)
    drop_table(branch, caller, KEY, purge=True)
    assert only_task(branch).request_id == "key-1"


def test_what_is_not_there_leaves_no_task(branch: LakeBranch) -> None:
    with pytest.raises(TableNotFound):
        drop_table(branch, ME, ("db", "none"), purge=True)
    assert list(ImmediateTasks(branch.kernel).all()) == []


def test_a_drop_without_purge_leaves_no_task(branch: LakeBranch) -> None:
    drop_table(branch, ME, KEY)
    assert list(ImmediateTasks(branch.kernel).all()) == []


@pytest.mark.parametrize("landed", [True, False])
def test_an_intent_is_settled_by_the_log(
    branch: LakeBranch, monkeypatch: pytest.MonkeyPatch, at_once: None, landed: bool
) -> None:
    """The outcome of the drop is not known: its task is there only if the drop is."""
    commit = branch.kernel.committer.commit
    fired = []

    def lose_the_answer(pointer: str, request: object) -> object:
        if pointer == IMMEDIATE_TASKS:
            return commit(pointer, request)  # type: ignore[arg-type]
        fired.append(pointer)
        if landed:
            commit(pointer, request)  # type: ignore[arg-type]
        raise CommitOutcomeUnknown("as ordered")

    monkeypatch.setattr(branch.kernel.committer, "commit", lose_the_answer)
    with pytest.raises(CommitOutcomeUnknown):
        drop_table(branch, ME, KEY, purge=True)
    monkeypatch.undo()
    monkeypatch.setattr(task_runner, "INTENT_SECONDS", 0.0)
    assert fired
    assert only_task(branch).state is TaskState.INTENDED
    runner = runner_of(branch)
    if landed:
        assert runner.run_realm(branch.kernel) == 1
        assert only_task(branch).state is TaskState.HELD
        return
    assert runner.run_realm(branch.kernel) == 0
    assert only_task(branch).state is TaskState.INTENDED, "a slow commit may still land"
    monkeypatch.setattr(task_runner, "ABANDONED_SECONDS", 0.0)
    assert runner.run_realm(branch.kernel) == 1
    assert list(ImmediateTasks(branch.kernel).all()) == []


def test_missing_metadata_is_recorded_and_not_retried_for_ever(branch: LakeBranch) -> None:
    location = load_table(branch, KEY).location
    drop_table(branch, ME, KEY, purge=True)
    Path(local_path(location)).unlink()
    assert runner_of(branch).run_realm(branch.kernel) == 1
    task = only_task(branch)
    assert task.state is TaskState.METADATA_UNREADABLE
    assert location in task.fault


def test_a_task_belongs_to_one_runner_until_its_lease_is_over(branch: LakeBranch, monkeypatch: pytest.MonkeyPatch) -> None:
    drop_table(branch, ME, KEY, purge=True)
    other = runner_of(branch)
    seen: list[int] = []

    def dies(kernel: RealmKernel, task: ImmediateTask) -> int:
        seen.append(other.run_realm(kernel))
        raise KeyboardInterrupt

    monkeypatch.setattr(TaskRunner, "_release", lambda *_: None)  # a dead runner releases nothing
    with pytest.raises(KeyboardInterrupt):
        TaskRunner(list, dies).run_realm(branch.kernel)
    assert seen == [0]
    assert other.run_realm(branch.kernel) == 0, "the lease of the dead one still holds"
    backend, realm = branch.kernel.store.backend, branch.kernel.realm
    (lease,) = backend.list_mutable(realm, task_runner.LEASE_TYPE)
    over = msgspec.structs.replace(lease, version=lease.version + 1, expires_at=lease.created_at)
    assert backend.update_mutable(realm, lease, over)
    assert other.run_realm(branch.kernel) == 1


def test_a_killed_server_continues_with_the_tasks_of_the_one_before(tmp_path: Path) -> None:
    server = ServedStore(f"sqlite:///{tmp_path}/lake.db")
    server.start()
    try:
        base = f"{server.url}/iceberg/v1/lake/namespaces"
        httpx.post(base, json={"namespace": ["db"]}).raise_for_status()
        made = httpx.post(f"{base}/db/tables", json=table_body("t")).json()
        httpx.delete(f"{base}/db/tables/t", params={"purgeRequested": "true"}).raise_for_status()
        server.kill9()  # sooner than its runner looks for the first time
        with headwater.open(server.store_url) as engine:
            (task,) = ImmediateTasks(engine.realm().kernel).all()
            assert task.state is TaskState.DROPPED, "the runner was faster than the kill"
        server.start()
        with headwater.open(server.store_url) as engine:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and task.state is not TaskState.HELD:
                time.sleep(0.1)
                (task,) = ImmediateTasks(engine.realm().kernel).all()
        assert task.state is TaskState.HELD
        assert Path(urlparse(made["metadata-location"]).path).exists()
    finally:
        server.stop()


def test_a_catalog_that_is_gone_makes_the_metadata_unreadable(branch: LakeBranch) -> None:
    drop_table(branch, ME, KEY, purge=True)
    task = only_task(branch)
    stray = ImmediateTask(**{name: getattr(task, name) for name in task.__struct_fields__} | {"pointer": "cat/99/heads/main"})
    with pytest.raises(MalformedMetadata):
        files_named_by(Lakes())(branch.kernel, stray)
