"""A writer through another API is faster, or the store fails: the request is judged again, and no file is left or lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import headwater
from headwater.embedded import CatalogHandle
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergTable
from headwater.schemas.errors import CommitOutcomeUnknown, RequirementFailed, StoreUnavailable
from headwater.service.iceberg.operations.key_locks import KeyLocks
from headwater.service.iceberg.operations.lake_branch import CommitAuthor, LakeBranch
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.iceberg.operations.namespaces import create_namespace
from headwater.service.iceberg.operations.table_commits import table_change, update_table
from headwater.service.iceberg.operations.tables import TableCreation, create_table, load_table, table_content
from headwater.service.storage.files import LocalFiles
from headwater.service.storage.locations import Warehouse, local_path
from tests.support.fixtures.iceberg_lake import table_body

ME = CommitAuthor("me")
KEY = ("db", "t")


class RacedFiles(LocalFiles):
    """Lets another writer in between the look at the table and the commit."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None
        self.written: list[str] = []

    def write_new(self, location: str, content: bytes) -> None:
        super().write_new(location, content)
        self.written.append(location)
        if self.meanwhile is not None:
            self.meanwhile()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[CatalogHandle]:
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        yield engine.ensure_realm().create_catalog("lake", storage_root=(tmp_path / "warehouse").as_uri())


@pytest.fixture
def files() -> RacedFiles:
    return RacedFiles()


@pytest.fixture
def branch(catalog: CatalogHandle, files: RacedFiles) -> LakeBranch:
    metadata = MetadataFiles(Warehouse(catalog.info.storage_root), files)
    made = LakeBranch(catalog.realm.kernel, catalog.info, "", metadata, KeyLocks())
    create_namespace(made, ME, ("db",), {})
    body = table_body("t")
    create_table(made, ME, KEY, TableCreation(name="t", schema=body["schema"]))
    return made


def set_property(branch: LakeBranch, name: str, requirements: list[dict[str, Any]] | None = None) -> None:
    updates = [{"action": "set-properties", "updates": {name: "yes"}}]
    raw = [[msgspec.Raw(msgspec.json.encode(one)) for one in some] for some in (requirements or [], updates)]
    update_table(branch, ME, table_change(branch, KEY, *raw))


def another_writer(catalog: CatalogHandle, branch: LakeBranch, files: RacedFiles, times: int) -> Callable[[], None]:
    """Commits the same table through the embedded engine, so many times."""
    left = [times]

    def meanwhile() -> None:
        if left[0] == 0:
            return
        left[0] -= 1
        files.meanwhile, again = None, files.meanwhile
        base = load_table(branch, KEY)
        faster = {**base.table, "properties": {**base.table["properties"], f"faster{left[0]}": "yes"}}
        file = branch.metadata.write(msgspec.json.encode(faster), base.table["location"], {}, base.location)
        catalog.branch().commit([Put(KEY, table_content(file))])
        files.meanwhile = again

    return meanwhile


def left_files(branch: LakeBranch) -> set[str]:
    folder = Path(local_path(load_table(branch, KEY).location)).parent
    return {file.as_uri() for file in folder.iterdir()}


def named_files(catalog: CatalogHandle) -> set[str]:
    told = (one.after for change in catalog.branch().changes() for one in change.operations if one.type == "ICEBERG_TABLE")
    return {after["metadata_location"] for after in told if after is not None}


def test_a_lost_race_is_run_again_and_leaves_no_file(catalog: CatalogHandle, branch: LakeBranch, files: RacedFiles) -> None:
    files.meanwhile = another_writer(catalog, branch, files, times=2)
    set_property(branch, "mine")
    assert len(files.written) == 6, "the race was not lost"
    assert load_table(branch, KEY).table["properties"] == {"faster1": "yes", "faster0": "yes", "mine": "yes"}
    assert left_files(branch) == named_files(catalog)


def test_a_requirement_is_judged_again_after_a_lost_race(catalog: CatalogHandle, branch: LakeBranch, files: RacedFiles) -> None:
    def drop_and_make_another() -> None:
        files.meanwhile = None
        body = table_body("t")
        catalog.branch().commit([headwater.Delete(KEY)])
        create_table(LakeBranch(branch.kernel, branch.catalog, "", branch.metadata, KeyLocks()), ME, KEY, TableCreation(**body))

    uuid = load_table(branch, KEY).table["table-uuid"]
    files.meanwhile = drop_and_make_another
    with pytest.raises(RequirementFailed):
        set_property(branch, "mine", [{"type": "assert-table-uuid", "uuid": uuid}])
    assert load_table(branch, KEY).table["properties"] == {}
    assert len(left_files(branch)) == 1


def test_a_writer_that_always_loses_gets_an_error(catalog: CatalogHandle, branch: LakeBranch, files: RacedFiles) -> None:
    files.meanwhile = another_writer(catalog, branch, files, times=1_000)
    with pytest.raises(RequirementFailed):
        set_property(branch, "mine")
    assert left_files(branch) == named_files(catalog)


@pytest.mark.parametrize(("fault", "stays"), [(StoreUnavailable, False), (CommitOutcomeUnknown, True)])
def test_files_go_only_when_the_commit_is_proven_lost(
    branch: LakeBranch, files: RacedFiles, monkeypatch: pytest.MonkeyPatch, fault: type[Exception], stays: bool
) -> None:
    def fail(*_: object) -> None:
        raise fault("as ordered")

    monkeypatch.setattr(branch.kernel.committer, "commit", fail)
    with pytest.raises(fault):
        set_property(branch, "mine")
    assert Path(local_path(files.written[-1])).exists() is stays
    assert IcebergTable(files.written[0]).metadata_location == load_table(branch, KEY).location
