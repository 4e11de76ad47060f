"""Writes table and view metadata as files, and reads it back, from the cache if it is there.

A metadata file never changes, so what was read or written once is kept as long as there is room, as JSON for answers and as
plain values for updates.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2s
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from headwater.schemas.errors import HeadwaterError, MalformedMetadata
from headwater.service.iceberg.metadata.file_names import FOLDER, keeps_together, new_file_location
from headwater.service.iceberg.metadata.new_table import whole
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.metadata.table_snapshots import removed_snapshots
from headwater.service.iceberg.metadata.view_shape import checked_view
from headwater.service.iceberg.operations.metadata_cache import MetadataCache
from headwater.service.storage.files import Files, check_size, no_file, unpacked

if TYPE_CHECKING:
    from headwater.service.storage.locations import Warehouse

CODEC = "write.metadata.compression-codec"
GC_ENABLED = "gc.enabled"
SEEN_SECONDS = 60.0
"""How long a remote file counts as there without a look."""


class MetadataView(msgspec.Struct, frozen=True):
    """How a client sees metadata; the file stays as it is."""

    refs_only: bool = False
    """Includes only snapshots that a branch or tag points to."""
    gc_refused: bool = False
    """With `gc.enabled=false`, so that engines delete no files that another branch may need."""

    @property
    def etag_suffix(self) -> str:
        return ("refs" if self.refs_only else "all") + ("-gc-refused" if self.gc_refused else "")


WHOLE = MetadataView()


class MetadataFile:
    """One metadata file's content."""

    def __init__(self, location: str, json: bytes, table: Plain | None = None) -> None:
        self.location = location
        self.json = json
        self._made_of = table
        self._views: dict[MetadataView, bytes] = {}
        self.seen_at = time.monotonic()
        """When its file was last known to be there."""
        self.etag = blake2s(location.encode(), digest_size=12).hexdigest()

    @cached_property
    def plain(self) -> Plain:
        return self._made_of if self._made_of is not None else read_object(self.json, self.location)

    @cached_property
    def table(self) -> Plain:
        """Checked, with what old formats may leave out; not to be changed."""
        return self._made_of if self._made_of is not None else whole(self.plain, self.location)

    @cached_property
    def view(self) -> Plain:
        """Checked; not to be changed."""
        return checked_view(self.plain, self.location)

    @property
    def is_view(self) -> bool:
        return "view-uuid" in self.plain

    @property
    def uuid(self) -> str:
        """UUID of the table or view: the content id that it has in a catalog."""
        return str(UUID(self.view["view-uuid"] if self.is_view else self.table["table-uuid"]))

    def etag_of(self, view: MetadataView) -> str:
        return f'"{self.etag}-{view.etag_suffix}"'

    def known_view(self, view: MetadataView) -> bytes | None:
        """What `view_json` gave, so that an event loop need not make it."""
        return self.json if view == WHOLE else self._views.get(view)

    def view_json(self, view: MetadataView) -> bytes:
        known = self.known_view(view)
        if known is None:
            known = self._views[view] = self._made_view(view)
        return known

    def _made_view(self, view: MetadataView) -> bytes:
        """⚠ All other parts are copied byte by byte: a client sees what the file says."""
        parts = msgspec.json.decode(self.json, type=dict[str, msgspec.Raw])
        if view.refs_only:
            parts["snapshots"] = msgspec.Raw(msgspec.json.encode(self._snapshots_with_refs()))
        if view.gc_refused:
            properties = {**(self.plain.get("properties") or {}), GC_ENABLED: "false"}
            parts["properties"] = msgspec.Raw(msgspec.json.encode(properties))
        return msgspec.json.encode(parts)

    def _snapshots_with_refs(self) -> list[Plain]:
        wanted = {ref.get("snapshot-id") for ref in self.plain.get("refs", {}).values()}
        wanted.add(self.plain.get("current-snapshot-id"))
        return [one for one in self.plain.get("snapshots") or () if one.get("snapshot-id") in wanted]


class MetadataFiles:
    """Thread-safe. One for each warehouse."""

    def __init__(self, warehouse: Warehouse, files: Files, kept: MetadataCache[MetadataFile] | None = None) -> None:
        self.warehouse = warehouse
        self._files = files
        self._kept: MetadataCache[MetadataFile] = kept if kept is not None else MetadataCache()

    @property
    def is_local(self) -> bool:
        return self._files.is_local

    def kept(self, location: str) -> MetadataFile | None:
        """From memory alone, so an event loop may call it."""
        return self._kept.get((self.warehouse.root, location))

    def kept_and_there(self, location: str) -> MetadataFile | None:
        """From memory, if the file is known to be there still: a table whose metadata is gone must say so.

        A local file is looked for each time, which an event loop can afford; a remote one now and then, in `load_if_there`.
        """
        kept = self.kept(location)
        if kept is None or (self._files.is_local and not self._files.exists(location)):
            return None
        return kept if self._files.is_local or kept.seen_at > time.monotonic() - SEEN_SECONDS else None

    def load_if_there(self, location: str) -> MetadataFile:
        """⚠ Not from memory alone: for answers to readers, who need the file itself next."""
        kept = self.kept(location)
        if kept is None:
            return self.load(location)
        if not self._files.exists(location):
            self._kept.forget((self.warehouse.root, location))
            raise no_file(location)
        kept.seen_at = time.monotonic()
        return kept

    def load(self, location: str) -> MetadataFile:
        """⚠ Checked here too: a commit through another API may have set any location."""
        kept = self.kept(location)
        if kept is not None:
            return kept
        spelled = self.warehouse.check(location, "metadata-location")
        file = MetadataFile(location, unpacked(location, self._files.read(spelled)))
        _check_is_metadata(file)
        return self._keep(file)

    def take_copy(self, location: str, json: bytes) -> MetadataFile:
        """What the store has kept of the file stands for it, for as long as a file that was seen does."""
        self.warehouse.check(location, "metadata-location")
        file = MetadataFile(location, json)
        _check_is_metadata(file)
        return self._keep(file)

    def load_for_commit(self, location: str, *, is_view: bool) -> MetadataFile:
        """The metadata of a table or view that enters the catalog by its location: by a put, a merge or a registration.

        ⚠ The same checks for every API: of its type, and all that it places lies in the warehouse.
        """
        file = self.load(self.warehouse.check(location, "metadata-location"))
        require_type(file, is_view=is_view)
        metadata = file.view if is_view else file.table
        self.warehouse.check(metadata["location"])
        self.warehouse.check_properties(metadata.get("properties") or {})
        return file

    def write(
        self,
        json: bytes,
        table_location: str,
        properties: Mapping[str, str],
        previous: str | None = None,
        table: Plain | None = None,
    ) -> MetadataFile:
        """A new file; its number follows that of the previous one."""
        folder = properties.get("write.metadata.path") or f"{table_location.rstrip('/')}{FOLDER}"
        packed = properties.get(CODEC, "none").lower() == "gzip"
        together = keeps_together(table_location, folder, properties)
        location = new_file_location(self.warehouse.check(folder), previous, packed=packed, kept_together=together)
        check_size(location, len(json))
        self._files.write_new(location, gzip.compress(json, 1) if packed else json)
        if previous is not None:
            self._kept.supersede((self.warehouse.root, previous))
        return self._keep(MetadataFile(location, json, table))

    def lost_snapshots(self, location: str, file: MetadataFile) -> list[int]:
        """Those of the metadata at a location that the file, which takes its place, does not have."""
        try:
            before = self.load(location).table
        except HeadwaterError:  # it is gone: no plan can read by it either
            return []
        return removed_snapshots(before, file.table)

    def remove(self, location: str) -> None:
        self._kept.forget((self.warehouse.root, location))
        self._files.remove(location)

    def _keep(self, file: MetadataFile) -> MetadataFile:
        return self._kept.keep((self.warehouse.root, file.location), file)


def _check_is_metadata(file: MetadataFile) -> None:
    """⚠ A commit may name any file of the warehouse; only metadata of a table or view is ever shown."""
    parts = file.plain.keys()
    if not ({"format-version", "location"} <= parts and ({"view-uuid", "versions"} <= parts or {"last-column-id"} <= parts)):
        raise MalformedMetadata(f"{file.location[:200]} is not metadata of a table or view.", field="metadata-location")
    _ = file.view if file.is_view else file.table  # parsed here, off the event loop, and known from then on


def require_type(file: MetadataFile, *, is_view: bool) -> MetadataFile:
    if file.is_view is not is_view:
        there, wanted = ("view", "table") if file.is_view else ("table", "view")
        raise MalformedMetadata(
            f"{file.location[:200]} is metadata of a {there}, not of a {wanted}.", field="metadata-location"
        )
    return file


def read_object(json: bytes, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMetadata(f"{what[:200]} is not JSON: {error}.", field="body") from None
    if not isinstance(found, dict):
        raise MalformedMetadata(f"{what[:200]} is not a JSON object.", field="body")
    return found
