"""The exported file: whatever is cut off, altered, appended or of another version is refused, in bounded memory."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest

from headwater.persistence.rows import ObjectRow
from headwater.schemas.errors import ExportDamaged, ExportNotWritten, ExportVersionMismatch, InvalidInput
from headwater.streaming.transfer.checked_file import checked_file
from headwater.streaming.transfer.file_format import FrameReader, FrameWriter, Section
from headwater.streaming.transfer.file_records import FileCounts, Header, MutableRecord, PointerRecord, Trailer
from headwater.streaming.transfer.new_file import destination, new_file


def written(objects: int = 3, *, counts: FileCounts | None = None) -> bytes:
    file = io.BytesIO()
    writer = FrameWriter(file)
    writer.add(Section.HEADER, Header("shop", "shop#1", False, 5, "memory"))
    writer.add(Section.NAMES, "main")
    for number in range(1, objects + 1):
        writer.add(Section.OBJECTS, ObjectRow(number, "content", 7, bytes([number % 256]) * 50))
    writer.add(Section.MUTABLE, MutableRecord("t", "k", 1, 1, 0, b"x"))
    writer.add(Section.POINTERS, PointerRecord("main", b"h" * 32, 1, 1, 0, 1, None, 3))
    writer.flush()
    told = counts or FileCounts(names=1, objects=objects, mutable=1, pointers=1)
    writer.add(Section.END, Trailer(told, objects, objects, writer.digest))
    writer.flush()
    assert writer.position == len(file.getvalue())
    return file.getvalue()


def checked(data: bytes, folder: Path) -> object:
    path = folder / "file.hwexport"
    path.write_bytes(data)
    return checked_file(path)


def test_an_export_is_read_in_frames_of_about_a_megabyte() -> None:
    frames = list(FrameReader(io.BytesIO(written(40_000))).frames())
    sections = [section for section, _ in frames]
    assert sections.count(Section.OBJECTS) > 3 and sections == sorted(sections, key=list(Section).index)
    ids = [row.id for section, rows in frames if section is Section.OBJECTS for row in rows]
    assert ids == list(range(1, 40_001))


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = written()
    checked(whole, tmp_path)
    for length in range(len(whole)):
        with pytest.raises(ExportDamaged):
            checked(whole[:length], tmp_path)


def test_a_file_with_any_byte_altered_is_refused(tmp_path: Path) -> None:
    whole = written()
    for place in range(len(whole)):
        for flip in (1, 0x20, 0xFF):
            altered = bytearray(whole)
            altered[place] ^= flip
            with pytest.raises((ExportDamaged, ExportVersionMismatch)):
                checked(bytes(altered), tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        written() + b"x",
        written() + written(),
        written(counts=FileCounts(names=1, objects=4, mutable=1, pointers=1)),
        b"",
        b"SQLite format 3\0" + b"\0" * 100,
        b"headwater-export \n",
        b"headwater-export 2",
        b"headwater-export 2\nE" + struct.pack(">II", 2**31, 0),
    ],
    ids=["appended", "twice", "counts", "empty", "a database", "no version", "first line", "a frame of 2 GB"],
)
def test_a_file_that_is_not_an_export_is_refused_as_such(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ExportDamaged) as refused:
        checked(data, tmp_path)
    assert refused.value.field == "file" and refused.value.remedy


def test_another_version_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExportVersionMismatch, match="format 3") as refused:
        checked(written().replace(b"headwater-export 2", b"headwater-export 3"), tmp_path)
    assert refused.value.facts["version"] == 3


def test_a_frame_that_would_unpack_to_a_giant_is_refused_before_it_does(tmp_path: Path) -> None:
    body = zlib.compress(b"\0" * 100_000_000, 1)
    data = b"headwater-export 2\n" + b"H" + struct.pack(">II", len(body), zlib.crc32(body)) + body
    tracemalloc.start()
    try:
        with pytest.raises(ExportDamaged):
            checked(data, tmp_path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 60_000_000


def test_a_file_that_changes_between_two_reads_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.hwexport"
    path.write_bytes(written(3))
    found = checked_file(path)
    path.write_bytes(written(2))
    with pytest.raises(ExportDamaged, match="changed"):
        list(found.frames())


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new.hwexport"
    with pytest.raises(KeyError), new_file(path) as file:
        file.write(b"half")
        assert not path.exists()
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with new_file(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole" and list(tmp_path.iterdir()) == [path]


def test_a_disk_error_is_reported_once_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ExportNotWritten, match="No space left"), new_file(tmp_path / "new") as file:
        with Path("/dev/full").open("wb") as full:  # the real error of a full disk
            full.write(b"x" * 100_000)
        file.write(b"never reached")
    assert list(tmp_path.iterdir()) == []


def test_the_target_of_a_file_is_checked_first(tmp_path: Path) -> None:
    assert destination(tmp_path, "shop", 0) == tmp_path / "shop-19700101T000000Z.hwexport"
    there = tmp_path / "there"
    there.touch()
    for bad in (there, tmp_path / "no" / "folder"):
        with pytest.raises(InvalidInput) as refused:
            destination(bad, "shop", 0)
        assert refused.value.field == "--to"
