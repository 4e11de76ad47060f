"""Descriptions of realms: records from before they existed, their bounds, and what moves a realm meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.persistence.realms import realms as realms_module
from headwater.persistence.realms.realm_records import DESCRIPTION_BYTES_MAX, REALM, REALMS_POINTER
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.records import PutRecord, RecordsRequest, head_records
from headwater.persistence.store import Store, open_store
from headwater.schemas.errors import InvalidInput, RealmStateConflict
from tests.support.models.realm_cases import realms_of, write_note

FIELDS_BEFORE = {"name", "instance", "status", "created_at", "updated_at"}


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory://", create=True) as opened:
        yield opened


@pytest.fixture
def realms(store: Store) -> Realms:
    return realms_of(store)


def test_a_record_from_before_is_read_and_described(store: Store, realms: Realms) -> None:
    value = {"name": "old", "instance": "old#1", "status": "INACTIVE", "created_at": 5, "updated_at": 7}
    put = PutRecord(type=REALM, key=("old",), value=value)
    store.system.committer.commit(REALMS_POINTER, RecordsRequest(operations=[put], author="test", message="as it was"))
    found = realms.get("old")
    assert (found.description, found.changed_at, found.status) == ("", 7, "INACTIVE")
    described = realms.describe("old", "known now")
    assert (described.description, described.updated_at) == ("known now", 7) and described.changed_at > 7
    assert realms.get("old") == described


def test_a_record_without_a_description_is_stored_as_before(store: Store, realms: Realms) -> None:
    realms.create("plain")
    record = head_records(store.system, REALMS_POINTER).get(("plain",))
    assert record is not None and set(record.value) == FIELDS_BEFORE


@pytest.mark.parametrize("description", ["x" * (DESCRIPTION_BYTES_MAX + 1), "é" * 2_049, "\ud800"])
def test_what_is_out_of_bounds_is_refused_and_changes_nothing(store: Store, realms: Realms, description: str) -> None:
    with pytest.raises(InvalidInput):
        realms.create("r", description=description)
    assert realms.list() == []
    realms.create("r", description="é" * 2_048)
    realms.init("r")
    before, kernel = realms.get("r"), realms.require_active("r")
    for change in (realms.describe, realms.deactivate, realms.activate):
        with pytest.raises(InvalidInput) as refused:
            change("r", description=description)
        assert refused.value.field == "description" and realms.get("r") == before
    write_note(kernel, "catalogs", "still open")


@pytest.mark.parametrize("said", [None, "closed"])
def test_a_description_that_is_written_meanwhile_stops_no_move(
    store: Store, realms: Realms, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    realms.create("r")
    realms.init("r")
    fence, described = realms_module.fence_pointers, []

    def describing(*arguments: object) -> None:
        fence(*arguments)  # type: ignore[arg-type]
        described.append(realms_of(store).describe("r", "meanwhile"))

    monkeypatch.setattr(realms_module, "fence_pointers", describing)
    closed = realms.deactivate("r", description=said)
    assert described and closed == realms.get("r")
    assert (closed.status, closed.description) == ("INACTIVE", said or "meanwhile")
    assert closed.changed_at > described[0].changed_at


def test_a_move_meanwhile_still_excludes_other_movers(realms: Realms, store: Store) -> None:
    realms.create("r")
    taken = realms.take_loading("r")
    realms.describe("r", "one")
    realms_of(store).take_loading("r")
    realms.describe("r", "two")
    with pytest.raises(RealmStateConflict):
        realms.finish_loading("r", taken=taken)
    assert (realms.get("r").status, realms.get("r").description) == ("LOADING", "two")
