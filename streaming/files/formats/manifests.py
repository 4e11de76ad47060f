"""Iceberg's manifest lists and manifests: which manifests a snapshot has, and which files a manifest names.

Only the columns that name files are decoded; metrics are skipped. ⚠ Entries of every status count. A DELETED entry frees its
file only when the deleting snapshot goes, and incremental scans read it until then.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from headwater.schemas.errors import MalformedMetadata, Unsupported
from headwater.schemas.extras import needs_extra
from headwater.streaming.files.kinds import FileKind, FileRef

_LIST_FIELDS = {"manifest_path": {"string"}, "manifest_length": {"long", "int"}, "content": {"int"}}
_FILE_FIELDS = {
    "content": {"int"},
    "file_path": {"string"},
    "file_format": {"string"},
    "file_size_in_bytes": {"long", "int"},
}
_LOCATION_FIELDS = ("content", "file_path")
_STATUSES = frozenset({0, 1, 2})
_CONTENTS = frozenset({0, 1, 2})


class ManifestRef(msgspec.Struct, frozen=True):
    """A manifest as a manifest list names it."""

    location: str
    length: int | None


def manifests_of(location: str, content: bytes) -> list[ManifestRef]:
    """The manifests of a manifest list, for both data and deletes."""
    schema = _schema(location, content)
    fields = _fields(location, schema)
    if "manifest_path" not in fields:
        raise MalformedMetadata(f"{location[:200]} is not a manifest list.", field="manifest-list")
    _check_types(location, fields, _LIST_FIELDS)
    wanted = [*_LIST_FIELDS, "key_metadata"]
    projection = {**schema, "fields": [fields[name] for name in wanted if name in fields]}
    return [_manifest_ref(location, record) for record in _records(location, content, projection)]


def files_of(location: str, content: bytes) -> Iterator[FileRef]:
    """The data and delete files of a manifest."""
    for file in _data_files(location, content, _FILE_FIELDS):
        yield _file_ref(location, file)


def locations_of(location: str, content: bytes) -> Iterator[str]:
    """Only their locations, which takes less decoding."""
    for file in _data_files(location, content, _LOCATION_FIELDS):
        if (file.get("content") or 0) not in _CONTENTS:
            raise _unknown_content(location, file)
        yield file["file_path"]


def _data_files(location: str, content: bytes, wanted: Collection[str]) -> Iterator[dict[str, Any]]:
    schema = _schema(location, content)
    fields = _fields(location, schema)
    if "status" not in fields or "data_file" not in fields:
        raise MalformedMetadata(f"{location[:200]} is not a manifest.", field="manifest")
    data_file = _record_type(fields["data_file"]["type"])
    file_fields = _fields(location, data_file)
    if "file_path" not in file_fields:
        raise MalformedMetadata(f"{location[:200]} names no files.", field="manifest")
    _check_types(location, file_fields, _FILE_FIELDS)
    kept = {**data_file, "fields": [file_fields[name] for name in wanted if name in file_fields]}
    projection = {**schema, "fields": [fields["status"], {**fields["data_file"], "type": kept}]}
    for record in _records(location, content, projection):
        if record["status"] not in _STATUSES:
            raise Unsupported(f"{location[:200]} has an entry of status {record['status']}.", field="manifest")
        yield record["data_file"]


def _manifest_ref(location: str, record: dict[str, Any]) -> ManifestRef:
    if record.get("key_metadata"):
        raise Unsupported(f"{record['manifest_path'][:200]} is encrypted.", field="manifest-list")
    if record.get("content", 0) not in (0, 1):
        raise Unsupported(f"{location[:200]} lists a manifest of content {record['content']}.", field="manifest-list")
    return ManifestRef(record["manifest_path"], record.get("manifest_length"))


def _file_ref(location: str, file: dict[str, Any]) -> FileRef:
    return FileRef(file["file_path"], _kind(location, file), file.get("file_size_in_bytes"), location)


def _kind(location: str, file: dict[str, Any]) -> FileKind:
    content = file.get("content") or 0
    if content == 1:
        is_vector = str(file.get("file_format", "")).lower() == "puffin"
        return FileKind.DELETION_VECTOR if is_vector else FileKind.POSITION_DELETES
    if content == 2:
        return FileKind.EQUALITY_DELETES
    if content != 0:
        raise _unknown_content(location, file)
    return FileKind.DATA


def _unknown_content(location: str, file: dict[str, Any]) -> Unsupported:
    return Unsupported(f"{location[:200]} has a file of content {file['content']}.", field="manifest")


# ── Avro ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _schema(location: str, content: bytes) -> dict[str, Any]:
    with needs_extra("Reading manifests", "files"):
        import fastavro
    try:
        schema = fastavro.reader(io.BytesIO(content)).writer_schema
    except Exception as error:  # whatever error a decoder raises on damaged bytes
        raise MalformedMetadata(f"{location[:200]} is not an Avro file: {error}.", field="manifest") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise MalformedMetadata(f"{location[:200]} holds no records.", field="manifest")
    return schema


def _records(location: str, content: bytes, projection: dict[str, Any]) -> Iterator[dict[str, Any]]:
    import fastavro

    try:
        yield from fastavro.reader(io.BytesIO(content), reader_schema=projection)  # type: ignore[misc]
    except Exception as error:
        raise MalformedMetadata(f"{location[:200]} is damaged: {error}.", field="manifest") from None


def _fields(location: str, record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    fields = record.get("fields")
    if not isinstance(fields, list):
        raise MalformedMetadata(f"{location[:200]} has a record without fields.", field="manifest")
    return {field["name"]: field for field in fields}


def _record_type(declared: Any) -> dict[str, Any]:
    options = declared if isinstance(declared, list) else [declared]
    return next((one for one in options if isinstance(one, dict) and one.get("type") == "record"), {})


def _check_types(location: str, fields: dict[str, dict[str, Any]], expected: dict[str, set[str]]) -> None:
    """⚠ A field of another type is not read as if it were the expected one."""
    for name, types in expected.items():
        if name in fields and not _plain_types(fields[name]["type"]) <= types | {"null"}:
            raise Unsupported(f"{name} in {location[:200]} has the type {fields[name]['type']}.", field="manifest")


def _plain_types(declared: Any) -> set[str]:
    options = declared if isinstance(declared, list) else [declared]
    return {one.get("type", "") if isinstance(one, dict) else one for one in options}
