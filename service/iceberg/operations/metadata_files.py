"""Writes table and view metadata as files, and reads it back, from the cache if it is there.

A metadata file never changes, so what was read or written once is kept as long as there is room, as JSON for answers and as
plain values for updates.
"""

from __future__ import annotations

import gzip
import re
import uuid
from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pydantic
from pyiceberg.exceptions import ValidationError

from headwater.schemas.errors import MalformedMetadata
from headwater.service.iceberg.metadata.new_table import whole
from headwater.service.iceberg.metadata.shapes import Plain
from headwater.service.iceberg.operations.metadata_cache import MetadataCache
from headwater.service.storage.files import Files, check_size, unpacked

if TYPE_CHECKING:
    from headwater.service.storage.locations import Warehouse

T = TypeVar("T")

CODEC = "write.metadata.compression-codec"

_VERSION = re.compile(r"(\d{1,9})-[^/]*metadata\.json(?:\.gz)?")


class MetadataFile:
    """One metadata file's content."""

    def __init__(self, location: str, json: bytes, table: Plain | None = None) -> None:
        self.location = location
        self.json = json
        self._made_of = table
        self._refs_json: bytes | None = None
        self.etag = blake2s(location.encode(), digest_size=12).hexdigest()

    @cached_property
    def plain(self) -> Plain:
        return self._made_of if self._made_of is not None else read_object(self.json, self.location)

    @cached_property
    def table(self) -> Plain:
        """Checked, with what old formats may leave out; not to be changed."""
        return self._made_of if self._made_of is not None else whole(self.plain, self.location)

    @property
    def known_refs_json(self) -> bytes | None:
        """What `refs_json` gave, so that an event loop need not make it."""
        return self._refs_json

    def refs_json(self) -> bytes:
        """Of all snapshots those that a branch or tag points to."""
        if self._refs_json is None:
            self._refs_json = self._with_refs_alone()
        return self._refs_json

    def _with_refs_alone(self) -> bytes:
        wanted = {ref.get("snapshot-id") for ref in self.plain.get("refs", {}).values()}
        wanted.add(self.plain.get("current-snapshot-id"))
        all_snapshots = self.plain.get("snapshots") or []
        snapshots = [one for one in all_snapshots if one.get("snapshot-id") in wanted]
        if len(snapshots) == len(all_snapshots):
            return self.json
        return msgspec.json.encode({**self.plain, "snapshots": snapshots})


class MetadataFiles:
    """Thread-safe. One for each warehouse."""

    def __init__(self, warehouse: Warehouse, files: Files, kept: MetadataCache[MetadataFile] | None = None) -> None:
        self.warehouse = warehouse
        self._files = files
        self._kept: MetadataCache[MetadataFile] = kept if kept is not None else MetadataCache()

    def kept(self, location: str) -> MetadataFile | None:
        """From memory alone, so an event loop may call it."""
        return self._kept.get((self.warehouse.root, location))

    def load(self, location: str) -> MetadataFile:
        """⚠ Checked here too: a commit through another door may have set any location."""
        kept = self.kept(location)
        if kept is not None:
            return kept
        spelled = self.warehouse.check(location, "metadata-location")
        file = MetadataFile(location, unpacked(location, self._files.read(spelled)))
        _check_is_metadata(file)
        return self._keep(file)

    def write(
        self,
        json: bytes,
        table_location: str,
        properties: Mapping[str, str],
        previous: str | None = None,
        table: Plain | None = None,
    ) -> MetadataFile:
        """A new file; its number follows that of the previous one."""
        folder = properties.get("write.metadata.path") or f"{table_location.rstrip('/')}/metadata"
        packed = properties.get(CODEC, "none").lower() == "gzip"
        name = f"{next_version(previous):05d}-{uuid.uuid4()}{'.gz' if packed else ''}.metadata.json"
        location = f"{self.warehouse.check(folder)}/{name}"
        check_size(location, len(json))
        self._files.write_new(location, gzip.compress(json, 1) if packed else json)
        if previous is not None:
            self._kept.supersede((self.warehouse.root, previous))
        return self._keep(MetadataFile(location, json, table))

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


def next_version(previous: str | None) -> int:
    match = None if previous is None else _VERSION.fullmatch(previous.rpartition("/")[2])
    return 0 if previous is None else int(match.group(1)) + 1 if match else 1


def read_object(json: bytes, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedMetadata(f"{what[:200]} is not JSON: {error}.", field="body") from None
    if not isinstance(found, dict):
        raise MalformedMetadata(f"{what[:200]} is not a JSON object.", field="body")
    return found


def well_formed(make: Callable[[], T], what: str) -> T:
    """What PyIceberg makes of input, its many ways to refuse turned into one."""
    try:
        return make()
    except pydantic.ValidationError as error:
        raise MalformedMetadata(f"{what[:200]}: {_first(error)}", field="body") from None
    except (ValidationError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
        raise MalformedMetadata(f"{what[:200]}: {str(error)[:500] or type(error).__name__}", field="body") from None


def _first(error: pydantic.ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}."[:500]
