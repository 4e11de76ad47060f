"""A realm goes through a file into another store: history, ids, states and bytes are the same, and life continues in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.consumers.clients.local_feed import LocalFeed
from headwater.persistence.commit import draft
from headwater.persistence.ids.snowflake import id_time_micros
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.principal_records import KEYS_TYPE, SECRET_TYPE
from headwater.persistence.records.subscriptions import SubscriptionRecord, Subscriptions
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import Store
from headwater.schemas.cursor import encode_cursor
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import CursorReset
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.sweep.verify import verify_realm
from headwater.streaming.transfer.import_record import read_import
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import HOUR, MAIN, Maintained, sweep_store
from tests.support.fixtures.transferred import (
    check_same,
    export,
    feeds,
    load,
    memory_backend,
    new_realm,
    object_rows,
    realm_with_history,
    target,
    write_big,
)
from tests.support.models.commit_harness import Lanes, Write

SOAK = os.environ.get("HEADWATER_SOAK") == "1"


@pytest.fixture
def realm() -> Maintained:
    return realm_with_history(memory_backend(), ManualClock())


@pytest.fixture
def copied(realm: Maintained) -> Store:
    return target(after=realm.clock)


# ── the same ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_imported_realm_has_the_same_changes_states_and_rows(realm: Maintained, copied: Store, tmp_path: Path) -> None:
    realm.expire("cat/*=12n")
    done = export(realm.store, tmp_path)
    report = load(copied, done.file)
    assert (report.status, report.realm) == ("ACTIVE", "copy") and report.instance != realm.realm
    assert report.reached == done.reached == report.counts.objects - extra_parts(copied, report.instance)
    check_same(realm.store, realm.realm, copied, report)
    verified = verify_realm(copied.backend, report.instance, copied.clock, Identifiers())
    assert verified.holds and verified.unreached == 0
    assert max(part for _, part in object_rows(copied.backend, report.instance)) > 0, "no object took several rows"


def extra_parts(store: Store, instance: str) -> int:
    return sum(part > 0 for _, part in object_rows(store.backend, instance))


def test_a_low_level_export_includes_garbage_and_mutable_rows(realm: Maintained, copied: Store, tmp_path: Path) -> None:
    orphan = realm.orphan()
    Subscriptions(realm.kernel).create("nightly", SubscriptionRecord({}))
    report = load(copied, export(realm.store, tmp_path, low_level=True).file)
    check_same(realm.store, realm.realm, copied, report, garbage_too=True)
    assert (orphan, 0) in object_rows(copied.backend, report.instance)
    assert Subscriptions(copied.kernel(report.instance)).find("nightly") is not None
    assert copied.backend.list_mutable(report.instance, "reader") == []
    copied.clock.sleep(4 * HOUR)
    swept, _ = sweep_store(copied, [report.instance])
    assert not swept.failures and (orphan, 0) not in object_rows(copied.backend, report.instance)
    assert feeds(copied, report.instance) == feeds(realm.store, realm.realm)


@settings(max_examples=300 if SOAK else 12, deadline=None)
@given(
    seed=st.integers(0, 2**32), steps=st.integers(0, 30), keep=st.integers(1, 12), low_level=st.booleans(), big=st.booleans()
)
def test_any_history_survives_an_export_and_import(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int, keep: int, low_level: bool, big: bool
) -> None:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(draft, "TAIL_ENTRIES_MAX", 3)
        small.setattr(draft, "OPERATIONS_BYTES_MAX", 700)
        realm = new_realm(memory_backend(), ManualClock(), seed=seed)
        for _ in range(steps):
            realm.step()
        if big:
            write_big(realm)
        realm.expire(f"cat/*/heads/main={keep}n")
        for _ in range(steps // 3):
            realm.step()
        if seed % 2:
            realm.clock.move(4 * HOUR)
            realm.sweep()
        copied = target(after=realm.clock)
        done = export(realm.store, tmp_path_factory.mktemp("export"), low_level=low_level)
        report = load(copied, done.file)
        check_same(realm.store, realm.realm, copied, report, garbage_too=low_level)


def test_a_copy_of_a_copy_is_identical_and_names_its_origin(realm: Maintained, copied: Store, tmp_path: Path) -> None:
    first = load(copied, export(realm.store, tmp_path).file)
    record = read_import(copied.backend, first.instance)
    assert record is not None and record.instance == realm.realm
    second = load(copied, export(copied, tmp_path, "copy", low_level=True).file, "again")
    check_same(realm.store, realm.realm, copied, second)
    record = read_import(copied.backend, second.instance)
    assert record is not None and record.instance == first.instance


def test_an_empty_new_realm_and_a_closed_one_can_be_moved(tmp_path: Path) -> None:
    realm = new_realm(memory_backend(), ManualClock())
    Realms(realm.store).deactivate("shop")
    copied = target(after=realm.clock)
    report = load(copied, export(realm.store, tmp_path).file, active=False)
    assert report.status == "INACTIVE"
    Realms(copied).activate("copy")
    check_same(realm.store, realm.realm, copied, report)
    Lanes(copied.kernel(report.instance)).landed(MAIN, Write(puts={"new": {"v": 1}}))


# ── life continues ────────────────────────────────────────────────────────────────────────────────────────────


def test_commits_continue_in_it_with_newer_ids_and_sweeps_delete_nothing_that_is_reached(
    realm: Maintained, copied: Store, tmp_path: Path
) -> None:
    report = load(copied, export(realm.store, tmp_path).file)
    before = feeds(copied, report.instance)
    kernel = copied.kernel(report.instance)
    newest = max(object_id for object_id, _ in object_rows(copied.backend, report.instance))
    logged = Lanes(kernel).landed(MAIN, Write(puts={"new": {"v": 1}}))
    assert logged.entry.seq == len(before[MAIN]) + 1 and logged.object_id > newest
    assert logged.entry.previous.hex() == before[MAIN][-1].entry_id
    copied.clock.sleep(30 * HOUR)
    swept, _ = sweep_store(copied, [report.instance], filter="bloom")
    assert swept.swept == [report.instance] and sum(it.purged for it in swept.counts[report.instance].values()) == 0
    after = feeds(copied, report.instance)
    assert {name: changes[: len(before[name])] for name, changes in after.items()} == before
    assert verify_realm(copied.backend, report.instance, copied.clock, Identifiers()).holds


def test_cursors_of_the_old_instance_are_reset_and_entry_ids_are_found(
    realm: Maintained, copied: Store, tmp_path: Path
) -> None:
    report = load(copied, export(realm.store, tmp_path).file)
    old, new = (LocalFeed(kernel, HeadWatch(kernel)) for kernel in (realm.kernel, copied.kernel(report.instance)))
    position = old.page(MAIN, old.start(MAIN, "earliest"), limit=3).last
    with pytest.raises(CursorReset):
        new.start(MAIN, encode_cursor(old.token({MAIN: position})))
    assert new.start(MAIN, position.entry_id.hex()).seq == position.seq
    assert {change.realm for change in new.page(MAIN, position, limit=5).frame.changes} == {"copy"}


def test_new_ids_are_waited_for_until_they_are_later_than_those_of_the_file(realm: Maintained, tmp_path: Path) -> None:
    done = export(realm.store, tmp_path)
    copied = target(after=realm.clock)
    newest = max(object_id for object_id, _ in object_rows(realm.backend, realm.realm))
    behind = ManualClock(id_time_micros(newest) - 10_000_000)
    copied.clock = behind
    report = load(copied, done.file)
    assert behind.slept_seconds >= 10
    logged = Lanes(copied.kernel(report.instance)).landed(MAIN, Write(puts={"new": {"v": 1}}))
    assert object_id_of(logged.entry_id) > newest


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("secrets", [False, True])
def test_hashes_of_secrets_are_exported_only_on_request(
    realm: Maintained, copied: Store, tmp_path: Path, secrets: bool
) -> None:
    kept = realm.backend.list_mutable(realm.realm, SECRET_TYPE)
    assert kept, "the first principal has no secret"
    done = export(realm.store, tmp_path, secrets=secrets)
    assert Path(done.file).stat().st_mode & 0o777 == 0o600
    report = load(copied, done.file)
    assert copied.backend.list_mutable(report.instance, SECRET_TYPE) == (kept if secrets else [])


def test_keys_that_tokens_are_signed_with_never_leave_the_store(realm: Maintained, copied: Store, tmp_path: Path) -> None:
    key = MutableRow(type=KEYS_TYPE, key="current", version=1, created_at=1, payload=b"private")
    assert realm.backend.insert_mutable(realm.realm, key)
    report = load(copied, export(realm.store, tmp_path, low_level=True).file)
    assert copied.backend.list_mutable(report.instance, KEYS_TYPE) == []
    assert copied.backend.list_mutable(report.instance, SECRET_TYPE), "the rest of the mutable rows went along"
