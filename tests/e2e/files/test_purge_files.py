"""`headwater maintain files purge`: named files go if nothing needs them, and only below claimed roots."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headwater.schemas.errors import FilesCondemned, LocationForbidden
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.sweep.asked_files import Asked
from headwater.streaming.files.sweep.file_sweep import FILES_LEASE, FileSweep, FileSweepReport
from headwater.streaming.files.sweep.roots import roots_of
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.swept_lake import NOW, SweptLake, swept_lake


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def purge(
    lake: SweptLake, locations: list[str], *, at: Callable[[str], None] = lambda _: None, dry_run: bool = False
) -> FileSweepReport:
    asked = Asked(FileRef(one, FileKind.UNKNOWN) for one in locations)
    options = msgspec.structs.replace(NOW, roots=asked.roots(roots_of(lake.store, [lake.realm])), dry_run=dry_run)
    runs = Runs(lake.store.backend, lake.store.clock, lease_seconds=300, lease_key=FILES_LEASE)
    with runs.run("files-purge", dry_run=dry_run) as run:
        return FileSweep(lake.store, lake.operations, options, at=at, asked=asked).run(run)


def test_files_of_a_list_go_at_once_and_those_in_use_are_spared(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        kept, orphan = (lake.table(name).metadata_location for name in ("kept", "orphan"))
        lake.put("kept", kept)
        gone = lake.needed(orphan)
        [would] = purge(lake, sorted(lake.files()), dry_run=True).roots
        assert (would.confirmed, would.purge) == (len(gone), None) and gone <= lake.files()
        [report] = purge(lake, sorted(lake.files())).roots
        assert report.purge is not None and report.purge.purged == len(gone) and lake.files() == lake.needed(kept)


def test_files_committed_meanwhile_are_spared_and_later_commits_are_refused(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        early, late = (lake.table(name).metadata_location for name in ("early", "late"))
        needed = lake.needed(early)
        refused: list[str] = []

        def commit(step: str) -> None:
            if step == "intent":
                lake.put("early", early)
            if step == "delete":
                with pytest.raises(FilesCondemned) as error:
                    lake.put("late", late)
                refused.append(error.value.code)

        [report] = purge(lake, sorted(lake.files()), at=commit).roots
        assert refused and report.rescued == len(needed) and lake.files() == needed


@pytest.mark.parametrize("location", ["/etc/passwd", "file:///etc/hosts", "s3://other/a.parquet", "{root}/../x.parquet"])
def test_a_file_below_no_root_is_refused_and_nothing_is_deleted(tmp_path: Path, location: str) -> None:
    with swept_lake(tmp_path) as lake:
        lake.table("orphan")
        before = lake.files()
        with pytest.raises(LocationForbidden):
            purge(lake, [*sorted(before), location.replace("{root}", lake.root)])
        assert lake.files() == before


def test_a_root_without_a_claim_and_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        root = path_of(lake.root)
        for folder in ("delta", "delta/_delta_log", "theirs/data", "theirs/_headwater", "plain"):
            (root / folder).mkdir(parents=True)
        (root / "delta" / "_delta_log" / "00000000000000000000.json").write_text("{}")
        claimed = (root / "_headwater" / "root.json").read_text()
        (root / "theirs" / "_headwater" / "root.json").write_text(claimed.replace(lake.store.incarnation, "0" * 32))
        asked = [root / folder / "a.parquet" for folder in ("delta", "theirs/data", "plain")]
        for file in asked:
            file.write_text("data")
        [report] = purge(lake, [f"file://{file}" for file in asked]).roots
        assert [file.exists() for file in asked] == [True, True, False] and report.protected == 2
        (root / "_headwater" / "root.json").unlink()
        (root / "plain" / "a.parquet").write_text("data")
        [report] = purge(lake, [f"file://{asked[2]}"]).roots
        assert "is not claimed" in report.refusal and asked[2].exists()


# ── as a user types it ──────────────────────────────────────────────────────────────────────────────────────────


def run(store: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", "--store", store, "maintain", "files", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, input=text)


def test_the_command_purges_by_metadata_by_list_and_by_folder(tmp_path: Path) -> None:
    import headwater
    from headwater import IcebergTable, Namespace, Put
    from tests.support.fixtures.iceberg_files import memory_catalog, table_with_history

    store, root = f"sqlite:///{tmp_path}/lake.db", f"file://{tmp_path}/lake"
    with headwater.open(store, create=True) as engine, memory_catalog(root) as writer:
        main = engine.ensure_realm().create_catalog("lake", storage_root=root).branch()
        kept, first, _ = (table_with_history(writer, name).metadata_location for name in ("kept", "first", "second"))
        main.commit([Put(("db",), Namespace()), Put(("db", "kept"), IcebergTable(kept))])
    assert run(store, "claim").returncode == 0

    def left() -> set[str]:
        found = path_of(root).rglob("*")
        return {path.parts[len(path_of(root).parts) + 1] for path in found if path.is_file() and "_headwater" not in path.parts}

    assert left() == {"kept", "first", "second"}
    would = run(store, "purge", "--metadata", first, "--dry-run", "--json")
    assert would.returncode == 0 and json.loads(would.stdout)["roots"][0]["confirmed"] > 10, would.stderr
    [group] = [one for one in json.loads(would.stdout)["roots"][0]["sample"] if one["kind"] == "manifest-list"]
    assert group["table"] == "db/first" and group["files"] == group["confirmed"] > 1 and group["bytes"] == 0
    shown = run(store, "purge", "--metadata", first, "--dry-run")
    assert "example" in shown.stdout and "db/first" in shown.stdout and "manifest-list" in shown.stdout
    assert left() == {"kept", "first", "second"}
    nothing = run(store, "purge", "--metadata", kept, "--dry-run")
    assert "Nothing would be deleted." in nothing.stdout and "Would be deleted" not in nothing.stdout
    done = run(store, "purge", "--metadata", first)
    assert done.returncode == 0 and left() == {"kept", "second"}, done.stderr
    listed = "\n".join(f"file://{path}" for path in path_of(root).rglob("*.avro"))
    assert run(store, "purge", "--from", "-", text=listed).returncode == 0
    assert not list(path_of(root).glob("db/second/metadata/*.avro")) and list(path_of(root).glob("db/kept/metadata/*.avro"))
    assert run(store, "purge", "--location", root).returncode == 2, "everything is younger than the grace"
    assert run(store, "purge", "--location", root, "--older-than", "0").returncode == 0
    assert left() == {"kept"}
    assert run(store, "check").returncode == 0
    in_use = run(store, "purge", "--table", "db.kept", "--json")
    assert in_use.returncode == 0 and json.loads(in_use.stdout)["roots"][0]["confirmed"] == 0 and left() == {"kept"}
    unknown = run(store, "purge", "--table", "db.first")
    assert unknown.returncode == 2 and "CONTENT_NOT_FOUND" in unknown.stderr
    refused = run(store, "purge", "--metadata", first, "--location", root)
    assert refused.returncode == 2 and "INVALID_INPUT" in refused.stderr
