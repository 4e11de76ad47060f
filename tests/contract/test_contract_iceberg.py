"""Tables through the Iceberg operations on every backend: made, updated by several at once, purged, and told once each."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.log.log_entry import change_of
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.immediate_tasks import ImmediateTasks, TaskState
from headwater.service.iceberg.operations.key_locks import KeyLocks
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.lakes import Lakes
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.iceberg.operations.namespaces import create_namespace
from headwater.service.iceberg.operations.purging import files_named_by
from headwater.service.iceberg.operations.table_commits import table_change, update_table
from headwater.service.iceberg.operations.tables import TableCreation, create_table, drop_table, load_table
from headwater.service.operations.task_runner import TaskRunner
from headwater.service.storage.files import LocalFiles
from headwater.service.storage.locations import Warehouse
from tests.support.fixtures.iceberg_lake import table_body
from tests.support.models.realm_cases import realms_of, store_over

KEY = ("db", "t")
WRITERS, ROUNDS = 3, 4


@pytest.fixture(scope="module")
def store(store_url: str) -> Iterator[Store]:
    with store_over(store_url) as opened:
        yield opened


@pytest.fixture
def kernel(store: Store) -> RealmKernel:
    realms, name = realms_of(store), f"r-{secrets.token_hex(6)}"
    realms.create(name)
    realms.init(name)
    return realms.require_active(name)


@pytest.fixture
def branches(kernel: RealmKernel, tmp_path: Path) -> list[LakeBranch]:
    """One for each writer, without shared locks: they meet at the store."""
    catalog = Catalogs(kernel).create("lake", storage_root=tmp_path.as_uri(), meta=CommitMeta("test"))
    return [
        LakeBranch(kernel, catalog, "", MetadataFiles(Warehouse(tmp_path.as_uri()), LocalFiles()), KeyLocks())
        for _ in range(WRITERS)
    ]


def raw(*items: Any) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(item)) for item in items]


def test_a_table_is_created_updated_by_several_writers_and_purged(kernel: RealmKernel, branches: list[LakeBranch]) -> None:
    first = branches[0]
    create_namespace(first, CommitAuthor("me"), ("db",), {})
    create_table(first, CommitAuthor("me"), KEY, TableCreation(name="t", schema=table_body("t")["schema"]))

    def write(number: int) -> None:
        for round in range(ROUNDS):
            updates = raw({"action": "set-properties", "updates": {f"{number}.{round}": "x"}})
            update_table(
                branches[number], CommitAuthor("me", RequestKey(f"{number}-{round}")), table_change(first, KEY, [], updates)
            )

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(write, range(WRITERS)))
    write(0)  # the same keys again: nothing is done twice
    assert len(load_table(first, KEY).table["properties"]) == WRITERS * ROUNDS
    location = drop_table(first, CommitAuthor("me"), KEY, purge=True)
    assert TaskRunner(list, files_named_by(Lakes())).run_realm(kernel) == 1
    (task,) = ImmediateTasks(kernel).all()
    assert (task.state, task.metadata_location) == (TaskState.HELD, location)

    changes = [change_of(logged, kernel.realm_name) for logged in PointerLog(kernel, first.pointer).forward()]
    told = [one for change in changes for one in change.operations if one.key == KEY]
    assert [one.op for one in told] == ["put"] * (1 + WRITERS * ROUNDS) + ["delete"]
    places = [one.after["metadata_location"] for one in told if one.after is not None]
    assert len(set(places)) == len(places)
    folder = Path(places[0].removeprefix("file://")).parent
    assert {file.as_uri() for file in folder.iterdir()} == set(places), "a lost race left its file, or a file is gone"
