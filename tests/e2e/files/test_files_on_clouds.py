"""Sweeps on Azure's emulator from claim to deletion; listing, looking, reading and deleting on that of Google Cloud Storage.

⚠ The emulator of GCS refuses the uploads of our storage client, so files are put there by its own API, and no root is claimed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from headwater.schemas.errors import FileMissing, LocationForbidden, MaintenanceRefused
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.files.undo_run import UndoRun
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.swept_lake import swept_lake
from tests.support.servers.emulators import Emulator, azure_emulator, gcs_emulator

NAMES = ("a/x 1.parquet", "a/y%2F.parquet", "a/deep/z.parquet", "ab/other.parquet")


@pytest.fixture(scope="module")
def azure() -> Iterator[Emulator]:
    with azure_emulator() as emulator:
        yield emulator


@pytest.fixture(scope="module")
def gcs() -> Iterator[Emulator]:
    with gcs_emulator() as emulator:
        yield emulator


def put_on_gcs(gcs: Emulator, location: str) -> None:
    bucket, _, key = location.removeprefix("gs://").partition("/")
    url = f"{gcs.plain['gcs.service.host']}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
    httpx.post(url, content=b"content", timeout=30).raise_for_status()


@pytest.mark.parametrize("vendor", ["azure", "gcs"])
def test_files_are_listed_looked_at_read_and_deleted(vendor: str, request: pytest.FixtureRequest) -> None:
    emulator: Emulator = request.getfixturevalue(vendor)
    storages = Storages(emulator.options)
    root = f"{emulator.root}/{secrets.token_hex(4)}"
    for name in NAMES:
        if vendor == "gcs":
            put_on_gcs(emulator, f"{root}/{name}")
        else:
            storages.of(root).write(f"{root}/{name}", b"content")
    operations = FileOperations(storages)
    listed = list(operations.find(f"{root}/a"))
    assert sorted(file.location for file in listed) == sorted(f"{root}/{name}" for name in NAMES[:3])
    for file in listed:
        assert file.size == 7 and file.modified and storages.read(file.location, 10) == b"content"
        seen = storages.head(file.location)
        assert seen is not None and seen.size == file.size and seen.modified is not None
    assert set(storages.folders(f"{root}/")) == {"a", "ab"}
    assert storages.head(f"{root}/none.parquet") is None
    with pytest.raises(FileMissing):
        storages.read(f"{root}/none.parquet", 10)
    with pytest.raises(LocationForbidden):
        storages.of(root).delete([f"{emulator.root.partition('://')[0]}://another/x.parquet"])
    named = [f"{root}/{name}" for name in (*NAMES[:3], "none.parquet")]
    stats = operations.purge((FileRef(one, FileKind.DATA) for one in named), PurgeSpec(batches_per_second=0))
    assert stats.failed == 0 and stats.purged + stats.missing == 4
    assert [file.location for file in operations.find(root)] == [f"{root}/{NAMES[3]}"]


def test_a_root_on_azure_is_claimed_and_swept_and_deletions_cannot_be_undone(azure: Emulator, tmp_path: Path) -> None:
    options = {**azure.options, "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    with swept_lake(tmp_path, f"{azure.root}/{secrets.token_hex(4)}", options) as lake:
        kept = lake.table("kept", 2).metadata_location
        lake.put("kept", kept)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        assert orphan <= lake.files()
        [report] = lake.sweep().roots
        assert not report.refusal and report.purge is not None and report.purge.purged == len(orphan)
        assert lake.files() == lake.needed(kept)
        runs = Runs(lake.store.backend, lake.store.clock)
        [swept, *_] = runs.list()
        roots = roots_of(lake.store, [lake.realm])
        with runs.run("files-undo") as run:
            [undone] = UndoRun(lake.store, lake.operations, azure.options).run(run, swept.id, roots)
        assert (undone.restored, undone.lost) == (0, len(orphan)) and undone.reason
        claim = f"{lake.root}/_headwater/root.json"
        lake.operations.storages.of(claim).write(claim, b"{}")
        [refused] = lake.sweep().roots
        assert "is claimed by" in refused.refusal
        with pytest.raises(MaintenanceRefused, match="is claimed by"):
            lake.claim()
