"""Local files are listed, read and deleted without following a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.schemas.errors import FileMissing, LocationForbidden, RequestTooLarge, StoreUnavailable
from headwater.streaming.files.stores.local_files import LocalFiles


def write(path: Path, content: bytes = b"x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return f"file://{path}"


def listed(prefix: str) -> list[str]:
    return [file.location for page in LocalFiles().list(prefix) for file in page]


def test_all_files_below_a_folder_are_listed_and_no_neighbour(tmp_path: Path) -> None:
    inside = [write(tmp_path / "t1" / name) for name in ("a.parquet", "deep/er/b.parquet", "name with spaces % #.avro")]
    write(tmp_path / "t10" / "c.parquet")
    assert sorted(listed(f"file://{tmp_path}/t1/")) == sorted(inside)


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert listed(f"file://{tmp_path}/nothing/") == []


def test_links_are_neither_listed_nor_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "secret.parquet")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "t" / "file.parquet").symlink_to(tmp_path / "outside" / "secret.parquet")
    files = LocalFiles()
    assert listed(f"file://{tmp_path}/t/") == []
    with pytest.raises(StoreUnavailable):
        files.read(f"file://{tmp_path}/t/file.parquet", 10)
    through = f"file://{tmp_path}/t/folder/secret.parquet"
    for look in (
        lambda: files.head(f"file://{tmp_path}/t/file.parquet"),
        lambda: files.head(through),
        lambda: files.read(through, 10),
        lambda: files.delete([through]),
        lambda: listed(f"file://{tmp_path}/t/folder/"),
    ):
        with pytest.raises(LocationForbidden, match="symbolic link"):  # not "missing": the file may be there
            look()
    assert files.read(outside, 10) == b"x"


def test_a_folder_swapped_for_a_link_after_the_listing_does_not_lead_out(tmp_path: Path) -> None:
    write(tmp_path / "outside" / "a.parquet")
    inside = write(tmp_path / "t" / "folder" / "a.parquet")
    assert listed(f"file://{tmp_path}/t/") == [inside]
    (tmp_path / "t" / "folder").rename(tmp_path / "t" / "moved")
    (tmp_path / "t" / "folder").symlink_to(tmp_path / "outside")
    with pytest.raises(LocationForbidden, match="symbolic link"):
        LocalFiles().delete([inside])
    assert (tmp_path / "outside" / "a.parquet").exists()


def test_a_relative_segment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocationForbidden):
        LocalFiles().delete([f"file://{tmp_path}/t/../x"])


def test_age_counts_from_the_time_at_which_a_copy_arrived(tmp_path: Path) -> None:
    location = write(tmp_path / "copied.parquet")
    os.utime(tmp_path / "copied.parquet", (1, 1))
    found = LocalFiles().head(location)
    assert found is not None
    assert found.modified is not None
    assert found.modified > 1_700_000_000_000_000


def test_reads_are_bounded_and_a_missing_file_is_reported(tmp_path: Path) -> None:
    location = write(tmp_path / "large", b"x" * 100)
    with pytest.raises(RequestTooLarge):
        LocalFiles().read(location, 99)
    assert LocalFiles().read(location, 100) == b"x" * 100
    with pytest.raises(FileMissing):
        LocalFiles().read(f"file://{tmp_path}/nothing", 10)


def test_deletions_count_existing_files(tmp_path: Path) -> None:
    location = write(tmp_path / "a")
    deleted = LocalFiles().delete([location, f"file://{tmp_path}/b"])
    assert (deleted.purged, deleted.missing) == (1, 1)
    assert not (tmp_path / "a").exists()
