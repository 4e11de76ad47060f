"""Export and import are killed (-9) in the middle: no file that an import would take, no realm half there and ACTIVE."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.clock import SystemClock
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import open_store
from headwater.schemas.errors import ExportDamaged, RealmNotActive
from headwater.streaming.runs.realm_sets import instances_to_maintain
from headwater.streaming.transfer import file_format
from headwater.streaming.transfer.checked_file import checked_file
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import Maintained
from tests.support.fixtures.transferred import check_same, export, is_empty, load, realm_with_history
from tests.support.models.commit_harness import store_on
from tests.support.processes.transfer_process import COPY, run_and_be_killed

DAYS = 86_400_000_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def realm(url: str, monkeypatch: pytest.MonkeyPatch) -> Maintained:
    monkeypatch.setattr(file_format, "FRAME_BYTES", 2_000)
    backend = open_backend(url)
    backend.create_schema()
    return realm_with_history(backend, ManualClock(SystemClock().now_micros() - 30 * DAYS), steps=25)


@pytest.mark.parametrize("moment", ["cut", "objects", "renamed"])
def test_a_killed_export_leaves_nothing_that_an_import_would_take(
    realm: Maintained, url: str, tmp_path: Path, moment: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    run_and_be_killed("export", url, folder / "shop.hwexport", moment)
    left = list(folder.iterdir())
    assert not (folder / "shop.hwexport").exists() and len(left) == 1, "it was killed before it began to write"
    if moment != "renamed":
        with pytest.raises(ExportDamaged):
            checked_file(left[0])
    now = store_on(realm.backend)
    assert load(now, export(now, folder / "shop.hwexport").file).status == "ACTIVE"


@pytest.mark.parametrize("moment", ["names", "objects", "pointers", "compared"])
def test_a_killed_import_leaves_a_realm_that_is_loading_and_is_resumed(
    realm: Maintained, url: str, tmp_path: Path, moment: str
) -> None:
    file = export(store_on(realm.backend), tmp_path / "shop.hwexport").file
    to = f"sqlite:///{tmp_path}/other.db"
    open_store(to, create=True).close()
    run_and_be_killed("import", to, file, moment)
    with open_store(to) as store:
        found = Realms(store).get(COPY)
        assert found.status == "LOADING" and not is_empty(store.backend, found.instance)
        with pytest.raises(RealmNotActive):
            Realms(store).require_active(COPY)
        assert found.instance not in instances_to_maintain(store), "a sweep would take what is loaded"
        if moment == "objects":
            Realms(store).purge(COPY)
            Realms(store).finish_purge(COPY)
            Realms(store).delete(COPY)
            assert is_empty(store.backend, found.instance)
            report = load(store, file, COPY)
        else:
            report = load(store, file, COPY, resume=True)
            assert report.instance == found.instance
        check_same(realm.store, realm.realm, store, report)
