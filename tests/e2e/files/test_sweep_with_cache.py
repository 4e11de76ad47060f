"""Sweeps that remember manifests: a warm run reads what is new, and an unreadable version refuses its own root alone."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest
from pyiceberg.table import Table

from headwater.schemas.errors import FileMissing, MaintenanceRefused, StoreUnavailable
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.formats.reading import MetadataReader, Mode
from headwater.streaming.files.marks import cache_proof, content_marks
from headwater.streaming.files.marks.cache_ranges import decoded, encoded
from headwater.streaming.files.marks.content_marks import ContentMarking, ContentMarks
from headwater.streaming.files.marks.manifest_marks import ManifestMarks, mark_manifest
from headwater.streaming.files.sweep.live_files import LiveFiles
from headwater.streaming.files.sweep.roots import place_of
from headwater.streaming.files.sweep.store_marks import fence_patiently, file_salt, markable_realms
from tests.support.fixtures.swept_lake import AGELESS, SweptLake, swept_lake


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def count_reads(lake: SweptLake, patch: pytest.MonkeyPatch) -> Counter[str]:
    reads: Counter[str] = Counter()
    reading = lake.operations.storages.read

    def counted(location: str, bytes_max: int) -> bytes:
        if not location.endswith(".parquet"):
            reads["list" if "/snap-" in location else location.rpartition(".")[2]] += 1
        return reading(location, bytes_max)

    patch.setattr(lake.operations.storages, "read", counted)
    return reads


def live_ids(lake: SweptLake) -> list[int]:
    live = LiveFiles(
        lake.operations.storages,
        [place_of(f"{lake.root}/")],
        file_salt(lake.store),
        lake.store.clock,
        safeguards=AGELESS,
        cache=lake.operations.manifest_cache(file_salt(lake.store)),
    )
    for realm in markable_realms(lake.store):
        live.add(lake.store.backend, realm, fence_patiently(lake.store.backend, realm, lake.store.clock).spans)
    ids = list(live.finish())
    live.close()
    return ids


def test_a_warm_run_reads_only_new_lists_and_their_new_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_proof, "PROVED_AT_LEAST", 0)
    monkeypatch.setattr(cache_proof, "PROVED_ONE_IN", 2**62)
    with swept_lake(tmp_path, cached=True) as lake:
        table = lake.table("t", 3)
        lake.put("t", table.metadata_location)
        cold = live_ids(lake)
        reads = count_reads(lake, monkeypatch)
        assert live_ids(lake) == cold
        assert reads == {"json": 1}
        reads.clear()
        for _ in range(2):
            table.append(table.scan().to_arrow().slice(0, 1))
            lake.put("t", table.metadata_location)
        live_ids(lake)
        assert reads == {"json": 3, "list": 2, "avro": 2}


@pytest.mark.parametrize("damage", ["lost", "random"])
def test_a_lost_or_damaged_cache_marks_the_same_files(tmp_path: Path, damage: str) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        lake.put("t", lake.table("t", 2).metadata_location)
        cold = live_ids(lake)
        files = list((tmp_path / "kept").rglob("*.parquet"))
        assert files
        for file in files:
            file.unlink() if damage == "lost" else file.write_bytes(b"\x07" * 500)
        assert live_ids(lake) == cold == live_ids(lake)


def delete(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def of_format_nine(path: Path) -> None:
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":9'))


def without_lists(path: Path) -> None:
    """And without the cache's memory of them."""
    for file in path.parent.glob("snap-*.avro"):
        file.write_bytes(b"damaged")
    for file in (path.parents[4] / "kept").rglob("*.parquet"):
        entries = {key: entry for key, entry in decoded(file.read_bytes()).items() if b"places" in entry.payload}
        file.write_bytes(encoded(entries))


@pytest.mark.parametrize("damage", [delete, cut, without_lists])
def test_a_version_that_is_no_longer_readable_refuses_only_its_own_root(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        broken = lake.table("broken").metadata_location
        lake.put("broken", broken)
        needed, orphan = lake.needed(broken), lake.needed(lake.table("orphan").metadata_location)
        elsewhere = f"file://{tmp_path}/second"
        other = lake.new_realm("second", elsewhere)
        lake.claim_of(other)
        unused = path_of(elsewhere) / "t" / "data" / "unused.parquet"
        unused.parent.mkdir(parents=True)
        unused.write_text("unused")
        lake.sweep()
        damage(path_of(broken))
        reports = {report.root: report for report in lake.sweep().roots}
        assert broken in reports[f"{lake.root}/"].refusal and "Nothing was deleted" in reports[f"{lake.root}/"].refusal
        assert not reports[f"{elsewhere}/"].refusal and not unused.exists()
        assert (needed | orphan) - lake.files() <= {broken}


def test_a_version_whose_metadata_file_was_written_again_may_have_files_anywhere(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        location = lake.table("t").metadata_location
        lake.put("t", location)
        lake.sweep()
        of_format_nine(path_of(location))
        with pytest.raises(MaintenanceRefused, match="format version 9"):
            lake.sweep()


def test_a_cache_that_is_wrong_at_the_second_fence_of_one_root_refuses_the_others_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the cache has made of one table may be wrong for files of any root."""
    with swept_lake(tmp_path, cached=True) as lake:
        second = lake.new_realm("second", f"file://{tmp_path}/second")
        lake.claim_of(second)
        for root in (lake.root, f"file://{tmp_path}/second"):
            unused = path_of(root) / "t" / "data" / "unused.parquet"
            unused.parent.mkdir(parents=True)
            unused.write_text("unused")
        lake.put("t", lake.table("t").metadata_location)
        lake.sweep()
        monkeypatch.setattr(cache_proof, "PROVED_AT_LEAST", 10**6)
        late, wrong = lake.table("late", 2), lake.table("wrong")
        marking = ContentMarking(file_salt(lake.store), lake.operations.manifest_cache(file_salt(lake.store)))
        reader = MetadataReader(lake.operations.storages, Mode.STRICT)
        marking.mark_table(reader, late.metadata_location)
        with monkeypatch.context() as faulty:
            faulty.setattr(content_marks, "mark_manifest", lambda *_: mark_manifest_of(reader, wrong))
            marking.mark_table(reader, lake.table("cached wrongly").metadata_location)
        marking.flush()
        wrongly = str(next(path_of(lake.root).rglob("cached*/metadata/00001-*.json")))

        def commit(step: str) -> None:
            if step == "intent" and not committed:
                committed.append(step)
                lake.put("wrongly", f"file://{wrongly}")

        committed: list[str] = []
        reports = lake.sweep(at=commit).roots
        assert committed and len(reports) == 2
        assert all("manifest cache says of" in report.refusal for report in reports), reports
        assert all(report.purge is None for report in reports)


def mark_manifest_of(reader: MetadataReader, table: Table) -> ManifestMarks:
    [manifest, *_] = table.current_snapshot().manifests(table.io)
    return mark_manifest(manifest.manifest_path, reader.read(manifest.manifest_path), bytes(16))


def uncompressed(table: Table) -> None:
    """Its only manifest and manifest list."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    [manifest], listed = snapshot.manifests(table.io), path_of(snapshot.manifest_list)
    for path, changes in (path_of(manifest.manifest_path), {}), (listed, {"manifest_length": 0}):
        reader = fastavro.reader(io.BytesIO(path.read_bytes()))
        if changes:
            changes = {"manifest_length": path_of(manifest.manifest_path).stat().st_size}
        records, schema = [{**one, **changes} for one in reader], reader.writer_schema
        with path.open("wb") as out:
            fastavro.writer(out, schema, records)


@pytest.mark.parametrize("same", ["list", "manifest"])
def test_a_container_that_is_written_again_with_the_same_length_is_noticed_by_its_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: str
) -> None:
    monkeypatch.setattr(cache_proof, "PROVED_AT_LEAST", 0)
    monkeypatch.setattr(cache_proof, "PROVED_ONE_IN", 2**62)
    with swept_lake(tmp_path, cached=True) as lake:
        table = lake.table("t")
        uncompressed(table)
        lake.put("t", table.metadata_location)
        lake.sweep()
        pattern = "snap-*.avro" if same == "list" else "*-m0.avro"
        [path] = (path_of(table.metadata_location).parent).glob(pattern)
        os.utime(path)  # written again with the same content
        assert not lake.sweep().roots[0].refusal
        content = path.read_bytes()
        name = b"m0.avro" if same == "list" else b".parquet"
        assert name in content, "the names are compressed"
        path.write_bytes(content.replace(name, name[:-1] + b"X"))
        [report] = lake.sweep().roots
        assert "manifest cache says of" in report.refusal
        assert not list((tmp_path / "kept").rglob("*.parquet"))


@pytest.mark.parametrize("newest_first", [True, False])
def test_two_versions_that_give_one_manifest_two_lengths_have_two_manifests(tmp_path: Path, newest_first: bool) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        table, other = lake.table("t"), lake.table("other")
        salt = file_salt(lake.store)
        reader = MetadataReader(lake.operations.storages, Mode.STRICT)
        ContentMarking(salt, cache := lake.operations.manifest_cache(salt)).mark_table(reader, table.metadata_location)
        [first], [second] = (one.current_snapshot().manifests(one.io) for one in (table, other))
        moved = ManifestRef(first.manifest_path, second.manifest_length + 1)
        cache.put_manifest(moved, mark_manifest(second.manifest_path, reader.read(second.manifest_path), salt))
        cache.put_list(other.current_snapshot().manifest_list, [moved])
        marking = ContentMarking(salt, cache)
        versions = [table.metadata_location, other.metadata_location]
        marked = [marking.mark_table(reader, one) for one in (reversed(versions) if newest_first else versions)]
        assert {one.ref.length for marks in marked for one in marks.manifests} == {first.manifest_length, moved.length}


def test_what_an_attempt_that_fails_has_read_counts_for_the_versions_that_passed_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread has read a manifest, and fails at the next file; another has passed over that manifest meanwhile."""
    with swept_lake(tmp_path) as lake:
        table = lake.table("t", 2)
        location = table.metadata_location
        marking = ContentMarking(file_salt(lake.store))
        reading = lake.operations.storages.read
        [older] = path_of(location).parent.glob("00001-*.json")
        lists: list[str] = []
        passed: list[ContentMarks] = []

        def failing(file: str, bytes_max: int) -> bytes:
            lists.extend([file] if "/snap-" in file else [])
            if len(lists) == 2 and not passed:
                passed.append(ContentMarks(files=[], manifests=[]))
                passed.append(marking.mark_table(reader, f"file://{older}"))
                raise StoreUnavailable("the network is cut")
            return reading(file, bytes_max)

        reader = MetadataReader(lake.operations.storages, Mode.STRICT)
        with monkeypatch.context() as faulty:
            faulty.setattr(lake.operations.storages, "read", failing)
            with pytest.raises(StoreUnavailable):
                marking.mark_table(reader, location)
        assert len(passed) == 2 and not passed[1].manifests
        known = {one.ref.location for marks in (*passed, *marking.half_read()) for one in marks.manifests}
        listed = {one.manifest_path for one in table.snapshots()[0].manifests(table.io)}
        assert listed <= known


def test_a_lost_version_is_abandoned_by_name_and_the_root_is_swept_again(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        broken = lake.table("broken").metadata_location
        lake.put("broken", broken)
        orphan = lake.needed(lake.table("orphan").metadata_location)
        lake.sweep()
        path_of(broken).unlink()
        assert f"--accept-missing {broken}" in lake.sweep().roots[0].refusal and orphan <= lake.files()
        lake.sweep(accept_missing=[broken])
        assert not orphan & lake.files()


def test_an_existing_version_is_not_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with swept_lake(tmp_path) as lake:
        location = lake.table("t").metadata_location
        lake.put("t", location)
        needed = lake.needed(location)
        reading = lake.operations.storages.read

        def failing(file: str, bytes_max: int) -> bytes:
            if file == location:
                raise FileMissing(f"no {file}", location=file)
            return reading(file, bytes_max)

        monkeypatch.setattr(lake.operations.storages, "read", failing)
        with pytest.raises(MaintenanceRefused, match="is missing"):
            lake.sweep(accept_missing=[location])
        assert needed <= lake.files()


def test_a_version_that_was_never_read_refuses_every_root(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        location = lake.table("broken").metadata_location
        lake.put("broken", location)
        path_of(location).write_bytes(b"{}")
        with pytest.raises(MaintenanceRefused):
            lake.sweep()


def test_a_damaged_version_whose_files_reach_outside_of_all_roots_refuses_every_root(tmp_path: Path) -> None:
    with swept_lake(tmp_path, cached=True) as lake:
        location = lake.table("broken").metadata_location
        copied = tmp_path / "mount" / "v1.metadata.json"
        copied.parent.mkdir()
        copied.write_bytes(path_of(location).read_bytes())
        lake.put("broken", f"file://{copied}")
        lake.sweep()
        copied.unlink()
        with pytest.raises(MaintenanceRefused):
            lake.sweep()
