"""Each safeguard of the file sweep keeps a file that is lost when that safeguard alone is switched off."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest

from headwater.persistence.coordination.location_reservations import LocationReservations
from headwater.schemas.errors import FilesCondemned, MaintenanceRefused, MaintenanceSuperseded
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks import cache_proof as cache_proof_module
from headwater.streaming.files.marks.cache_ranges import Entry, decoded, encoded, entry_of
from headwater.streaming.files.marks.manifest_marks import ManifestMarks
from headwater.streaming.files.sweep import live_files, local_executor
from headwater.streaming.files.sweep.file_safeguards import ALL_ON, FileSafeguards
from headwater.streaming.files.sweep.file_sweep import FileSweepOptions
from headwater.streaming.reachability.id_set import IdCollector
from tests.support.faults.manual_clock import ManualClock
from tests.support.fixtures.swept_lake import AGELESS, NOW, SweptLake, swept_lake

Scenario = Callable[[SweptLake, FileSafeguards, pytest.MonkeyPatch], set[str]]
"""Goes through it and leaves the files that must stay."""


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def sweep_all(lake: SweptLake, safeguards: FileSafeguards, **others: Any) -> None:
    for _ in range(2):
        try:
            lake.sweep(safeguards=safeguards, **others)
        except MaintenanceRefused:
            continue


def claim(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """Another store has tables there."""
    theirs = lake.needed(lake.table("theirs").metadata_location)
    claimed = path_of(lake.root) / "_headwater" / "root.json"
    claimed.write_text(claimed.read_text().replace(lake.store.incarnation, "0" * 32))
    sweep_all(lake, safeguards)
    return theirs


def nested_claims(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """Another store has tables in a folder below the root, and has claimed that."""
    theirs = lake.needed(lake.table("theirs").metadata_location)
    folder = path_of(lake.root) / "db" / "theirs" / "_headwater"
    folder.mkdir(parents=True)
    ours = (path_of(lake.root) / "_headwater" / "root.json").read_text()
    (folder / "root.json").write_text(ours.replace(lake.store.incarnation, "0" * 32))
    sweep_all(lake, safeguards)
    return theirs


def union(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """A table of another realm lies below the root."""
    location = lake.table("shared").metadata_location
    other = lake.new_realm("second", "")
    lake.put("t", location, realm=other)
    sweep_all(lake, safeguards)
    return lake.needed(location) if path_of(location).exists() else {location}


def strict(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """A manifest list is damaged."""
    location = lake.table("t", 2).metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    for one in needed:
        if "/snap-" in one:
            path_of(one).write_bytes(b"\x00damage" * 9)
    sweep_all(lake, safeguards)
    return needed


def foreign_names(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """The metadata names a file by a mount path, which is below no root."""
    location = lake.table("t").metadata_location
    metadata = json.loads(path_of(location).read_text())
    mounted = path_of(lake.root).parent / "mount"
    mounted.mkdir()
    [snapshot] = metadata["snapshots"]
    listed = snapshot["manifest-list"]
    shutil.copy(path_of(listed), mounted)
    snapshot["manifest-list"] = f"file://{mounted}/{path_of(listed).name}"
    copied = mounted / "v1.metadata.json"
    copied.write_text(json.dumps(metadata))
    lake.put("t", f"file://{copied}")
    sweep_all(lake, safeguards)
    return {listed}


def protected_prefixes(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """A Delta table that no catalog knows."""
    delta = path_of(lake.root) / "delta"
    (delta / "_delta_log").mkdir(parents=True)
    (delta / "_delta_log" / "00000000000000000000.json").write_text("{}")
    (delta / "a.parquet").write_text("data")
    sweep_all(lake, safeguards)
    return {f"{lake.root}/delta/a.parquet"}


def kinds(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """A file that no table writer makes."""
    (path_of(lake.root) / "db.db").mkdir(parents=True, exist_ok=True)
    (path_of(lake.root) / "db.db" / "notes.csv").write_text("1,2")
    sweep_all(lake, safeguards)
    return {f"{lake.root}/db.db/notes.csv"}


def grace(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """Files that their writer has not committed yet."""
    written = lake.needed(lake.table("uncommitted").metadata_location)
    options = FileSweepOptions(confirm_hours=0, share_max=1, batches_per_second=0)
    for _run in range(2):
        lake.sweep(options, msgspec.structs.replace(ALL_ON, grace=safeguards.grace))
    return written


def proof(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """The storage lists its files under names that metadata does not use."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    storage = lake.operations.storages.of(lake.root)
    listing, deleting = storage.list, storage.delete

    def spelled(prefix: str) -> Iterator[list[FoundFile]]:
        for page in listing(prefix):
            yield [msgspec.structs.replace(file, location=file.location.replace("/db/", "/ALIAS~1/")) for file in page]

    patch.setattr(storage, "list", spelled, raising=False)
    patch.setattr(storage, "delete", lambda names: deleting([name.replace("/ALIAS~1/", "/db/") for name in names]))
    sweep_all(lake, safeguards)
    patch.undo()
    return needed


def second_look(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """One run marks nothing, by a fault that is gone in the next."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    with patch.context() as faulty:
        faulty.setattr(live_files, "retained_contents", lambda *_: iter(()))
        lake.sweep(safeguards=safeguards)
    sweep_all(lake, safeguards)
    return needed


def share(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """Every run marks nothing."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    with patch.context() as faulty:
        faulty.setattr(live_files, "retained_contents", lambda *_: iter(()))
        sweep_all(lake, safeguards, share_max=0.5)
    return needed


def second_fence(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """A table is committed while the root is listed."""
    location = lake.table("late").metadata_location
    needed = lake.needed(location)
    lake.sweep(safeguards=safeguards)
    lake.sweep(safeguards=safeguards, at=lambda step: lake.put("late", location) if step == "prove" else None)
    return needed


def lease(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """The process sleeps for a day and more before its first batch; its intent ends, and a table is committed."""
    location = lake.table("late").metadata_location
    needed = lake.needed(location)
    lake.sweep(safeguards=safeguards)

    def sleep(step: str) -> None:
        if step == "delete":
            assert isinstance(lake.store.clock, ManualClock)
            lake.store.clock.move(30 * 3_600)
            lake.put("late", location)

    try:
        lake.sweep(safeguards=safeguards, at=sleep)
    except MaintenanceSuperseded:
        assert safeguards.lease
    return needed


def probe(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """A Bloom filter is built that has lost its entries."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    built, nothing = local_executor.build_bloom, IdCollector().finish()
    with patch.context() as faulty:
        faulty.setattr(local_executor, "build_bloom", lambda ids, capacity: built(dict.fromkeys(ids, nothing), capacity))
        sweep_all(lake, safeguards, filter="bloom")
    return needed


def without_chance(patch: pytest.MonkeyPatch) -> None:
    """No hit of the cache is read again."""
    patch.setattr(cache_proof_module, "PROVED_AT_LEAST", 0)
    patch.setattr(cache_proof_module, "PROVED_ONE_IN", 2**62)


def cached_entries(lake: SweptLake) -> Iterator[tuple[FoundFile, dict[bytes, Entry]]]:
    for file in lake.operations.find(f"{path_of(lake.root).parent}/kept"):
        yield file, decoded(lake.operations.storages.read(file.location, 10**9))


def other_marks(lake: SweptLake, change: Callable[[bytes, Entry, bytes], Entry]) -> None:
    """Manifests in the cache name one file of another name."""
    for file, entries in cached_entries(lake):
        for key, entry in entries.items():
            if b"ids" in entry.payload:
                marks = msgspec.msgpack.decode(entry.payload, type=ManifestMarks)
                changed = msgspec.msgpack.encode(msgspec.structs.replace(marks, ids=bytes(8)))
                entries[key] = change(key, entry, changed)
        lake.operations.storages.of(file.location).write(file.location, encoded(entries))


def without_listing_proof(safeguards: FileSafeguards) -> FileSafeguards:
    """Which would notice it, too: a file of the manifest is there, and nothing that was listed is that file."""
    return msgspec.structs.replace(safeguards, proof=False)


def cache_length(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """A tool writes another manifest in the place of one that was read before."""
    table = lake.table("t")
    lake.put("t", table.metadata_location)
    with patch.context() as unlucky:
        without_chance(unlucky)
        unlucky.setattr(cache_proof_module, "stamp_of", lambda _: b"a storage that says nothing")
        lake.sweep(safeguards=safeguards)
        other = lake.table("other", 3)
        [first], [*others] = (one.current_snapshot().manifests(one.io) for one in (table, other))
        longer = next(one for one in others if one.manifest_length != first.manifest_length)
        path_of(first.manifest_path).write_bytes(path_of(longer.manifest_path).read_bytes())
        metadata = json.loads(path_of(table.metadata_location).read_text())
        listed = metadata["snapshots"][0]["manifest-list"]
        length = path_of(first.manifest_path).stat().st_size
        assert length != first.manifest_length
        renamed = listed.replace("snap-", "snap-2-")
        reader = fastavro.reader(io.BytesIO(path_of(listed).read_bytes()))
        with path_of(renamed).open("wb") as out:
            fastavro.writer(out, reader.writer_schema, [{**one, "manifest_length": length} for one in reader])
        metadata["snapshots"][0]["manifest-list"] = renamed
        moved = table.metadata_location.replace(".metadata.json", "-2.metadata.json")
        path_of(moved).write_text(json.dumps(metadata))
        lake.put("t", moved)
        sweep_all(lake, safeguards)
    return lake.needed(moved)


def cache_digest(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """A disk has turned some bits of the cache."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    with patch.context() as unlucky:
        without_chance(unlucky)
        lake.sweep(safeguards=safeguards)
        other_marks(lake, lambda key, entry, payload: entry._replace(payload=payload))
        sweep_all(lake, without_listing_proof(safeguards))
    return lake.needed(location)


def cache_proof(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """What the cache says of a manifest was never true."""
    location = lake.table("t").metadata_location
    lake.put("t", location)
    needed = lake.needed(location)
    lake.sweep(safeguards=safeguards)
    other_marks(lake, lambda key, entry, payload: entry_of(key, payload, entry.used_day, entry.stamp))
    sweep_all(lake, without_listing_proof(safeguards))
    if safeguards.cache_proof:
        marks = [entry for _, entries in cached_entries(lake) for entry in entries.values() if b"ids" in entry.payload]
        assert marks and all(bytes(8) not in entry.payload for entry in marks), "the cache was not dropped"
    return needed


def cache_stamp(lake: SweptLake, safeguards: FileSafeguards, patch: pytest.MonkeyPatch) -> set[str]:
    """A tool writes another manifest list in the place of one that was read before."""
    table, other = lake.table("t"), lake.table("other", 2)
    lake.put("t", table.metadata_location)
    with patch.context() as unlucky:
        without_chance(unlucky)
        lake.sweep(safeguards=safeguards)
        lists = [
            path_of(json.loads(path_of(one.metadata_location).read_text())["snapshots"][-1]["manifest-list"])
            for one in (table, other)
        ]
        lists[0].write_bytes(lists[1].read_bytes())
        needed = lake.needed(table.metadata_location)
        sweep_all(lake, safeguards)
    return needed


def reservations(lake: SweptLake, safeguards: FileSafeguards, _: pytest.MonkeyPatch) -> set[str]:
    """An engine writes the files of a table for days before it commits the table that it has staged."""
    table = lake.table("staged")
    LocationReservations(lake.store.backend, lake.store.clock).reserve(lake.realm, [table.location()])
    needed = lake.needed(table.metadata_location)
    sweep_all(lake, safeguards)
    return needed


SCENARIOS: dict[str, Scenario] = {
    one.__name__: one
    for one in (
        claim,
        nested_claims,
        union,
        strict,
        foreign_names,
        protected_prefixes,
        kinds,
        grace,
        proof,
        second_look,
        share,
        second_fence,
        reservations,
        lease,
        probe,
        cache_length,
        cache_digest,
        cache_proof,
        cache_stamp,
    )
}


def test_every_safeguard_has_a_scenario() -> None:
    assert set(SCENARIOS) == set(FileSafeguards.__struct_fields__)


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_one_safeguard_a_file_is_lost_that_it_keeps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for is_on in (True, False):
        folder = tmp_path / str(is_on)
        safeguards = msgspec.structs.replace(AGELESS if name != "grace" else ALL_ON, **({} if is_on else {name: False}))
        clock = ManualClock() if name == "lease" else None
        with swept_lake(folder, clock=clock, cached=name.startswith("cache")) as lake:
            must_stay = SCENARIOS[name](lake, safeguards, monkeypatch)
            lost = must_stay - lake.files()
            assert bool(lost) is not is_on, f"{name} on: {is_on}; lost {sorted(lost)[:3]}"


def test_a_commit_of_files_that_are_being_deleted_is_refused_and_nothing_is_committed(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("late", 2).metadata_location
        lake.sweep()
        refusals: list[str] = []

        def commit(step: str) -> None:
            if step == "delete":
                with pytest.raises(FilesCondemned) as refused:
                    lake.put("late", location)
                refusals.append(str(refused.value.facts["file"]))

        lake.sweep(at=commit)
        assert len(refusals) == 1 and refusals[0].startswith(lake.root) and not lake.files()
        with pytest.raises(FilesCondemned):
            lake.put("late", location)
        lake.put("fresh", lake.table("fresh").metadata_location)


def test_a_store_restored_from_a_backup_deletes_nothing_before_the_root_is_claimed_by_force(tmp_path: Path) -> None:
    with swept_lake(tmp_path) as lake:
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        claimed = path_of(lake.root) / "_headwater" / "root.json"
        newer = json.loads(claimed.read_text())
        claimed.write_text(json.dumps({**newer, "generation": newer["generation"] + 3}))
        [report] = lake.sweep().roots
        assert "is claimed by" in report.refusal and orphan <= lake.files()
        with pytest.raises(MaintenanceRefused, match="is claimed by"):
            lake.claim()
        lake.claim(force=True)
        lake.sweep(NOW)
        assert not orphan & lake.files()
