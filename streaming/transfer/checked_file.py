"""Reads an exported file to its end and checks it, before anything is done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from headwater.schemas.errors import ExportDamaged, InvalidInput
from headwater.streaming.transfer.file_format import FrameReader, Section
from headwater.streaming.transfer.file_records import FileCounts, Header, Trailer


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    header: Header
    trailer: Trailer
    sha256: str
    """SHA-256 of the whole file."""
    bytes: int

    def frames(self) -> Iterator[tuple[Section, Sequence[Any]]]:
        """Reads and checks the file again: `ExportDamaged` at the end if it is no longer the file that was checked."""
        with _opened(self.path) as file:
            reader = FrameReader(file)
            yield from reader.frames()
            if reader.digest.hex() != self.sha256:
                raise ExportDamaged("the file was changed while it was read.", field="file", remedy="Repeat the import.")


def checked_file(path: Path, on_records: Callable[[int], None] = lambda _: None) -> CheckedFile:
    counted = dict.fromkeys(Section, 0)
    header: Header | None = None
    trailer: Trailer | None = None
    with _opened(path) as file:
        reader = FrameReader(file)
        for section, records in reader.frames():
            counted[section] += len(records)
            on_records(len(records))
            header = records[0] if section is Section.HEADER else header
            trailer = records[0] if section is Section.END else trailer
        read_bytes = file.tell()
    found = FileCounts(
        names=counted[Section.NAMES],
        objects=counted[Section.OBJECTS],
        mutable=counted[Section.MUTABLE],
        pointers=counted[Section.POINTERS],
    )
    if header is None or trailer is None or trailer.counts != found:
        raise ExportDamaged(
            "the file is damaged: it does not hold as many records as it says.", field="file", remedy="Export again."
        )
    return CheckedFile(path=path, header=header, trailer=trailer, sha256=reader.digest.hex(), bytes=read_bytes)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror or error}.", field="file", remedy="Name a file of `realm export`."
        ) from error
