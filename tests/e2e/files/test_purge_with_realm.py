"""Realms and catalogs that are purged take their files along: those below their claimed roots that nobody else needs."""

from __future__ import annotations

from pathlib import Path

from headwater.persistence.realms.realm_states import RealmStatus
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
from headwater.streaming.files.tasks.doomed_files import DoomedFiles
from headwater.streaming.purge.purge import Purged, purge_all
from headwater.streaming.runs.realm_sets import realms_to_purge
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.swept_lake import META, SweptLake, swept_lake


def purge(lake: SweptLake) -> Purged:
    doomed = DoomedFiles(lake.store, lambda: lake.operations, FileSweepOptions(batches_per_second=0))
    realms = realms_to_purge(lake.store)
    doomed.check([realm.instance for realm in realms])
    with Runs(lake.store.backend, lake.store.clock).run("purge-realms") as run:
        return purge_all(
            lake.store,
            run,
            realms=realms,
            belongings=[doomed],
            catalog_age_seconds=0,
            before_catalog=doomed.remove_catalog,
        )


def give_up(lake: SweptLake, name: str) -> None:
    lake.realms.deactivate(name)
    lake.realms.purge(name)


def all_files(root: str) -> list[Path]:
    """Without what sweeps remember."""
    found = Path(root.removeprefix("file://")).rglob("*")
    return [path for path in found if path.is_file() and not path.name.startswith(("condemned-", "deleted-"))]


def test_a_realm_is_purged_with_its_files_except_those_that_another_realm_needs(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        other = lake.new_realm("other", "")
        mine, shared = (lake.table(name).metadata_location for name in ("mine", "shared"))
        lake.put("mine", mine)
        lake.put("shared", shared)
        lake.put("shared", shared, realm=other)
        give_up(lake, "first")
        done = purge(lake)
        assert [one.failure for one in done.realms] == [""]
        assert lake.realms.get("first").status is RealmStatus.PURGED
        assert lake.files() == lake.needed(shared)


def test_a_realm_whose_root_is_not_claimed_stays_with_all_its_files(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        lake.put("t", location)
        claimed = Path(lake.root.removeprefix("file://")) / "_headwater" / "root.json"
        claim = claimed.read_text()
        claimed.write_text(claim.replace(lake.store.incarnation, "0" * 32))
        give_up(lake, "first")
        [failed] = purge(lake).realms
        assert "is claimed by" in failed.failure and lake.realms.get("first").status is RealmStatus.PURGING
        assert lake.files() == lake.needed(location)
        claimed.write_text(claim)
        assert purge(lake).realms[0].failure == "" and not all_files(lake.root)


def test_two_realms_that_go_at_once_do_not_hold_each_other(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        lake.new_realm("second", f"file://{tmp_path}/second")
        (tmp_path / "second").mkdir()
        lake.put("t", lake.table("t").metadata_location)
        for realm in ("first", "second"):
            instance = lake.realms.get(realm).instance
            lake.claim_of(instance)
            give_up(lake, realm)
        assert [one.failure for one in purge(lake).realms] == ["", ""]
        assert not lake.files() and not lake.claims_below(f"file://{tmp_path}")


def test_a_dropped_catalog_is_purged_with_its_files_and_a_live_one_keeps_young_files(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        catalogs = Catalogs(lake.store.kernel(lake.realm))
        gone = catalogs.create("gone", storage_root=f"file://{tmp_path}/gone", meta=META)
        lake.claim()
        (tmp_path / "gone" / "a.parquet").write_text("data")
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        catalogs.drop(gone.name, meta=META)
        [purged] = purge(lake).catalogs
        assert purged.waiting == "" and not all_files(gone.storage_root) and lake.files() == lake.needed(kept)

        inner = catalogs.create("inner", storage_root=f"{lake.root}/inner", meta=META)
        lake.claim()
        (tmp_path / "lake" / "inner" / "b.parquet").write_text("data")
        catalogs.drop(inner.name, meta=META)
        assert [one.waiting for one in purge(lake).catalogs] == [""]
        assert (tmp_path / "lake" / "inner" / "b.parquet").exists(), "a writer of the catalog around it may be at work"
