"""The manifest cache forgets what is damaged or unused, and never answers for another file."""

from __future__ import annotations

import io
import secrets
from pathlib import Path

import fastavro
import pytest

from headwater.schemas.errors import FileMissing, MaintenanceRefused
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.formats.reading import MetadataReader, Mode
from headwater.streaming.files.marks import cache_proof, manifest_cache
from headwater.streaming.files.marks.cache_proof import PROVED_AT_LEAST, Hit
from headwater.streaming.files.marks.cache_ranges import decoded, encoded, source_of
from headwater.streaming.files.marks.content_marks import read_again
from headwater.streaming.files.marks.manifest_cache import SAME_BYTES, ManifestCache
from headwater.streaming.files.marks.manifest_marks import ManifestMarks, common_folder, mark_manifest, marks_of
from headwater.streaming.files.marks.reach import PLACES_MAX, Reach, touched
from headwater.streaming.files.stores.storages import Storages
from tests.support.faults.manual_clock import ManualClock

SALT = bytes(16)
DAY_SECONDS = 24 * 3_600
FIRST = ManifestRef("s3://lake/t/metadata/m0.avro", 100)


def marks(number: int) -> ManifestMarks:
    return marks_of([f"s3://lake/t/data/{number}.parquet"], SALT)


class Cached:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()

    def open(self, salt: bytes = SALT) -> ManifestCache:
        return ManifestCache(Storages(), str(self.folder), salt, self.clock)

    def keep(self, *refs: ManifestRef) -> None:
        cache = self.open()
        for number, ref in enumerate(refs):
            cache.put_manifest(ref, marks(number))
        cache.flush()

    def use(self, *refs: ManifestRef) -> None:
        cache = self.open()
        assert all(cache.manifest(ref) is not None for ref in refs)
        cache.flush()

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.parquet"))


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path)


def test_a_run_uses_the_cache_of_the_previous_one(cached: Cached) -> None:
    cached.keep(FIRST)
    cache = cached.open()
    assert cache.manifest(FIRST) == marks(0) and (cache.hits, cache.misses) == (1, 0)


@pytest.mark.parametrize(
    "other",
    [
        ManifestRef(FIRST.location, 101),
        ManifestRef(FIRST.location, None),
        ManifestRef("s3://other/t/metadata/m0.avro", 100),
        ManifestRef("s3://lake/t/metadata/M0.avro", 100),
    ],
)
def test_another_length_bucket_or_case_is_another_file(cached: Cached, other: ManifestRef) -> None:
    cached.keep(FIRST)
    assert cached.open().manifest(other) is None


def test_another_store_knows_nothing_of_it(cached: Cached) -> None:
    cached.keep(FIRST)
    assert cached.open(salt=b"x" * 16).manifest(FIRST) is None


@pytest.mark.parametrize("content", [b"", b"PAR1 damaged PAR1", secrets.token_bytes(5_000)])
def test_a_damaged_file_of_the_cache_counts_as_lost(cached: Cached, content: bytes) -> None:
    cached.keep(FIRST)
    [file] = cached.files()
    file.write_bytes(content)
    assert cached.open().manifest(FIRST) is None
    cached.keep(FIRST)
    assert cached.open().manifest(FIRST) == marks(0)


def test_an_entry_that_damage_has_moved_to_another_row_is_not_whole(cached: Cached) -> None:
    other = ManifestRef("s3://lake/t/metadata/m1.avro", 100)
    cached.keep(FIRST, other)
    [file] = cached.files()
    entries = decoded(file.read_bytes())
    file.write_bytes(encoded(dict(zip(entries, reversed(entries.values()), strict=True))))
    assert cached.open().manifest(FIRST) is None is cached.open().manifest(other)


def test_the_complete_one_of_two_entries_of_a_manifest_counts(cached: Cached) -> None:
    cached.keep(FIRST)
    [file] = cached.files()
    damaged = {key: entry._replace(payload=bytes(8)) for key, entry in decoded(file.read_bytes()).items()}
    for name in ("0" * 16, "f" * 16):
        file.with_name(f"{name}.parquet").write_bytes(encoded(damaged))
    assert cached.open().manifest(FIRST) == marks(0)


def test_a_run_whose_cache_was_wrong_once_is_refused_for_good(cached: Cached) -> None:
    cached.keep(FIRST)
    cache = cached.open()
    assert cache.manifest(FIRST)
    for _ in range(2):
        with pytest.raises(MaintenanceRefused):
            cache.prove(lambda _: marks(99))


def test_a_manifest_that_was_removed_is_not_a_difference(cached: Cached) -> None:
    cached.keep(FIRST)
    cache = cached.open()
    assert cache.manifest(FIRST)

    def gone(hit: Hit) -> object:
        raise FileMissing(hit.ref.location)

    assert cache.prove(gone) == 1


def test_cache_entries_unused_for_thirty_days_are_removed(cached: Cached) -> None:
    second = ManifestRef("s3://lake/t/metadata/m1.avro", 100)
    cached.keep(FIRST, second)
    for _ in range(4):
        cached.clock.move(10 * DAY_SECONDS)
        cached.use(FIRST)
    cache = cached.open()
    assert cache.manifest(FIRST) is not None and cache.manifest(second) is None
    assert len(cached.files()) == 1


def test_many_small_files_of_a_range_become_one(cached: Cached) -> None:
    refs = [ManifestRef(f"s3://lake/t/metadata/m{number}.avro", 100) for number in range(manifest_cache.FILES_MAX + 1)]
    for ref in refs[:-1]:
        cached.keep(ref)
    assert len(cached.files()) == manifest_cache.FILES_MAX
    cached.keep(refs[-1])
    assert len(cached.files()) == 1
    cached.use(*refs)


def test_memory_is_bounded_and_nothing_is_lost(cached: Cached, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_cache, "MEMORY_BYTES_MAX", 1)
    refs = [ManifestRef(f"s3://lake/t{number}/metadata/m.avro", 100) for number in range(20)]
    cached.keep(*refs)
    cached.use(*refs)


def test_a_cache_that_cannot_be_written_fails_no_run(cached: Cached) -> None:
    cached.folder.joinpath("files").write_text("in the way")
    cached.keep(FIRST)
    assert cached.open().manifest(FIRST) is None


def test_at_least_twenty_hits_are_read_again_and_one_difference_drops_the_cache(cached: Cached) -> None:
    refs = [ManifestRef(f"s3://lake/t/metadata/m{number}.avro", 100) for number in range(50)]
    cached.keep(*refs)
    cache = cached.open()
    known = {ref: cache.manifest(ref) for ref in refs}
    read: list[Hit] = []

    def read_again(hit: Hit) -> object:
        read.append(hit)
        return known[hit.ref]

    assert PROVED_AT_LEAST <= cache.prove(read_again) == len(read) <= 50
    for ref in refs[:1] * 200_000:
        if cache.manifest(ref) is None or cache._proof._sample:
            break
    with pytest.raises(MaintenanceRefused, match="says of"):
        cache.prove(lambda _: marks(99))
    assert not cached.files()
    assert cached.open().manifest(FIRST) is None


def a_warm_cache(cached: Cached, files: dict[str, list[str]]) -> tuple[ManifestCache, MetadataReader, dict[str, ManifestRef]]:
    """Manifests on disk, each with the bytes that its cached entry was made from."""
    refs, cache = {}, cached.open()
    for name, named in files.items():
        path = cached.folder / f"{name}-m0.avro"
        path.write_bytes(written_manifest(named))
        refs[name] = ManifestRef(str(path), path.stat().st_size)
        content = path.read_bytes()
        cache.put_manifest(refs[name], mark_manifest(str(path), content, SALT), source_of(content))
    cache.flush()
    return cached.open(), MetadataReader(Storages(), Mode.STRICT), refs


def test_large_manifests_of_the_sample_are_compared_by_their_bytes_and_few_are_decoded(
    cached: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_proof, "DECODED_FILES_MAX", 60)
    files = {f"{number}": [f"s3://lake/t/{number}-{file}.parquet" for file in range(20)] for number in range(9)}
    cache, reader, refs = a_warm_cache(cached, files)
    assert all(cache.manifest(ref) for ref in refs.values())
    answers = list[object]()

    def read(hit: Hit) -> object:
        answers.append(read_again(reader, hit, SALT))
        return answers[-1]

    assert cache.prove(read) == len(answers) == 9
    assert sum(answer is not SAME_BYTES for answer in answers) == 3


@pytest.mark.parametrize("decoded_files", [0, 5_000])
def test_a_manifest_of_other_bytes_and_the_same_length_is_noticed_whether_it_would_be_decoded_or_not(
    cached: Cached, monkeypatch: pytest.MonkeyPatch, decoded_files: int
) -> None:
    monkeypatch.setattr(cache_proof, "DECODED_FILES_MAX", decoded_files)
    cache, reader, refs = a_warm_cache(cached, {"m": ["s3://lake/t/1.parquet"]})
    assert cache.manifest(refs["m"])
    Path(refs["m"].location).write_bytes(written_manifest(["s3://lake/t/2.parquet"]))
    with pytest.raises(MaintenanceRefused, match="says of"):
        cache.prove(lambda hit: read_again(reader, hit, SALT))


def test_an_entry_that_was_decoded_wrongly_is_noticed_although_the_bytes_are_the_same(cached: Cached) -> None:
    _, reader, refs = a_warm_cache(cached, {"m": ["s3://lake/t/1.parquet"]})
    cache = cached.open()
    cache.put_manifest(refs["m"], marks(99), source_of(Path(refs["m"].location).read_bytes()))
    assert cache.manifest(refs["m"]) == marks(99)
    with pytest.raises(MaintenanceRefused, match="says of"):
        cache.prove(lambda hit: read_again(reader, hit, SALT))


def written_manifest(locations: list[str]) -> bytes:
    data_file = {
        "type": "record",
        "name": "r2",
        "fields": [{"name": "content", "type": "int"}, {"name": "file_path", "type": "string"}],
    }
    fields = [{"name": "status", "type": "int"}, {"name": "data_file", "type": data_file}]
    out = io.BytesIO()
    rows = [{"status": 1, "data_file": {"content": 0, "file_path": one}} for one in locations]
    schema = {"type": "record", "name": "manifest_entry", "fields": fields}
    fastavro.writer(out, schema, rows, sync_marker=bytes(16))
    return out.getvalue()


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["file/a/bc/", "file/a/bd/"], "file/a/"),
        (["s3://one/x/", "s3://two/x/"], ""),
        (["s3://one/x/", "s3://one/x/y/"], "s3://one/x/"),
        (["s3://one/x/", "s3://one/y/"], "s3://one/"),
        (["file/x/", "s3://one/x/"], ""),
        ([], ""),
    ],
)
def test_the_folder_of_all_files_is_the_deepest_one(places: list[str], expected: str) -> None:
    assert common_folder(places) == expected


def test_a_reach_of_many_folders_becomes_wider_and_never_narrower() -> None:
    reach = Reach()
    for number in range(PLACES_MAX + 5):
        reach.add_file(f"s3://lake/t/p={number}/a.parquet")
    reach.add_file("s3://other/x/a.parquet")
    assert len(reach.places) <= PLACES_MAX
    assert all(any(f"s3://lake/t/p={number}/".startswith(place) for place in reach.places) for number in range(PLACES_MAX + 5))
    assert any("s3://other/x/".startswith(place) for place in reach.places)


def test_the_roots_that_a_version_touches_are_all_around_and_inside_of_its_folders() -> None:
    roots = ["s3://a/lake/", "s3://a/lake/inner/", "s3://b/lake/"]
    assert touched(["s3://a/lake/t/"], roots) == {"s3://a/lake/"}
    assert touched(["s3://a/lake/"], roots) == {"s3://a/lake/", "s3://a/lake/inner/"}
    assert touched(["s3://a/lake/t/", "s3://c/mount/"], roots) is None
    assert touched([""], roots) is None
