"""A backup is put back under an import and under a realm that is being closed: no record says what is not so any more."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.persistence.realms import realms
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import FENCE_CLOSED
from headwater.schemas.errors import Conflict, StoreRestored
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.transfer import file_format, importing
from headwater.streaming.transfer.importing import import_realm
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.restorable_stores import RestorableStore, restorable_store
from tests.support.fixtures.transferred import check_same, export, load, memory_backend, realm_with_history

DAY = 86_400


@pytest.fixture(params=["sqlite", "sqlite moved", "postgresql", "postgresql in place"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RestorableStore:
    return restorable_store(request, tmp_path)


def test_an_import_that_met_a_restore_opens_nothing_and_is_resumed(
    store: RestorableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup was taken while the rows were loaded, so it holds the very record that the import expects at its end. It is
    put back when everything has been read back and compared."""
    monkeypatch.setattr(file_format, "FRAME_BYTES", 2_000)
    source = realm_with_history(memory_backend(), ManualClock(), steps=12)
    file = export(source.store, tmp_path).file
    verify, done = importing.verify_realm, []

    def back_up(what: str, count: int) -> None:
        if what == "loaded" and not done:
            store.back_up()
            done.append("backed up")

    def verify_and_restore(*arguments: object) -> object:
        found = verify(*arguments)  # type: ignore[arg-type]
        store.restore()
        done.append("restored")
        return found

    clock = ManualClock()
    clock.micros = source.clock.micros + DAY * 1_000_000
    with headwater.open(store.url, create=True, clock=clock) as engine:
        monkeypatch.setattr(importing, "verify_realm", verify_and_restore)
        with pytest.raises((Conflict, StoreRestored)):
            import_realm(engine.store, Path(file), "copy", Identifiers(), on_progress=back_up)
        monkeypatch.setattr(importing, "verify_realm", verify)
    assert done == ["backed up", "restored"]
    with headwater.open(store.url, clock=clock) as engine:
        assert Realms(engine.store).get("copy").status == "LOADING"
        report = load(engine.store, file, resume=True)
        check_same(source.store, source.realm, engine.store, report)


def test_a_realm_whose_pointers_a_restore_has_opened_again_is_not_called_inactive(
    store: RestorableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with headwater.open(store.url, create=True) as engine:
        main = engine.ensure_realm("shop").ensure_catalog("lake").branch()
        main.commit([Put(("t",), IcebergTable("s3://lake/t"))])
        store.back_up()
        close, fired = realms.fence_pointers, []

        def close_and_restore(*arguments: object) -> None:
            close(*arguments)  # type: ignore[arg-type]
            store.restore()
            fired.append(True)

        monkeypatch.setattr(realms, "fence_pointers", close_and_restore)
        with pytest.raises((Conflict, StoreRestored)):
            engine.realms.deactivate("shop")
        monkeypatch.setattr(realms, "fence_pointers", close)
        assert fired == [True]
        found = engine.realms.show("shop")
        assert found.realm.status == "ACTIVE" and not any(pointer.closed for pointer in found.pointers)
        assert engine.realms.deactivate("shop").status == "INACTIVE"
        rows = engine.store.backend.read_pointers(found.realm.instance, [pointer.name for pointer in found.pointers])
        assert {row.fence for row in rows.values()} == {FENCE_CLOSED}
