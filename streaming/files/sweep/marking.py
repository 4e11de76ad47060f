"""Expands contents into the files that they need.

Manifest lists and manifests are read once, however many versions, branches and tables share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from headwater.schemas.errors import Unsupported
from headwater.streaming.files.formats.delta_logs import delta_files
from headwater.streaming.files.formats.iceberg_tables import SeenContainers, table_files
from headwater.streaming.files.formats.iceberg_views import view_files
from headwater.streaming.files.formats.reading import Fault, MetadataReader, Mode
from headwater.streaming.files.kinds import FileRef
from headwater.streaming.files.operations import DELTA_TABLE, TABLE, VIEW
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.retained_contents import ContentFiles


class MarkCounts(msgspec.Struct, kw_only=True):
    contents: int = 0
    files: int = 0


class Marking:
    """The marking of one run."""

    def __init__(self, storages: Storages, mode: Mode, on_fault: Callable[[Fault], None] | None = None) -> None:
        self._reader = MetadataReader(storages, mode, on_fault)
        self._seen = SeenContainers()
        self.counts = MarkCounts()

    def files(self, contents: Iterable[ContentFiles]) -> Iterator[FileRef]:
        """A file may appear several times. ⚠ In strict mode the first fault raises: files that it hides would look unused."""
        for content in contents:
            self.counts.contents += 1
            with self._reader.attempt(content.location):
                for file in self._of(content):
                    self.counts.files += 1
                    yield file

    def forget(self) -> None:
        """⚠ After a fault: containers that were read may have files that nobody has recorded."""
        self._seen = SeenContainers()

    def _of(self, content: ContentFiles) -> Iterator[FileRef]:
        if content.location and content.kind == TABLE:
            return table_files(self._reader, content.location, self._seen)
        if content.location and content.kind == VIEW:
            return view_files(self._reader, content.location)
        if content.location and content.kind == DELTA_TABLE:
            return delta_files(self._reader, content.location)
        raise Unsupported(
            f"the files of a {content.type} at {content.location[:200]!r} cannot be named here.",
            field="type",
            remedy="Install the plug-in that knows this type, or keep its files elsewhere.",
        )
