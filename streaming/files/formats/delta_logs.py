"""The files that a Delta table references: data, change data and deletion vectors of its whole log, then the log itself.

Removed files count as well: older versions of the table read them until VACUUM takes them.
"""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from headwater.schemas.errors import FileMissing, MalformedMetadata, Unsupported
from headwater.schemas.extras import needs_extra
from headwater.streaming.files.formats.reading import MetadataReader
from headwater.streaming.files.kinds import FileKind, FileRef

READER_VERSION_MAX = 3
READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)
"""Table features that add no way of naming a file beyond what is read here."""
_COMMIT = re.compile(r"\d{20}(\.\d{20}\.compacted)?\.json")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_LETTERS = 20
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/|/")


def delta_files(reader: MetadataReader, location: str) -> Iterator[FileRef]:
    root = location.rstrip("/")
    log = [file for file in reader.list(f"{root}/_delta_log/") if file.size > 0]
    if not any(_COMMIT.fullmatch(_name(file.location)) or ".checkpoint" in _name(file.location) for file in log):
        raise FileMissing(f"{root[:200]} has no Delta log.", field="location", location=root[:1_000])
    for file in log:
        with reader.attempt(file.location) as attempt:
            yield from _named_files(root, file.location, _actions(reader, file.location))
        kind = FileKind.DELTA_CHECKPOINT if ".checkpoint" in _name(file.location) else FileKind.DELTA_LOG
        yield FileRef(file.location, kind, file.size, complete=attempt.complete)


def _name(location: str) -> str:
    return location.rpartition("/")[2]


def _actions(reader: MetadataReader, location: str) -> Iterator[dict[str, Any]]:
    """The actions of one file of the log; files without actions, such as checksums, yield none."""
    name = _name(location)
    is_checkpoint = ".checkpoint" in name
    if _COMMIT.fullmatch(name) or (is_checkpoint and name.endswith(".json")):
        yield from json_actions(location, reader.read(location))
    elif is_checkpoint or "/_sidecars/" in location:
        yield from parquet_actions(location, reader.read(location))


def json_actions(location: str, content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.splitlines():
        if not line.strip():
            continue
        try:
            action = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise MalformedMetadata(f"{location[:200]} is damaged: {error}.", field="location") from None
        if not isinstance(action, dict):
            raise MalformedMetadata(f"{location[:200]} holds a line that is not an action.", field="location")
        yield action


def parquet_actions(
    location: str, content: bytes, kinds: Collection[str] = ("add", "remove", "protocol")
) -> Iterator[dict[str, Any]]:
    """Only actions of these kinds: the others are not decoded."""
    with needs_extra("Reading Delta checkpoints", "files"):
        import pyarrow.parquet as parquet
    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        wanted = [name for name in kinds if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=wanted):
            yield from batch.to_pylist()
    except Exception as error:  # whatever error a decoder raises on damaged bytes
        raise MalformedMetadata(f"{location[:200]} is damaged: {error}.", field="location") from None


def _named_files(root: str, referrer: str, actions: Iterator[dict[str, Any]]) -> Iterator[FileRef]:
    for action in actions:
        check_protocol(referrer, action.get("protocol"))
        for name in ("add", "remove", "cdc"):
            file = action.get(name)
            if file is None:
                continue
            if not isinstance(file, dict) or not isinstance(file.get("path"), str):
                raise MalformedMetadata(f"an action {name} in {referrer[:200]} names no path.", field="location")
            yield FileRef(resolved_path(root, file["path"]), FileKind.DATA, file.get("size"), referrer)
            vector = vector_location(root, referrer, file.get("deletionVector"))
            if vector is not None:
                yield FileRef(vector, FileKind.DELETION_VECTOR, None, referrer)


def check_protocol(referrer: str, protocol: dict[str, Any] | None) -> None:
    if protocol is None:
        return
    unknown = set(protocol.get("readerFeatures") or ()) - READER_FEATURES
    if (protocol.get("minReaderVersion") or 1) > READER_VERSION_MAX or unknown:
        raise Unsupported(
            f"{referrer[:200]} needs reader version {protocol.get('minReaderVersion')} and {sorted(unknown)}.",
            field="protocol",
            remedy="Upgrade Headwater, or leave this table out.",
        )


def resolved_path(root: str, path: str) -> str:
    """Paths are percent-encoded, relative to the table or absolute."""
    plain = unquote(path)
    return plain if _ABSOLUTE.match(plain) else f"{root}/{plain}"


def vector_location(root: str, referrer: str, vector: dict[str, Any] | None) -> str | None:
    if not vector:
        return None
    storage, text = vector.get("storageType"), str(vector.get("pathOrInlineDv", ""))
    if storage == "i":
        return None
    if storage == "p":
        return resolved_path(root, text)
    if storage != "u" or len(text) < _UUID_LETTERS:
        raise Unsupported(f"{referrer[:200]} has a deletion vector of storage type {storage!r}.", field="deletionVector")
    folder, letters = text[:-_UUID_LETTERS], text[-_UUID_LETTERS:]
    name = f"deletion_vector_{_z85_uuid(referrer, letters)}.bin"
    return f"{root}/{folder}/{name}" if folder else f"{root}/{name}"


def _z85_uuid(referrer: str, letters: str) -> uuid.UUID:
    """Base 85 in the alphabet of ZeroMQ: five letters are four bytes."""
    content = bytearray()
    for first in range(0, _UUID_LETTERS, 5):
        number = 0
        for letter in letters[first : first + 5]:
            digit = _Z85.find(letter)
            if digit < 0:
                raise MalformedMetadata(f"{referrer[:200]} names a deletion vector by {letters!r}.", field="deletionVector")
            number = number * 85 + digit
        if number >= 2**32:
            raise MalformedMetadata(f"{referrer[:200]} names a deletion vector by {letters!r}.", field="deletionVector")
        content += number.to_bytes(4)
    return uuid.UUID(bytes=bytes(content))
