"""Files on S3, against a moto process: found below whole folders, read with a bound, deleted in bulk with their tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headwater.producer.catalogs.catalogs import Catalogs
from headwater.schemas.errors import FileMissing, HeadwaterError, RequestTooLarge, StoreUnavailable, Unsupported
from headwater.streaming.files.filters import below, matching, modified_before, of_kind
from headwater.streaming.files.kinds import FileKind, FileRef
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.purging import PurgeSpec
from headwater.streaming.files.stores import remote_store
from headwater.streaming.files.stores.listing import split
from headwater.streaming.files.stores.storages import Storages
from tests.support.fixtures.iceberg_files import memory_catalog, table_with_history
from tests.support.fixtures.swept_lake import META, swept_lake
from tests.support.servers.moto_server import BUCKET, MotoServer, moto_server

ROOT = f"s3://{BUCKET}"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="module")
def operations(moto: MotoServer) -> FileOperations:
    return FileOperations(Storages(moto.options))


def put(moto: MotoServer, key: str, content: bytes = b"x") -> str:
    httpx.put(f"{moto.url}/{BUCKET}/{key}", content=content).raise_for_status()
    return f"{ROOT}/{key}"


def test_a_dropped_table_is_deleted_with_all_its_files_and_nothing_else(moto: MotoServer, operations: FileOperations) -> None:
    with memory_catalog(f"{ROOT}/warehouse", **moto.options) as catalog:
        kept = table_with_history(catalog, "kept")
        dropped = table_with_history(catalog, "dropped")
        before = {file.location for file in operations.find(kept.location())}
        whole = {file.location for file in operations.find(dropped.location())}
        stats = operations.purge(operations.identify(dropped.metadata_location), PurgeSpec(batches_per_second=0))
        assert (stats.purged, stats.requested, stats.failed) == (len(whole), len(whole), 0)
        assert list(operations.find(dropped.location())) == []
        assert {file.location for file in operations.find(kept.location())} == before
        assert kept.refresh().scan().to_arrow().num_rows > 0


def test_a_folder_is_not_mistaken_for_its_neighbour(moto: MotoServer, operations: FileOperations) -> None:
    inside = put(moto, "near/t1/a.parquet")
    put(moto, "near/t10/b.parquet")
    assert [file.location for file in operations.find(f"{ROOT}/near/t1")] == [inside]


def test_the_folders_directly_below_one_are_listed(moto: MotoServer) -> None:
    for key in ("tree/shop/orders/_delta_log/0.json", "tree/shop/items/a.parquet", "tree/readme.txt", "treetop/x/a.parquet"):
        put(moto, key)
    storages = Storages(moto.options)
    assert storages.folders(f"{ROOT}/tree") == ["shop"]
    assert storages.folders(f"{ROOT}/tree/shop") == ["items", "orders"]
    assert storages.folders(f"{ROOT}/tree/nothing") == []


def test_a_whole_bucket_is_a_folder_too(moto: MotoServer, operations: FileOperations) -> None:
    outside, inside = put(moto, "whole.parquet"), put(moto, "whole/deep/a.parquet")
    for bucket in (ROOT, f"{ROOT}/"):
        assert {outside, inside} <= {file.location for file in operations.find(bucket)}
        own = {file.location for file in operations.storages.of(bucket).files(bucket)}
        assert outside in own and inside not in own
        assert "whole" in operations.storages.folders(bucket)


def test_filters_select_the_found_entries(moto: MotoServer, operations: FileOperations) -> None:
    data, manifest = put(moto, "chosen/x/a.parquet"), put(moto, "chosen/y/b-m0.avro")
    put(moto, "chosen/y/readme.txt")
    prefix = f"{ROOT}/chosen"

    def found(chosen: object) -> list[str]:
        return [file.location for file in operations.find(prefix, chosen)]  # type: ignore[arg-type]

    assert found(of_kind(FileKind.DATA) | of_kind(FileKind.MANIFEST)) == [data, manifest]
    assert found(~of_kind(FileKind.DATA) & below(f"{prefix}/y") & ~matching("*.txt")) == [manifest]
    assert found(modified_before(1)) == []


def test_keys_with_odd_letters_are_found_read_and_deleted_as_they_are(moto: MotoServer, operations: FileOperations) -> None:
    location = put(moto, "odd/a%2520b%23c%3Fd.parquet")  # the key is `odd/a%20b#c?d.parquet`
    assert location != f"{ROOT}/odd/a%20b#c?d.parquet"
    [found] = operations.find(f"{ROOT}/odd")
    assert found.location == f"{ROOT}/odd/a%20b#c?d.parquet"
    assert operations.storages.read(found.location, 10) == b"x"
    assert operations.purge([FileRef(found.location, FileKind.DATA)]).purged == 1
    assert list(operations.find(f"{ROOT}/odd")) == []


def test_a_key_that_the_client_cannot_name_ends_the_listing_with_an_error(moto: MotoServer, operations: FileOperations) -> None:
    put(moto, "double/a.parquet")
    put(moto, "double//b.parquet")
    with pytest.raises((StoreUnavailable, Unsupported)):
        list(operations.find(f"{ROOT}/double"))


def pages_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "PAGE_FILES", 2)


def in_parallel(operations: FileOperations, folder: str) -> list[str]:
    return [file.location for page in operations.pages(folder, threads=4, shares=16) for file in page]


def test_folders_with_odd_letters_are_listed_in_parallel_as_in_one_listing(
    moto: MotoServer, operations: FileOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages_of_two(monkeypatch)
    odd = ("day=1", "a%2520b", "c%23d%3Fe", "f%20g", "%C3%A9", "day=10", "h+i%26j", "k%252Fl")
    located = {put(moto, f"parallel/{name}/t/{part}/{number}.parquet") for name in odd for part in "xy" for number in range(2)}
    put(moto, "parallel/own.parquet")
    put(moto, "parallel/day=1/own.parquet")
    listing = split(operations.storages.of(ROOT), f"{ROOT}/parallel/", 16)
    assert len(listing) > len(odd) and len({share.prefix for share in listing if share.is_deep}) > 1
    whole = [file.location for file in operations.find(f"{ROOT}/parallel")]
    assert sorted(in_parallel(operations, f"{ROOT}/parallel")) == sorted(whole) and len(whole) == len(located) + 2


@pytest.mark.parametrize("key", ["a//x.parquet", "b/deep//x.parquet", "/x.parquet"])
def test_a_key_that_the_client_cannot_name_ends_a_listing_in_parallel_too(
    moto: MotoServer, operations: FileOperations, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    pages_of_two(monkeypatch)
    folder = f"unnamed-{len(key)}"
    for name in "abcd":
        for number in range(4):
            put(moto, f"{folder}/{name}/deep/{number}.parquet")
    put(moto, f"{folder}/{key}")
    with pytest.raises((StoreUnavailable, Unsupported)):
        in_parallel(operations, f"{ROOT}/{folder}")


def test_reads_are_bounded_and_missing_files_are_a_distinct_error(moto: MotoServer, operations: FileOperations) -> None:
    location = put(moto, "bounded", b"x" * 100)
    with pytest.raises(RequestTooLarge):
        operations.storages.read(location, 99)
    with pytest.raises(FileMissing):
        operations.storages.read(f"{ROOT}/nothing", 99)
    assert operations.storages.of(location).head(f"{ROOT}/nothing") is None


def test_storage_that_does_not_answer_is_reported_and_nothing_is_deleted() -> None:
    away = FileOperations(
        Storages({"s3.endpoint": "http://127.0.0.1:1", "s3.region": "x", "s3.access-key-id": "a", "s3.secret-access-key": "b"})
    )
    with pytest.raises(StoreUnavailable):
        list(away.find(f"{ROOT}/x"))
    stats = away.purge([FileRef(f"{ROOT}/x", FileKind.DATA)])
    assert (stats.purged, stats.failed) == (0, 1)


def test_roots_at_the_same_place_of_two_buckets_are_claimed_and_swept_apart(moto: MotoServer, tmp_path: Path) -> None:
    httpx.put(f"{moto.url}/second").raise_for_status()
    with swept_lake(tmp_path, f"{ROOT}/warehouse2", moto.options) as lake:
        other = Catalogs(lake.store.kernel(lake.realm)).create("other", storage_root="s3://second/warehouse2", meta=META)
        lake.claim()
        kept = lake.table("kept").metadata_location
        lake.put("kept", kept)
        with memory_catalog(other.storage_root, **moto.options) as writer:
            theirs = table_with_history(writer, "theirs").metadata_location
        lake.put("theirs", theirs)
        lake.table("orphan")
        httpx.put(f"{moto.url}/second/warehouse2/orphan.parquet", content=b"x").raise_for_status()
        first, second = lake.sweep_twice().roots
        assert not first.refusal and not second.refusal, (first, second)
        assert lake.files() == lake.needed(kept)
        left = {file.location for file in lake.operations.find("s3://second/warehouse2") if "/_headwater/" not in file.location}
        assert left == lake.needed(theirs)


def test_storage_that_does_not_answer_and_a_missing_bucket_refuse_and_delete_nothing(moto: MotoServer, tmp_path: Path) -> None:
    with swept_lake(tmp_path, f"{ROOT}/warehouse3", moto.options) as lake:
        lake.table("orphan")
        before = lake.files()
        lake.sweep()
        lake.operations = FileOperations(Storages({**moto.options, "s3.endpoint": "http://127.0.0.1:9"}))
        [report] = lake.sweep().roots
        assert report.refusal
        lake.operations = FileOperations(Storages(moto.options))
        assert lake.files() == before
        lake.sweep()
        assert not lake.files()
    with pytest.raises(HeadwaterError):
        list(FileOperations(Storages(moto.options)).find("s3://nowhere/x"))
