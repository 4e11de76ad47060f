"""How the readers of metadata get bytes and treat faults.

⚠ Strict readers raise at the first fault: files named by metadata that they cannot read would look unused. Lenient readers
report the fault and continue with what they can read.
"""

from __future__ import annotations

import enum
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from headwater.schemas.errors import FileMissing, HeadwaterError, MalformedMetadata, RequestTooLarge
from headwater.streaming.files.kinds import FoundFile

METADATA_BYTES_MAX = 256 * 1024 * 1024
MANIFEST_BYTES_MAX = 1024 * 1024 * 1024


class Mode(enum.StrEnum):
    STRICT = "strict"
    LENIENT = "lenient"


class ReadsFiles(Protocol):
    def read(self, location: str, bytes_max: int) -> bytes:
        """Raises `FileMissing`, `RequestTooLarge` or `StoreUnavailable` if it cannot."""

    def list(self, prefix: str) -> Iterator[list[FoundFile]]:
        """All files below a folder, page by page."""


class Fault(msgspec.Struct, frozen=True):
    """A file that a lenient reader could not read."""

    location: str
    reason: str
    missing: bool = False


class Attempt:
    """Whether all files that it names are known. A file that is gone names nothing any more."""

    complete = True


class MetadataReader:
    """Reads metadata files in one of the two modes."""

    def __init__(self, files: ReadsFiles, mode: Mode, on_fault: Callable[[Fault], None] | None = None) -> None:
        self._files = files
        self._mode = mode
        self._on_fault = on_fault or (lambda _: None)

    def read(self, location: str, bytes_max: int = METADATA_BYTES_MAX) -> bytes:
        return self._files.read(location, bytes_max)

    def list(self, prefix: str) -> Iterator[FoundFile]:
        for page in self._files.list(prefix):
            yield from page

    @contextmanager
    def attempt(self, location: str) -> Iterator[Attempt]:
        """Wraps the reading of one file: in lenient mode a fault ends only that file."""
        attempt = Attempt()
        try:
            yield attempt
        except HeadwaterError as error:
            if self._mode is Mode.STRICT:
                raise
            attempt.complete = isinstance(error, FileMissing)
            self._on_fault(Fault(location, str(error), attempt.complete))


def json_of(location: str, content: bytes) -> dict[str, Any]:
    """A metadata file as a JSON object; compressed ones are recognised by their first bytes."""
    if content[:2] == b"\x1f\x8b":
        content = _decompress(location, content)
    try:
        value = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise MalformedMetadata(f"{location[:200]} is not JSON: {error}.", field="metadata-location") from None
    if not isinstance(value, dict):
        raise MalformedMetadata(f"{location[:200]} is not a JSON object.", field="metadata-location")
    return value


def text_of(location: str, record: dict[str, Any], name: str) -> str:
    """A location that metadata must contain."""
    value = record.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedMetadata(f"{location[:200]} has no {name}.", field=name)
    return value


def records_of(location: str, record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects that may be absent; ⚠ anything else there is a fault, not an empty list."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise MalformedMetadata(f"{name} in {location[:200]} is not a list of objects.", field=name)
    return value


def _decompress(location: str, content: bytes) -> bytes:
    """⚠ Bounded: a few compressed bytes may expand to any size."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            plain = packed.read(METADATA_BYTES_MAX + 1)
    except (OSError, EOFError) as error:
        raise MalformedMetadata(f"{location[:200]} is not a gzip file: {error}.", field="metadata-location") from None
    if len(plain) > METADATA_BYTES_MAX:
        raise RequestTooLarge(f"{location[:200]} expands to more than {METADATA_BYTES_MAX} bytes.", field="metadata-location")
    return plain
