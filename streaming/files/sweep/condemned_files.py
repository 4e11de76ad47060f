"""The list of files that a removal may delete, kept beside the claim of its root, and the lookups of commits in it.

⚠ The list is written before the intent that names it, and the intent holds its digest: a list that is missing, truncated or
from another run is an error, never an empty list.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import threading
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headwater.persistence.coordination.removal_intents import RemovalIntent
from headwater.persistence.log.log_entry import Content
from headwater.schemas.errors import Corruption, FileMissing, HeadwaterError
from headwater.streaming.files.fingerprints import fingerprint
from headwater.streaming.files.formats.iceberg_tables import SeenContainers, table_files, table_metadata
from headwater.streaming.files.formats.manifests import manifests_of
from headwater.streaming.files.formats.reading import MetadataReader, Mode, records_of
from headwater.streaming.files.kinds import OWN_FOLDER as OWN_FOLDER
from headwater.streaming.files.operations import TABLE
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.marking import Marking
from headwater.streaming.files.sweep.retained_contents import content_files, has_files
from headwater.streaming.reachability.id_set import IdSet

CLAIM_NAME = "root.json"
LIST_NAME = "condemned-"
SECOND_LOOK_NAME = "second-look-"
LIST_BYTES_MAX = 8 * 100_000_000
INDEX_SUFFIX = ".json"
LISTS_KEPT = 8


class StoredList(msgspec.Struct, frozen=True):
    location: str
    """Location of the fingerprints themselves, or of an index that names their parts."""
    digest: str


class ListPart(msgspec.Struct, frozen=True, array_like=True):
    """Fingerprints, sorted, eight bytes each; those of the next part are greater."""

    location: str
    digest: str


def write_condemned(storages: Storages, intent: RemovalIntent, condemned: IdSet) -> RemovalIntent:
    """Returns the intent with the place and digest of the list."""
    return with_list(intent, write_list(storages, condemned_stem(intent), condemned))


def condemned_stem(intent: RemovalIntent) -> str:
    return f"{intent.root}{OWN_FOLDER}{LIST_NAME}{intent.id}"


def stem_of(location: str) -> str:
    """The common prefix of the names of a list and of its parts."""
    return location.removesuffix(INDEX_SUFFIX).removesuffix(".bin") if location else "\0"


def with_list(intent: RemovalIntent, written: StoredList) -> RemovalIntent:
    return msgspec.structs.replace(intent, condemned_at=written.location, condemned_digest=written.digest)


def write_list(storages: Storages, stem: str, ids: IdSet) -> StoredList:
    part = write_part(storages, f"{stem}.bin", ids)
    return StoredList(part.location, part.digest)


def write_part(storages: Storages, location: str, ids: IdSet) -> ListPart:
    content = _little_endian(array("q", ids.packed())).tobytes()
    storages.of(location).write(location, content)
    return ListPart(location, hashlib.sha256(content).hexdigest())


def write_index(storages: Storages, stem: str, parts: Sequence[ListPart]) -> StoredList:
    """Writes the index of parts that were written by several machines."""
    content = msgspec.json.encode(list(parts))
    location = f"{stem}{INDEX_SUFFIX}"
    storages.of(location).write(location, content)
    return StoredList(location, hashlib.sha256(content).hexdigest())


def list_parts(storages: Storages, stored: StoredList) -> list[ListPart]:
    if not stored.location.endswith(INDEX_SUFFIX):
        return [ListPart(stored.location, stored.digest)]
    return msgspec.json.decode(_whole(storages, stored.location, stored.digest), type=list[ListPart])


def read_part(storages: Storages, part: ListPart) -> IdSet:
    ids = array("q")
    ids.frombytes(_whole(storages, part.location, part.digest))
    return IdSet(_little_endian(ids))


def read_list(storages: Storages, stored: StoredList) -> IdSet:
    ids = array("q")
    for part in list_parts(storages, stored):
        ids.frombytes(read_part(storages, part).packed())
    return IdSet(ids)


def drop_list(storages: Storages, stored: StoredList) -> None:
    """Deletes a list that is no longer needed; what cannot be deleted stays."""
    with contextlib.suppress(HeadwaterError):
        gone = {part.location for part in list_parts(storages, stored)} | {stored.location}
        storages.of(stored.location).delete(sorted(gone))


def _whole(storages: Storages, location: str, digest: str) -> bytes:
    content = storages.read(location, LIST_BYTES_MAX)
    if hashlib.sha256(content).hexdigest() != digest:
        raise Corruption(f"{location} is not the list that the store knows.", field="condemned_at")
    return content


class StoredCondemned:
    """One per process. Thread-safe."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages
        self._lists: dict[str, IdSet] = {}
        self._lock = threading.Lock()

    def first_condemned(
        self, intents: Sequence[RemovalIntent], type: str, after: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> str | None:
        lists = [(intent.salt, self._condemned(intent)) for intent in intents]

        def is_condemned(location: str) -> bool:
            return any(fingerprint(location, salt) in condemned for salt, condemned in lists)

        try:
            return next((file for file in self._new_files(type, after, before) if is_condemned(file)), None)
        except FileMissing as gone:  # deleted by now, perhaps
            missing = str(gone.facts.get("location", ""))
            if is_condemned(missing):
                return missing
            raise

    def _condemned(self, intent: RemovalIntent) -> IdSet:
        with self._lock:
            if intent.condemned_digest in self._lists:
                return self._lists[intent.condemned_digest]
        ids = read_list(self._storages, StoredList(intent.condemned_at, intent.condemned_digest))
        with self._lock:
            while len(self._lists) >= LISTS_KEPT:
                self._lists.pop(next(iter(self._lists)))
            return self._lists.setdefault(intent.condemned_digest, ids)

    def _new_files(self, type: str, after: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
        """All files that the content needs, except those of manifests that it shares with the branch's own version."""
        if not has_files(type, after):
            return []
        content = content_files(Content(b"", type, dict(after)))
        if content.kind != TABLE:
            return [file.location for file in Marking(self._storages, Mode.STRICT).files([content])]
        reader = MetadataReader(self._storages, Mode.STRICT)
        seen = _shared(reader, str((before or {}).get("metadata_location") or ""))
        return [file.location for file in table_files(reader, content.location, seen)]


def _shared(reader: MetadataReader, location: str) -> SeenContainers:
    """What the previous version names is in use already. If it cannot be read, everything is checked."""
    seen = SeenContainers()
    if not location:
        return seen
    try:
        table = table_metadata(reader, location)
        snapshots = records_of(location, table, "snapshots")
        lists = [str(one["manifest-list"]) for one in snapshots if "manifest-list" in one]
        current = [str(one["manifest-list"]) for one in snapshots if one.get("snapshot-id") == table.get("current-snapshot-id")]
        for named in current:
            seen.manifests.update(dict.fromkeys(manifests_of(named, reader.read(named)), True))
        seen.lists.update(dict.fromkeys(lists, True))
    except (HeadwaterError, KeyError):
        return SeenContainers()
    return seen


def _little_endian(ids: array[int]) -> array[int]:
    if sys.byteorder == "big":
        ids.byteswap()
    return ids
