"""Metadata that was written to hurt: whatever it holds, nothing in use is deleted, and memory stays bounded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from headwater.schemas.errors import MaintenanceRefused, RequestTooLarge
from headwater.streaming.files.formats import iceberg_tables, reading
from headwater.streaming.files.formats.iceberg_tables import whole_manifest
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.formats.reading import MetadataReader, Mode
from tests.support.fixtures.swept_lake import SweptLake, swept_lake


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def changed(location: str, **fields: Any) -> None:
    path = path_of(location)
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def swept(lake: SweptLake) -> set[str]:
    """What is left after two runs."""
    lake.sweep_twice()
    return lake.files()


def test_metadata_logs_that_name_each_other_end(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        one, other = (lake.table(name).metadata_location for name in ("one", "other"))
        for location, named in ((one, other), (other, one)):
            log = [{"metadata-file": file, "timestamp-ms": 1} for file in (named, location)]
            changed(location, **{"metadata-log": log})
        lake.put("one", one)
        needed = lake.needed(one)
        assert {one, other} <= needed <= swept(lake)


def test_metadata_that_expands_without_end_refuses_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        lake.put("t", location)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        packed = gzip.compress(b" " * 300_000 + path_of(location).read_bytes())
        monkeypatch.setattr(reading, "METADATA_BYTES_MAX", 200_000)
        assert len(packed) < 200_000
        path_of(location).write_bytes(packed)
        with pytest.raises(MaintenanceRefused, match="expands to more than"):
            lake.sweep()
        assert orphan <= lake.files()


def test_a_manifest_larger_than_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with swept_lake(tmp_path) as lake:
        table = lake.table("t")
        lake.put("t", table.metadata_location)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        monkeypatch.setattr(iceberg_tables, "MANIFEST_BYTES_MAX", 100)
        manifest = ManifestRef(table.current_snapshot().manifests(table.io)[0].manifest_path, None)
        with pytest.raises(RequestTooLarge):
            whole_manifest(manifest, MetadataReader(lake.operations.storages, Mode.STRICT))
        with pytest.raises(MaintenanceRefused, match="more than 100 bytes"):
            lake.sweep()
        assert orphan <= lake.files()


def test_metadata_that_names_files_of_others_endangers_none_of_them(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        mine, theirs = (lake.table(name).metadata_location for name in ("mine", "theirs"))
        outside = tmp_path / "outside.parquet"
        outside.write_text("not in the lake")
        names = [f"{lake.root}/../outside.parquet", "file:///etc/passwd", f"file://{outside}", theirs]
        changed(mine, **{"metadata-log": [{"metadata-file": name, "timestamp-ms": 1} for name in names]})
        lake.put("theirs", theirs)
        needed = lake.needed(theirs)
        lake.put("mine", mine)
        assert needed <= swept(lake) and outside.exists()


def test_a_file_in_use_with_line_ends_and_percent_signs_in_its_name_is_kept(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        name = "é\n%2F " * 20
        odd = f"{lake.root}/db/t/data/{name}.stats"
        changed(location, statistics=[{"snapshot-id": 1, "statistics-path": odd, "file-size-in-bytes": 1}])
        path_of(odd).write_text("statistics")
        lake.put("t", location)
        assert odd in swept(lake)
