"""New catalogs claim their storage roots, if those are empty; a catalog can be set to take no claim and is never swept then."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import headwater
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalog_updates import update_catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import InvalidInput, MaintenanceRefused
from headwater.streaming.files import upkeep
from headwater.streaming.files.reach_files import new_roots_of
from headwater.streaming.runs.realm_sets import realm_sets
from tests.support.fixtures.swept_lake import META, SweptLake, swept_lake

REFUSE = {"claim_root": "refuse"}


def create(lake: SweptLake, name: str, root: str, properties: dict[str, str] | None = None) -> None:
    lake.store.on_new_root = new_roots_of(lake.store, {})
    catalogs = Catalogs(lake.store.kernel(lake.realm))
    catalogs.create(name, storage_root=root, properties=properties, meta=META)


def claimed(lake: SweptLake) -> list[str]:
    return [root.catalog for root in upkeep.claimed_roots(lake.store)]


def close(lake: SweptLake, name: str = "lake") -> None:
    update_catalog(lake.store.kernel(lake.realm), name, properties=REFUSE, meta=WriteMeta("ann"))


def test_an_empty_root_of_a_new_catalog_is_claimed_and_swept(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        create(lake, "new", f"file://{tmp_path}/new")
        assert claimed(lake) == ["lake", "new"]
        orphan = tmp_path / "new" / "t" / "data" / "unused.parquet"
        orphan.parent.mkdir(parents=True)
        orphan.write_text("unused")
        reports = {one.catalog: one for one in lake.sweep_twice().roots}
        assert not reports["new"].refusal and not orphan.exists()


def test_a_root_that_holds_files_a_catalog_that_refuses_and_a_folder_out_of_reach_are_not_claimed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "theirs.parquet").write_text("theirs")
    with swept_lake(tmp_path) as lake, caplog.at_level(logging.INFO, "headwater.files"):
        create(lake, "full", f"file://{tmp_path}/full")
        create(lake, "closed", f"file://{tmp_path}/closed", REFUSE)
        create(lake, "deep", f"file://{tmp_path}/not/there")
        create(lake, "remote", "s3://bucket-without-options/lake")
        create(lake, "rootless", "")
        assert claimed(lake) == ["lake"] and not (tmp_path / "closed").exists() and not (tmp_path / "not").exists()
        assert "full/ has files already" in caplog.text


def test_files_left_by_a_purged_catalog_belong_to_no_other(tmp_path: Path) -> None:
    (tmp_path / "again" / "_headwater").mkdir(parents=True)
    (tmp_path / "again" / "_headwater" / "deleted-1-0-0.jsonl.gz").write_text("keys")
    with swept_lake(tmp_path) as lake:
        create(lake, "again", f"file://{tmp_path}/again")
        assert claimed(lake) == ["again", "lake"]


def test_a_claim_that_cannot_be_written_fails_no_catalog(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    with swept_lake(tmp_path) as lake:
        create(lake, "on-a-file", f"file://{tmp_path}/file")
        assert "is not claimed" in caplog.text
        assert Catalogs(lake.store.kernel(lake.realm)).get("on-a-file")


def test_a_catalog_that_is_set_to_take_no_claim_is_never_swept_again(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        close(lake)
        [report] = lake.sweep().roots
        assert "takes no claim" in report.refusal and orphan <= lake.files()
        assert not claimed(lake)
        with pytest.raises(MaintenanceRefused, match="takes no claim"):
            lake.claim(force=True)


def test_a_sweep_of_a_root_around_leaves_the_folder_of_such_a_catalog_alone(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        closed, open_ = (tmp_path / "lake" / name / "unused.parquet" for name in ("closed", "open"))
        create(lake, "inner", f"{lake.root}/closed", REFUSE)
        for file in (closed, open_):
            file.parent.mkdir(parents=True)
            file.write_text("unused")
        assert realm_sets(lake.store).retain
        lake.sweep_twice()
        assert closed.exists() and not open_.exists()


def test_of_two_catalogs_with_one_root_one_is_enough_to_refuse(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        create(lake, "same", lake.root, REFUSE)
        [report] = lake.sweep().roots
        assert "takes no claim" in report.refusal


def test_a_value_that_the_setting_does_not_know_is_refused(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake, pytest.raises(InvalidInput, match="neither refuse nor allow"):
        create(lake, "odd", f"file://{tmp_path}/odd", {"claim_root": "no"})


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", "--store", f"sqlite:///{folder}/lake.db", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_commands_claim_new_roots_and_leave_closed_ones_alone(tmp_path: Path) -> None:
    root = f"file://{tmp_path}/lake"
    with headwater.open(f"sqlite:///{tmp_path}/lake.db", create=True) as engine:
        engine.ensure_realm()
    for arguments in (("create", "lake", "--storage-root", root), ("update", "lake", "--property", "claim_root=refuse")):
        made = run(tmp_path, "catalog", *arguments)
        assert made.returncode == 0, made.stderr
    assert (tmp_path / "lake" / "_headwater" / "root.json").exists()
    shown = run(tmp_path, "maintain", "files", "claim")
    assert shown.returncode == 0 and "is left alone: its catalog has claim_root=refuse" in shown.stdout, shown.stderr
    named = run(tmp_path, "maintain", "files", "claim", "--root", root)
    assert named.returncode == 2 and "takes no claim" in named.stderr
