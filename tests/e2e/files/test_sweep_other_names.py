"""Files in use that a listing shows under other names, and files of our own below a root: they stay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest

from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import IcebergTable, IcebergView
from headwater.producer.pointer_names import branch_pointer
from headwater.schemas.errors import MaintenanceRefused
from headwater.settings import Settings
from headwater.streaming.files.kinds import FileKind, FileRef, FoundFile
from headwater.streaming.files.stores.local_files import LocalFiles
from headwater.streaming.files.stores.object_store import Deleted
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.asked_files import PROBED_MAX, Asked, surroundings
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, FileSweep
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.runs.runs import Runs
from headwater.wiring.maintenance import sweep_options
from tests.support.fixtures.swept_lake import META, NOW, SweptLake, swept_lake

BUCKET = "s3://bucket"


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


class BucketOnDisk(LocalFiles):
    """A bucket whose objects lie in a folder, where they can be reached without the bucket, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        for page in super().list(self._path(prefix)):
            yield [self._named(file) for file in page]

    def head(self, location: str) -> FoundFile | None:
        found = super().head(self._path(location))
        return None if found is None else self._named(found)

    def read(self, location: str, bytes_max: int) -> bytes:
        return super().read(self._path(location), bytes_max)

    def write(self, location: str, content: bytes) -> FoundFile:
        return self._named(super().write(self._path(location), content))

    def delete(self, locations: Sequence[str]) -> Deleted:
        return super().delete([self._path(one) for one in locations])

    def _path(self, location: str) -> str:
        return location.replace(BUCKET, self._folder)

    def _named(self, file: FoundFile) -> FoundFile:
        return msgspec.structs.replace(file, location=file.location.replace(self._folder, BUCKET))


def catalog_of(lake: SweptLake, name: str, root: str) -> None:
    Catalogs(lake.store.kernel(lake.realm)).ensure(name, storage_root=root, meta=META)


def put_view(lake: SweptLake, catalog: str, location: str) -> None:
    kernel = lake.store.kernel(lake.realm)
    found = next(one for one in Catalogs(kernel).list() if one.name == catalog)
    request = CatalogCommit(kernel, [Put(("v",), IcebergView(metadata_location=location))], META)
    kernel.committer.commit(branch_pointer(found.id, "main"), request)


def orphan(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("orphan")
    return file


@pytest.mark.parametrize("mounted", ["", "/lake", "/lake/db"])
def test_a_bucket_that_is_a_root_by_its_name_and_by_a_mount_loses_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: str
) -> None:
    """The root of the bucket's catalog lies below the mount, is the mount, and has it below itself."""
    disk = tmp_path / "disk"
    view = disk / "lake" / "db" / "v.metadata.json"
    view.parent.mkdir(parents=True)
    view.write_text('{"format-version": 1, "versions": []}')
    monkeypatch.setattr(Storages, "_open", lambda *_: BucketOnDisk(disk))
    with swept_lake(tmp_path / "own") as lake:
        catalog_of(lake, "bucket", f"{BUCKET}/lake")
        put_view(lake, "bucket", f"{BUCKET}/lake/db/v.metadata.json")
        lake.claim()
        catalog_of(lake, "mount", f"file://{disk}{mounted}")
        with pytest.raises(MaintenanceRefused) if mounted == "/lake/db" else nullcontext() as refused:
            lake.claim(force=mounted == "/lake")
        assert refused is None or "by another name" in str(refused.value)
        own = orphan(path_of(lake.root) / "unused.parquet")
        lake.sweep_twice()
        assert view.exists() and not own.exists()


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_file_that_metadata_names_through_a_relative_segment_stays(tmp_path: Path, is_asked: bool) -> None:
    with swept_lake(tmp_path) as lake:
        table = lake.table("t")
        metadata = json.loads(path_of(table.metadata_location).read_text())
        statistics = orphan(path_of(lake.root) / "db" / "t" / "metadata" / "s.puffin")
        around = str(statistics).replace("/metadata/", "/data/../metadata/")
        metadata["statistics"] = [
            {"snapshot-id": 1, "statistics-path": f"file://{around}", "file-size-in-bytes": 6, "blob-metadata": []}
        ]
        path_of(table.metadata_location).write_text(json.dumps(metadata))
        lake.put("t", table.metadata_location)
        if is_asked:
            ask_for(lake, [f"file://{statistics}"])
        else:
            lake.sweep_twice()
        assert statistics.exists()


def ask_for(lake: SweptLake, locations: list[str]) -> None:
    asked = Asked(FileRef(one, FileKind.UNKNOWN) for one in locations)
    options = msgspec.structs.replace(NOW, roots=asked.roots(roots_of(lake.store, [lake.realm])))
    runs = Runs(lake.store.backend, lake.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
    with runs.run("files-purge") as run:
        FileSweep(lake.store, lake.operations, options, asked=asked).run(run)


@pytest.mark.parametrize("is_asked", [False, True])
def test_retained_sets_archives_and_hudi_tables_below_a_root_stay(tmp_path: Path, is_asked: bool) -> None:
    with swept_lake(tmp_path) as lake:
        root = path_of(lake.root)
        log = orphan(root / "hudi" / ".hoodie" / "20260101.commit")
        manifest = orphan(root / "archive" / "manifests" / "0000000001.json")
        kept = [
            orphan(root / name / "a.parquet")
            for name in ("hudi/2026", "archive/data/0000000001-ab", "maintenance/first/ids", "maintenance/files/manifests/0a")
        ]
        gone = orphan(root / "archives" / "a.parquet")
        options = sweep_options(Settings(maintenance_dir=str(root / "maintenance")))
        if is_asked:
            ask_for(lake, [f"file://{one}" for one in (*kept[:2], gone)])
        else:
            lake.sweep(kept=options.kept)
            lake.sweep(kept=options.kept)
        assert all(one.exists() for one in (*kept, log, manifest)) and not gone.exists()


def test_the_surroundings_of_many_folders_are_listed_once(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        [root] = roots_of(lake.store, [lake.realm])
        folders = [path_of(lake.root) / "db" / "t" / f"day={number}" for number in range(PROBED_MAX + 1)]
        files = [orphan(folder / "a.parquet") for folder in folders]
        orphan(folders[7] / "_delta_log" / "00000000000000000000.json")
        orphan(folders[9] / "_headwater" / "root.json")
        orphan(path_of(lake.root) / "db" / ".hoodie" / "x.commit")
        asked = [FoundFile(f"file://{file}", 1, 0) for file in files]
        around = surroundings(lake.operations, root, asked)
        few = surroundings(lake.operations, root, asked[5:10])
        other_spelling = [
            FoundFile(f"file:{file}" if number % 2 else f"file://{file}", 1, 0) for number, file in enumerate(files)
        ]
        for found in (around, few, surroundings(lake.operations, root, other_spelling)):
            assert any(one.endswith("/day=7/") for one in found.kept) and any(one.endswith("/db/") for one in found.kept)
            assert f"file://{folders[9]}/_headwater/root.json" in found.claims
        assert len(around.claims) < len(folders)


def test_a_table_of_another_catalog_is_known_by_its_metadata_below_the_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that is no root: its files are known by their names alone."""
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        monkeypatch.setattr(Storages, "_open", lambda *_: BucketOnDisk(tmp_path))
        lake.commit(Put(("t",), IcebergTable(location.replace(f"file://{tmp_path}", BUCKET))))
        lake.sweep_twice()
        assert path_of(location).exists()
