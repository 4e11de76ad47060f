"""Exports under writers and maintenance write one consistent cut; imports that fail half way leave all or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from headwater.persistence.backends.memory.memory_backend import MemoryBackend
from headwater.persistence.log.log_entry import ENTRY
from headwater.persistence.reading.state import base_state
from headwater.persistence.realms.realm_purge import rows_of
from headwater.persistence.realms.realms import Realms
from headwater.persistence.rows import ObjectRow
from headwater.persistence.store import Store
from headwater.schemas.change import Kind
from headwater.schemas.entry_ids import object_id_of
from headwater.schemas.errors import (
    ChainBroken,
    ChecksumMismatch,
    ClockMovedBackwards,
    ExportDamaged,
    HeadwaterError,
    ImportDiffers,
    InvalidInput,
    MaintenanceRunning,
    ObjectNotFound,
    RealmExists,
    RealmNotFound,
    RealmStateConflict,
    StoreUnavailable,
)
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.runs.runs import Runs
from headwater.streaming.transfer import consistent_cut, exporting, file_format
from headwater.streaming.transfer.exporting import export_realm
from tests.support.faults.faulty_backend import Crash, FaultyBackend, crash_before, first, unavailable, unknown
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.maintained import DEV, HOUR, MAIN, TAG, Maintained
from tests.support.fixtures.transferred import (
    check_same,
    export,
    feeds,
    is_empty,
    load,
    memory_backend,
    new_realm,
    realm_with_history,
    target,
)
from tests.support.models.commit_harness import LiveSets, MoveTo, Write, reachable_at, store_on, whole_log


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small realms take many."""
    monkeypatch.setattr(file_format, "FRAME_BYTES", 2_000)


@pytest.fixture
def realm() -> Maintained:
    return realm_with_history(memory_backend(), ManualClock())


def no_realms(store: Store) -> bool:
    return Realms(store).list() == []


# ── one cut, while writers continue ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("closing", [True, False], ids=["closed", "mutant: heads as they are read"])
def test_a_branch_created_while_heads_are_read_is_exported_with_its_source(
    closing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """⚠ The tag is read after main, and points to a commit that main did not have when it was read."""
    monkeypatch.setattr(consistent_cut, "NAMES_PER_PAGE", 1)  # one read for each pointer
    inner = memory_backend()
    realm = new_realm(inner, ManualClock())
    realm.write(MAIN)
    realm.move_to(TAG, Kind.CREATE, realm.logs[MAIN][0])
    faulty = FaultyBackend(inner)

    def others() -> None:
        realm.move_to(TAG, Kind.ASSIGN, realm.write(MAIN))

    names = [name for name in inner.list_names(realm.realm) if name.startswith("cat/")]
    assert names == [MAIN, TAG]
    fault = faulty.arm(first("read_pointers", others, skip=4))  # the pin reads all rows once; then the second read of the tag
    if not closing:
        monkeypatch.setattr(consistent_cut.ConsistentCut, "_closed", lambda _self, rows, _before: rows)
    done = export(store_on(faulty, clock=realm.clock), tmp_path)
    assert fault.fired == 1
    copied = target(after=realm.clock)
    report = load(copied, done.file)
    bases = [(change.base, len(feeds(copied, report.instance)[MAIN])) for change in feeds(copied, report.instance)[TAG]]
    beyond = [base for base, length in bases if base is not None and base.seq > length]
    assert bool(beyond) is not closing, "without the closure the tag stands on a commit that main does not have"


def test_an_export_while_writers_commit_and_branch_is_one_cut(tmp_path: Path) -> None:
    backend = memory_backend()
    realm = new_realm(backend, ManualClock())
    realm.step_seconds = 1
    realm.write(MAIN)
    stop, rounds = threading.Event(), 0

    def write() -> None:
        nonlocal rounds
        while not stop.is_set() and rounds < 3_000:
            realm.write(MAIN)
            realm.move_to(DEV, Kind.ASSIGN, realm.logs[MAIN][-1])
            realm.write(DEV)
            realm.move_to(TAG, Kind.ASSIGN, realm.logs[DEV][-1])
            rounds += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        before = rounds
        files = [export(store_on(backend, clock=realm.clock), tmp_path / f"{n}.hwexport").file for n in range(5)]
        assert rounds > before, "nobody wrote meanwhile"
    finally:
        stop.set()
        writer.join(30)
    for number, file in enumerate(files):
        copied = target(after=realm.clock)
        kernel = copied.kernel(load(copied, file, f"copy-{number}").instance)
        logs = {name: whole_log(kernel, name) for name in (MAIN, DEV, TAG) if copied.backend.read_pointer(kernel.realm, name)}
        live = LiveSets(logs)  # by the segment rule: it fails where a base is not there
        for name, log in logs.items():
            assert live.at(name, len(log)) == reachable_at(kernel, log[-1])


def test_history_is_pinned_while_it_is_exported_although_expiry_and_sweep_run(
    realm: Maintained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, orphan = feeds(realm.store, realm.realm), realm.orphan()
    realm.clock.move(4 * HOUR)
    monkeypatch.setattr(exporting, "OBJECTS_PER_FETCH", 10)
    held: list[str] = []

    def maintain(what: str, _count: int) -> None:
        if what == "objects" and not held:
            expired = realm.expire("*=1n")
            assert expired.expired == 0
            held.extend(it.held_by for it in expired.pointers if it.held_by)
            assert not realm.sweep().failures

    done = export_realm(realm.store, "shop", tmp_path, Identifiers(), on_progress=maintain)
    assert held and all("export-" in holder for holder in held), "maintenance never ran"
    assert orphan not in realm.ids()
    copied = target(after=realm.clock)
    report = load(copied, done.file)
    assert feeds(copied, report.instance) == before
    assert realm.expire("*=1n").expired > 10, "the pin is gone with the export"


def test_a_long_export_renews_its_pin(realm: Maintained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "OBJECTS_PER_FETCH", 10)
    seen = 0

    def slowly(what: str, _count: int) -> None:
        nonlocal seen
        if what == "objects":
            realm.clock.move(HOUR / 2)
            seen += 1
            assert realm.expire("*=1n").expired == 0

    export_realm(realm.store, "shop", tmp_path, Identifiers(), on_progress=slowly)
    assert seen > 5


# ── an export that cannot be whole is none ──────────────────────────────────────────────────────────────────


def refused(error: type[HeadwaterError], work: Callable[[], object], folder: Path) -> HeadwaterError:
    with pytest.raises(error) as caught:
        work()
    assert list(folder.iterdir()) == []
    return caught.value


def test_a_missing_or_altered_object_stops_the_export(realm: Maintained, tmp_path: Path) -> None:
    store = realm.cold().store
    head = object_id_of(realm.row(MAIN).head)
    (row,) = realm.backend.fetch_objects(realm.realm, [head])[head]
    altered = msgspec.structs.replace(row, payload=row.payload[:-1] + bytes([row.payload[-1] ^ 1]))
    realm.backend.write_objects(realm.realm, [altered])
    refused(ChecksumMismatch, lambda: export(store, tmp_path), tmp_path)
    realm.backend.write_objects(realm.realm, [row])
    reachable = realm.reachable()
    gone = [it for it in realm.rows() if it.type == "content" and it.id in reachable][:1]
    realm.backend.delete_scanned(gone)
    error = refused(ObjectNotFound, lambda: export(realm.cold().store, tmp_path), tmp_path)
    assert "maintain check" in str(error)


def test_an_entry_that_was_rewritten_with_a_right_checksum_breaks_the_chain(realm: Maintained, tmp_path: Path) -> None:
    forged = realm.logs[MAIN][1]
    entry = msgspec.structs.replace(forged.entry, author="somebody else", operations=())
    from headwater.persistence.objects.codec import encode

    realm.backend.write_objects(realm.realm, [encode(ENTRY, forged.object_id, entry, 1)])
    refused(ChainBroken, lambda: export(realm.cold().store, tmp_path), tmp_path)


def test_realms_that_are_not_whole_and_a_run_at_work_refuse_an_export(realm: Maintained, tmp_path: Path) -> None:
    refused(RealmNotFound, lambda: export(realm.store, tmp_path, "nobody"), tmp_path)
    refused(InvalidInput, lambda: export(realm.store, tmp_path, "::system::"), tmp_path)
    Realms(realm.store).create("early")
    refused(RealmStateConflict, lambda: export(realm.store, tmp_path, "early"), tmp_path)
    with Runs(realm.backend, realm.clock).run("sweep"):
        refused(MaintenanceRunning, lambda: export(realm.store, tmp_path), tmp_path)


# ── an import is whole or nothing ───────────────────────────────────────────────────────────────────────────


def test_a_damaged_file_leaves_no_trace(realm: Maintained, tmp_path: Path) -> None:
    path = Path(export(realm.store, tmp_path).file)
    data = path.read_bytes()
    copied = target(after=realm.clock)
    for bad in (data[:-1], data[: len(data) // 2], data.replace(data[5_000:5_001], b"?", 5)):
        path.write_bytes(bad)
        with pytest.raises(ExportDamaged):
            load(copied, path)
    assert no_realms(copied) and copied.backend.list_names("copy") == []


def test_existing_names_and_slow_clocks_are_refused_first(realm: Maintained, tmp_path: Path) -> None:
    file = export(realm.store, tmp_path).file
    with pytest.raises(RealmExists, match="ACTIVE"):
        load(realm.store, file, "shop")
    with pytest.raises(RealmNotFound):
        load(realm.store, file, "nobody", resume=True)
    with pytest.raises(RealmStateConflict, match="not LOADING"):
        load(realm.store, file, "shop", resume=True)
    for name in ("::system::", "a b", ""):
        with pytest.raises(InvalidInput):
            load(realm.store, file, name)
    copied = target()
    copied.clock = ManualClock(realm.clock.micros - 3_600_000_000)
    with pytest.raises(ClockMovedBackwards, match="seconds after"):
        load(copied, file)
    assert no_realms(copied)


def faulty_target(realm: Maintained) -> tuple[FaultyBackend, Store]:
    faulty = FaultyBackend(memory_backend())
    store = target(faulty, after=realm.clock)
    return faulty, store


@pytest.mark.parametrize("method", ["write_objects", "reserve_pointer", "fetch_objects", "add_name"])
def test_a_store_that_fails_half_way_is_left_as_it_was(realm: Maintained, tmp_path: Path, method: str) -> None:
    file = export(realm.store, tmp_path).file
    faulty, store = faulty_target(realm)
    Realms(store).create("other")
    fault = faulty.arm(unavailable(method, skip=3))
    with pytest.raises(StoreUnavailable):
        load(store, file)
    assert fault.fired == 1
    assert [it.name for it in Realms(store).list()] == ["other"]
    instances = {row.realm for row in _all_rows(faulty)}
    assert not [it for it in instances if it.startswith("copy#")]
    check_same(realm.store, realm.realm, store, load(store, file))


def _all_rows(faulty: FaultyBackend) -> list[object]:
    from headwater.persistence.realms.realm_purge import TABLES_IN_ORDER

    return [row for table in TABLES_IN_ORDER for split in faulty.splits(table, 1) for row in faulty.scan(split)]


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("method", ["write_objects", "reserve_pointer"])
def test_an_answer_that_is_lost_loses_nothing_or_is_noticed(
    realm: Maintained, tmp_path: Path, method: str, landed: bool
) -> None:
    file = export(realm.store, tmp_path).file
    faulty, store = faulty_target(realm)
    fault = faulty.arm(unknown(method, landed=landed, skip=4))
    if method == "reserve_pointer" and not landed:
        with pytest.raises(ImportDiffers):
            load(store, file)
        assert fault.fired == 1 and no_realms(store)
    else:
        check_same(realm.store, realm.realm, store, load(store, file))
        assert fault.fired == 1


class AlteringBackend(MemoryBackend):
    """A store that changes one bit of one object on its way to disk."""

    altered = 0

    def write_objects(self, realm: str, rows: Sequence[ObjectRow]) -> None:
        if realm.startswith("copy#") and not self.altered and len(rows) > 2:
            type(self).altered += 1
            row = rows[1]
            rows = [rows[0], msgspec.structs.replace(row, payload=row.payload[:-1] + bytes([row.payload[-1] ^ 1])), *rows[2:]]
        super().write_objects(realm, rows)


def test_a_row_that_reads_back_otherwise_is_noticed_and_the_realm_never_opens(realm: Maintained, tmp_path: Path) -> None:
    backend = AlteringBackend(memory_backend().store)
    store = target(backend, after=realm.clock)
    with pytest.raises(ImportDiffers):
        load(store, export(realm.store, tmp_path).file)
    assert AlteringBackend.altered == 1 and no_realms(store)


def interrupted(realm: Maintained, file: str, method: str = "reserve_pointer") -> Store:
    """What a process that died while it loaded has left, as the next process finds it."""
    faulty, store = faulty_target(realm)
    fault = faulty.arm(crash_before(method, skip=0 if method == "read_pointers" else 3))
    with pytest.raises(Crash):
        load(store, file)
    assert fault.fired == 1
    return target(faulty.inner, after=realm.clock)


@pytest.mark.parametrize("method", ["add_name", "write_objects", "reserve_pointer", "read_pointers"])
def test_an_interrupted_load_is_resumed_or_purged(realm: Maintained, tmp_path: Path, method: str) -> None:
    file = export(realm.store, tmp_path).file
    store = interrupted(realm, file, method)
    found = Realms(store).get("copy")
    assert found.status == "LOADING"
    with pytest.raises(RealmExists, match="--resume"):
        load(store, file)
    report = load(store, file, resume=True)
    assert report.instance == found.instance
    check_same(realm.store, realm.realm, store, report)
    other = interrupted(realm, file, method)
    Realms(other).purge("copy")
    Realms(other).finish_purge("copy")
    Realms(other).delete("copy")
    assert is_empty(other.backend, found.instance) and load(other, file).status == "ACTIVE"


def test_a_load_that_died_before_its_first_row_is_resumed(realm: Maintained, tmp_path: Path) -> None:
    file = export(realm.store, tmp_path).file
    store = target(after=realm.clock)
    Realms(store).create("copy")
    with pytest.raises(RealmExists, match="--resume, or delete"):
        load(store, file)
    check_same(realm.store, realm.realm, store, load(store, file, resume=True))


def test_a_load_continues_only_with_its_own_file(realm: Maintained, tmp_path: Path) -> None:
    file = export(realm.store, tmp_path / "1").file
    realm.write(MAIN)
    newer = export(realm.store, tmp_path / "2").file
    store = interrupted(realm, file)
    before = len(list(rows_of(store.backend, Realms(store).get("copy").instance)))
    with pytest.raises(InvalidInput, match="another file"):
        load(store, newer, resume=True)
    found = Realms(store).get("copy")
    assert found.status == "LOADING" and len(list(rows_of(store.backend, found.instance))) == before
    assert load(store, file, resume=True).status == "ACTIVE"


def test_an_overtaken_import_neither_opens_nor_purges_the_realm(realm: Maintained, tmp_path: Path) -> None:
    file = export(realm.store, tmp_path).file
    faulty, store = faulty_target(realm)
    other = target(faulty.inner, after=realm.clock)
    fault = faulty.arm(first("reserve_pointer", lambda: load(other, file, resume=True), skip=2))
    with pytest.raises(HeadwaterError):
        load(store, file)
    assert fault.fired == 1
    found = Realms(other).get("copy")
    assert found.status == "ACTIVE"
    assert feeds(other, found.instance) == feeds(realm.store, realm.realm)


def test_a_dry_run_checks_the_file_and_creates_nothing(realm: Maintained, tmp_path: Path) -> None:
    file = export(realm.store, tmp_path).file
    copied = target(after=realm.clock)
    report = load(copied, file, dry_run=True)
    assert report.reached > 0 and report.instance == "" and no_realms(copied)


def test_a_base_in_a_concurrent_write_is_complete(tmp_path: Path) -> None:
    """A branch of a branch, both made between two reads: the closure follows both."""
    inner = memory_backend()
    realm = new_realm(inner, ManualClock())
    realm.write(MAIN)
    faulty = FaultyBackend(inner)

    def others() -> None:
        source = realm.write(MAIN)
        dev = realm.lanes.landed(DEV, MoveTo(kind=Kind.CREATE, base=base_state(source)))
        realm.lanes.landed(DEV, Write(puts={"on-dev": {"v": 1}}))
        realm.lanes.landed(TAG, MoveTo(kind=Kind.CREATE, base=base_state(dev)))

    fault = faulty.arm(first("list_names", others, skip=2))
    done = export(store_on(faulty, clock=realm.clock), tmp_path)
    assert fault.fired == 1
    copied = target(after=realm.clock)
    report = load(copied, done.file)
    logs = feeds(copied, report.instance)
    for name, changes in logs.items():
        assert all(change.base is None or change.base.seq <= len(logs[change.base.pointer]) for change in changes), name
