"""The files that one version of an Iceberg view references: its metadata file. Older versions are contents of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headwater.schemas.errors import MalformedMetadata, Unsupported
from headwater.streaming.files.formats.reading import MetadataReader, json_of
from headwater.streaming.files.kinds import FileKind, FileRef

FORMAT_VERSIONS = (1,)


def view_files(reader: MetadataReader, location: str) -> Iterator[FileRef]:
    with reader.attempt(location) as attempt:
        _check_view(location, json_of(location, reader.read(location)))
    yield FileRef(location, FileKind.METADATA, complete=attempt.complete)


def _check_view(location: str, view: dict[str, Any]) -> None:
    if view.get("format-version") not in FORMAT_VERSIONS:
        raise Unsupported(
            f"{location[:200]} has view format version {view.get('format-version')!r}; known is 1.",
            field="format-version",
            remedy="Upgrade Headwater, or leave this view out.",
        )
    if "versions" not in view:
        raise MalformedMetadata(f"{location[:200]} is not a view's metadata: it has no versions.", field="metadata-location")
