"""Writes and reads exported files; reading proves that no byte is missing or changed. Bounded memory.

    headwater-export 2\n      the first line: what this is, and its version
    frame …                   section (1 byte), length (4), CRC-32 of the body (4), body: zlib over msgpack records
    the last frame            the trailer: how many records of each kind, and SHA-256 of all bytes before this frame

Sections come in this order: H header (one), N names, O object rows, R mutable rows, P pointer rows, E trailer (one).
Numbers are big-endian. A frame holds about a megabyte of records, never half a record. Behind the trailer there is nothing.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec

from headwater.persistence.rows import ObjectRow
from headwater.schemas.errors import ExportDamaged, ExportVersionMismatch
from headwater.streaming.transfer.file_records import Header, MutableRecord, PointerRecord, Record, Trailer

MAGIC = b"headwater-export "
VERSION = 2
FRAME_BYTES = 1_000_000
"""A frame is closed when its records are this long."""
FRAME_BYTES_MAX = 16_000_000
"""None of our frames comes close; a frame that claims more is not ours and is not read into memory."""
FIRST_LINE_BYTES_MAX = 40
COMPRESSION = 1
"""Rows are small and have little in common: a higher level gains little."""

_FRAME = struct.Struct(">cII")


class Section(enum.Enum):
    HEADER = b"H"
    NAMES = b"N"
    OBJECTS = b"O"
    MUTABLE = b"R"
    POINTERS = b"P"
    END = b"E"


IN_ORDER = tuple(Section)
_TYPES: dict[Section, Any] = {
    Section.HEADER: Header,
    Section.NAMES: str,
    Section.OBJECTS: ObjectRow,
    Section.MUTABLE: MutableRecord,
    Section.POINTERS: PointerRecord,
    Section.END: Trailer,
}
_DECODERS = {section: msgspec.msgpack.Decoder(list[kind]) for section, kind in _TYPES.items()}  # type: ignore[valid-type]
_encode = msgspec.msgpack.Encoder().encode


class FrameWriter:
    """Adds records section by section; `position` and `digest` cover what was written so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._section = Section.HEADER
        self._records: list[Record | Header | Trailer] = []
        self._bytes = 0
        self._sha256 = hashlib.sha256()
        self.position = 0
        self._put(MAGIC + b"%d\n" % VERSION)

    @property
    def digest(self) -> bytes:
        return self._sha256.digest()

    def add(self, section: Section, record: Record | Header | Trailer) -> None:
        if section is not self._section:
            if IN_ORDER.index(section) < IN_ORDER.index(self._section):
                raise ValueError(f"{section} comes before {self._section}")
            self.flush()
            self._section = section
        self._records.append(record)
        self._bytes += len(record.payload) + 100 if isinstance(record, ObjectRow) else 200
        if self._bytes >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """End the frame: what was added so far is in the file."""
        if self._records:
            body = zlib.compress(_encode(self._records), COMPRESSION)
            self._put(_FRAME.pack(self._section.value, len(body), zlib.crc32(body)) + body)
            self._records, self._bytes = [], 0

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._sha256.update(data)
        self.position += len(data)


class FrameReader:
    """Reads a file from its beginning; if `frames` ends without an error, the file is complete."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._position = 0
        self._check_first_line()

    @property
    def digest(self) -> bytes:
        """Digest of what was read so far; at the end, of the whole file."""
        return self._sha256.digest()

    def frames(self) -> Iterator[tuple[Section, Sequence[Any]]]:
        """Records by frame, the header first and the trailer last."""
        expected, ended = 0, False
        while not ended:
            before = self.digest
            section, records = self._frame()
            place = IN_ORDER.index(section)
            if place < expected or (expected == 0) != (section is Section.HEADER):
                raise self._damaged("its parts are not in order")
            expected = max(place, 1)
            if section is Section.END:
                self._check_end(records, before)
                ended = True
            yield section, records

    def _frame(self) -> tuple[Section, Sequence[Any]]:
        name, length, checksum = _FRAME.unpack(self._take(_FRAME.size))
        if length > FRAME_BYTES_MAX or name not in {section.value for section in Section}:
            raise self._damaged("there is no frame where one must begin")
        body = self._take(length)
        if zlib.crc32(body) != checksum:
            raise self._damaged("a checksum does not fit")
        section = Section(name)
        try:
            inflating = zlib.decompressobj()
            plain = inflating.decompress(body, FRAME_BYTES_MAX)
            records = _DECODERS[section].decode(plain) if inflating.eof and not inflating.unused_data else None
        except (zlib.error, msgspec.DecodeError):
            records = None
        if not records or (section in (Section.HEADER, Section.END) and len(records) != 1):
            raise self._damaged("a frame holds something else than its section says")
        return section, records

    def _check_end(self, records: Sequence[Trailer], digest: bytes) -> None:
        if records[0].sha256 != digest:
            raise self._damaged("its SHA-256 is not the one that was written")
        if self._file.read(1):
            raise self._damaged("something follows its end")

    def _check_first_line(self) -> None:
        line = self._file.readline(FIRST_LINE_BYTES_MAX)
        version = line.removeprefix(MAGIC).strip()
        if not line.startswith(MAGIC) or not line.endswith(b"\n") or not version.isdigit():
            raise ExportDamaged(
                "this is not a file of `headwater realm export`.", field="file", remedy="Name a file that it has written."
            )
        if int(version) != VERSION:
            raise ExportVersionMismatch(
                f"the file is of format {int(version)}; this version reads {VERSION}.",
                field="file",
                remedy="Import it with the version that wrote it, or export it again with this one.",
                version=int(version),
            )
        self._seen(line)

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            self._position += len(data)
            raise self._damaged("it is cut off")
        self._seen(data)
        return data

    def _seen(self, data: bytes) -> None:
        self._sha256.update(data)
        self._position += len(data)

    def _damaged(self, why: str) -> ExportDamaged:
        return ExportDamaged(
            f"the file is damaged: {why}, at byte {self._position}.",
            field="file",
            remedy="Take another copy of it, or export again.",
            position=self._position,
        )
