"""`headwater realm export` and `import` from the outside: a realm is moved, and what cannot be is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

import headwater as hw
from headwater.producer.commits.operations import Delete, Put
from headwater.producer.content.content_types import Namespace
from headwater.streaming.transfer import new_file
from tests.support.fixtures.cli_runs import CliRun, headwater

Cli = Callable[..., CliRun]


def cli_on(url: str) -> Cli:
    def run(*arguments: str) -> CliRun:
        return headwater("--store", url, *arguments)

    return run


@pytest.fixture
def here(tmp_path: Path) -> Cli:
    """A store with a realm, a catalog, a branch that was merged, and a table that was dropped."""
    url = f"sqlite:///{tmp_path}/here.db"
    with hw.open(url, create=True) as engine:
        lake = engine.ensure_realm("shop").ensure_catalog("lake")
        for number in range(20):
            lake.branch().commit([Put((f"ns{number}",), Namespace())], message=f"Add {number}")
        work = lake.create_branch("work")
        work.commit([Put(("on-work",), Namespace())])
        lake.merge("work")
        lake.branch().commit([Delete(("ns3",))])
    return cli_on(url)


@pytest.fixture
def there(tmp_path: Path) -> Cli:
    cli = cli_on(f"sqlite:///{tmp_path}/there.db")
    assert cli("store", "create").code == 0
    return cli


def test_a_realm_is_moved_to_another_store_and_audited_there(here: Cli, there: Cli, tmp_path: Path) -> None:
    exported = here("realm", "export", "shop", "--to", str(tmp_path), "--json").json
    file = exported["file"]
    assert Path(file).parent == tmp_path and exported["reached"] > 40 and exported["counts"]["objects"] >= exported["reached"]
    assert len(exported["sha256"]) == 64 and exported["bytes"] == Path(file).stat().st_size
    imported = there("realm", "import", file, "--as", "moved", "--json").json
    assert imported["status"] == "ACTIVE" and imported["from_instance"] == exported["instance"]
    assert imported["sha256"] == exported["sha256"]
    whole = there("audit", "verify", "--realm", "moved", "--json").json["pointers"]
    assert len(whole) == exported["counts"]["pointers"] and not any(it["flaw"] for it in whole)
    logs = [cli("log", "--realm", name, "--json").out for cli, name in ((here, "shop"), (there, "moved"))]
    assert logs[0] == logs[1].replace('"moved"', '"shop"')
    assert there("maintain", "sweep", "--realm", "moved").code == 0
    assert there("maintain", "check", "--realm", "moved", "--json").json["holds"]
    assert there("audit", "replay", "--realm", "moved").code == 0


def test_transfers_are_reported_as_text(here: Cli, there: Cli, tmp_path: Path) -> None:
    shown = here("realm", "export", "shop", "--to", str(tmp_path / "shop.hwexport"), "--low-level")
    assert shown.code == 0 and "shop.hwexport, sha256 " in shown.out
    checked = there("realm", "import", str(tmp_path / "shop.hwexport"), "--as", "moved", "--dry-run")
    assert checked.code == 0 and "the file is whole" in checked.out
    closed = there("realm", "import", str(tmp_path / "shop.hwexport"), "--as", "moved", "--inactive")
    assert "moved is INACTIVE, as moved#" in closed.out
    assert there("realm", "activate", "moved").code == 0
    assert there("log", "--realm", "moved", "--limit", "1").code == 0


def test_a_failed_transfer_is_one_line_and_leaves_nothing(here: Cli, there: Cli, tmp_path: Path) -> None:
    file = tmp_path / "shop.hwexport"
    here("realm", "export", "shop", "--to", str(file))
    damaged, cut_off, newer = tmp_path / "damaged", tmp_path / "cut", tmp_path / "newer"
    data = file.read_bytes()
    damaged.write_bytes(data[:400] + bytes([data[400] ^ 1]) + data[401:])
    cut_off.write_bytes(data[:-20])
    newer.write_bytes(data.replace(b"headwater-export 2", b"headwater-export 7", 1))
    for arguments, word in [
        (("import", str(damaged), "--as", "moved"), "checksum"),
        (("import", str(cut_off), "--as", "moved"), "cut off"),
        (("import", str(newer), "--as", "moved"), "format 7"),
        (("import", str(tmp_path / "none"), "--as", "moved"), "No such file"),
        (("import", str(tmp_path), "--as", "moved"), "directory"),
        (("import", str(file), "--as", "a b"), "realm name"),
        (("import", str(file), "--as", "moved", "--resume"), "no realm"),
    ]:
        assert word in there("realm", *arguments).error, arguments
    assert there("realm", "list", "--json").json == {"realms": []}
    for arguments, word in [
        (("export", "nobody", "--to", str(tmp_path / "new")), "nobody"),
        (("export", "::system::", "--to", str(tmp_path / "new")), "reserved"),
        (("export", "shop", "--to", str(file)), "exists already"),
        (("export", "shop", "--to", str(tmp_path / "no" / "folder")), "no folder"),
        (("import", str(file), "--as", "shop"), "exists already and is ACTIVE"),
    ]:
        assert word in here("realm", *arguments).error, arguments
    assert file.read_bytes() == data and not (tmp_path / "new").exists()


def test_a_full_disk_is_one_line_and_leaves_no_file(here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, opened = tmp_path / "small", list[Path]()
    folder.mkdir()

    def on_a_full_disk(partial: Path) -> BinaryIO:
        partial.touch()
        opened.append(partial)
        return Path("/dev/full").open("wb")  # every write to it is refused by the system as on a full disk

    monkeypatch.setattr(new_file, "_opened", on_a_full_disk)
    error = here("realm", "export", "shop", "--to", str(folder)).error
    assert opened and "EXPORT_NOT_WRITTEN" in error and "No space left" in error
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    expired = here("maintain", "expire", "--realm", "shop", "--keep", "*=1n", "--yes", "--json").json["realms"][0]["pointers"]
    assert any(it["floor_after"] > it["floor_before"] for it in expired), "the export still holds history"
