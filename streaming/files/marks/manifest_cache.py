"""Remembers between runs which files a manifest names: manifests never change, and decoding them is most of the marking.

Entries are packed into Parquet, in 256 ranges by the folder of the file, below `maintenance_dir/files/manifests`. A range is
rewritten when a fifth of it is no longer used; entries that no run has used for thirty days are dropped.

⚠ A hit needs the same location, spelled the same way, and the same length. Each run re-reads 1 in 1,000 of its hits and at
least twenty, and all hits for which a listing shows a different time, size or tag than before: one difference drops the whole
cache and refuses the run. Losing the cache costs time, never files.
"""

from __future__ import annotations

import random
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from headwater.persistence.clock import MICROS, Clock
from headwater.schemas.errors import FileMissing, HeadwaterError, MaintenanceRefused
from headwater.streaming.files.formats.manifests import ManifestRef
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.marks.cache_proof import CacheProof, CacheSafeguards, Hit
from headwater.streaming.files.marks.cache_ranges import (
    RANGE_BYTES_MAX,
    Entry,
    decoded,
    digest_of,
    encoded,
    entry_of,
    key_of,
    merged,
)
from headwater.streaming.files.marks.manifest_marks import ManifestMarks
from headwater.streaming.files.stores.storages import Storages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEPT_DAYS = 30
TOUCHED_DAYS = 7
"""How stale the recorded last use of an entry may be."""
UNUSED_SHARE_MAX = 0.2
FILES_MAX = 8
"""Files per range before they are merged into one."""
PAYLOAD_BYTES_PER_FILE = 16
SAME_BYTES = object()
"""What a container says that has the bytes from which the cache knows it."""
MEMORY_BYTES_MAX = 128 * 1024 * 1024
_DAY_MICROS = 24 * 3_600 * MICROS
_MANIFEST, _LIST, _REACH = "manifest", "list", "reach"
_Value = TypeVar("_Value")


class KeptReach(msgspec.Struct, frozen=True):
    places: tuple[str, ...]
    """The folders of all files that a version of a table needed when it was last read completely."""
    metadata: bytes = b""
    """The digest of its metadata file at that time."""


class _Range:
    def __init__(self, entries: dict[bytes, Entry], files: list[str], rows: int) -> None:
        self.entries = entries
        self.files = files
        self.rows = rows
        """In all files: entries that occur twice count twice."""
        self.fresh: dict[bytes, Entry] = {}
        self.used: set[bytes] = set()
        self.bytes = sum(len(one.payload) for one in entries.values())


class ManifestCache:
    """Thread-safe. Several processes may use one folder at a time."""

    def __init__(
        self,
        storages: Storages,
        folder: str,
        salt: bytes,
        clock: Clock,
        *,
        safeguards: CacheSafeguards | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._storages = storages
        self._folder = f"{folder.rstrip('/')}/files/manifests/"
        self._salt = salt
        self._clock = clock
        self._safeguards = safeguards or CacheSafeguards()
        self._lock = threading.RLock()
        self._ranges: OrderedDict[int, _Range] = OrderedDict()
        chance = chance or random.Random()  # noqa: S311 - chooses what is read again
        self._proof = CacheProof(salt, self._safeguards, chance)
        self._refusal: MaintenanceRefused | None = None
        self.hits = 0
        self.misses = 0

    # ── entries ─────────────────────────────────────────────────────────────────────────────────────────────

    def manifest(self, ref: ManifestRef) -> ManifestMarks | None:
        if ref.length is None and self._safeguards.length:  # ⚠ otherwise nothing would show that it is another file
            return None
        return self._get(self._key(_MANIFEST, ref), Hit(ref, False), ManifestMarks)

    def put_manifest(self, ref: ManifestRef, marks: ManifestMarks, source: bytes = b"") -> None:
        """`source` is the digest of the bytes that the marks were made from."""
        if ref.length is not None or not self._safeguards.length:
            self._put(self._key(_MANIFEST, ref), marks, Hit(ref, False, source=source))

    def manifest_list(self, location: str) -> list[ManifestRef] | None:
        ref = ManifestRef(location, None)
        return self._get(self._key(_LIST, ref), Hit(ref, True), list[ManifestRef])

    def put_list(self, location: str, manifests: list[ManifestRef], source: bytes = b"") -> None:
        ref = ManifestRef(location, None)
        self._put(self._key(_LIST, ref), manifests, Hit(ref, True, source=source))

    def reach(self, metadata_location: str) -> KeptReach | None:
        """None for a version that was never read completely."""
        return self._get(self._key(_REACH, ManifestRef(metadata_location, None)), None, KeptReach)

    def put_reach(self, metadata_location: str, reach: KeptReach) -> None:
        self._put(self._key(_REACH, ManifestRef(metadata_location, None)), reach, None)

    def _key(self, kind: str, ref: ManifestRef) -> bytes:
        return key_of(kind, ref.location, ref.length if self._safeguards.length else None, self._salt)

    def _get(self, key: bytes, hit: Hit | None, type: type[_Value]) -> _Value | None:
        with self._lock:
            held = self._range(key[0])
            entry = held.fresh.get(key) or held.entries.get(key)
            value = self._value(key, entry, type)
            if entry is None or value is None:
                self.misses += hit is not None
                held.entries.pop(key, None)
                return None
            held.used.add(key)
            if hit is not None:
                self.hits += 1
                hit = msgspec.structs.replace(
                    hit,
                    key=key,
                    digest=digest_of(key, entry.payload),
                    stamp=entry.stamp,
                    is_fresh=key in held.fresh,
                    source=entry.source,
                    files=len(entry.payload) // PAYLOAD_BYTES_PER_FILE,
                    is_decoded=False,
                )
                self._proof.name(hit)
                self._proof.draw(hit)
            return value

    def _value(self, key: bytes, entry: Entry | None, type: type[_Value]) -> _Value | None:
        if entry is None or (self._safeguards.digest and not entry.is_whole(key)):
            return None
        try:
            return msgspec.msgpack.decode(entry.payload, type=type)
        except msgspec.DecodeError:
            return None

    def _put(self, key: bytes, value: object, hit: Hit | None) -> None:
        source = b"" if hit is None else hit.source
        entry = entry_of(key, msgspec.msgpack.encode(value), self._today(), source=source)
        with self._lock:
            held = self._range(key[0])
            known = held.entries.get(key)
            if known is None or known.payload != entry.payload:
                held.fresh[key] = entry
                held.bytes += len(entry.payload)
            held.used.add(key)
            if hit is not None:
                self._proof.name(msgspec.structs.replace(hit, key=key, digest=entry.digest, is_fresh=True))

    # ── proof ───────────────────────────────────────────────────────────────────────────────────────────────

    def listed(self, files: Sequence[FoundFile], ids: NDArray[np.int64], before: int) -> None:
        """Takes files that a listing shows, with their fingerprints. ⚠ `prove` reads a container again that was rewritten since
        its content was cached. `before` is when the run began to read, by the clock of the storage."""
        with self._lock:
            for at in self._proof.named(ids):
                for hit, stamp in self._proof.listed(files[at], int(ids[at]), before):
                    self._stamp(hit.key, stamp)

    def prove(self, read_again: Callable[[Hit], object]) -> int:
        """⚠ Call it before anything is deleted. `read_again` returns what the file says now or `SAME_BYTES`, or raises. Returns
        how many were read. A run whose cache failed the proof once is refused for good: its marks may be incomplete."""
        with self._lock:
            taken = self._proof.take()
        for hit, stamp in taken if self._refusal is None else ():
            self._refusal = _refusal(hit, read_again)
            if self._refusal is not None:
                self.drop()
                break
            self._stamp(hit.key, stamp)
        if self._refusal is not None:
            raise self._refusal
        return len(taken)

    def _stamp(self, key: bytes, stamp: bytes) -> None:
        with self._lock:
            held = self._range(key[0]) if stamp else None
            entry = None if held is None else held.fresh.get(key) or held.entries.get(key)
            if held is not None and entry is not None and entry.stamp != stamp:
                held.fresh[key] = entry._replace(stamp=stamp)

    # ── ranges ──────────────────────────────────────────────────────────────────────────────────────────────

    def _range(self, number: int) -> _Range:
        if number in self._ranges:
            self._ranges.move_to_end(number)
            return self._ranges[number]
        while self._ranges and sum(one.bytes for one in self._ranges.values()) > MEMORY_BYTES_MAX:
            oldest, held = self._ranges.popitem(last=False)
            self._write(oldest, held)
        self._ranges[number] = self._load(number)
        return self._ranges[number]

    def _load(self, number: int) -> _Range:
        files: list[str] = []
        tables: list[dict[bytes, Entry]] = []
        try:
            for page in self._storages.list(self._folder_of(number)):
                files += [file.location for file in page if file.location.endswith(".parquet")]
        except HeadwaterError:
            files = []
        for file in files:
            try:
                tables.append(decoded(self._storages.read(file, RANGE_BYTES_MAX)))
            except HeadwaterError:  # another process has merged them into one file
                tables.append({})
        return _Range(merged(tables), files, sum(len(one) for one in tables))

    def flush(self) -> None:
        """Stores new entries. ⚠ A cache that cannot be written costs time, but fails no run."""
        with self._lock:
            for number, held in self._ranges.items():
                self._write(number, held)
            self._ranges.clear()

    def _write(self, number: int, held: _Range) -> None:
        today = self._today()
        entries = {**held.entries, **held.fresh}
        stale = {key for key in held.used if key in entries and entries[key].used_day < today - TOUCHED_DAYS}
        entries.update((key, entries[key]._replace(used_day=today)) for key in stale)
        kept = {key: one for key, one in entries.items() if one.used_day >= today - KEPT_DAYS}
        rows = held.rows + len(held.fresh)
        is_worn = rows and 1 - len(kept) / rows > UNUSED_SHARE_MAX
        try:
            if stale or is_worn or len(held.files) >= FILES_MAX:
                self._put_file(number, kept)
                if held.files:
                    self._storages.of(held.files[0]).delete(held.files)
            else:
                self._put_file(number, held.fresh)
        except HeadwaterError:
            return

    def _put_file(self, number: int, entries: dict[bytes, Entry]) -> None:
        if entries:
            location = f"{self._folder_of(number)}{secrets.token_hex(8)}.parquet"
            self._storages.of(location).write(location, encoded(entries))

    def drop(self) -> None:
        with self._lock:
            self._ranges.clear()
            try:
                files = [file.location for page in self._storages.list(self._folder) for file in page]
                for at in range(0, len(files), 100):
                    self._storages.of(self._folder).delete(files[at : at + 100])
            except HeadwaterError as error:
                raise MaintenanceRefused(
                    f"the manifest cache at {self._folder} is wrong and cannot be dropped: {error}",
                    field="maintenance_dir",
                    remedy="Nothing was deleted. Delete that folder.",
                ) from error

    def _folder_of(self, number: int) -> str:
        return f"{self._folder}{number:02x}/"

    def _today(self) -> int:
        return self._clock.now_micros() // _DAY_MICROS


def _refusal(hit: Hit, read_again: Callable[[Hit], object]) -> MaintenanceRefused | None:
    """If a container is gone, the cache is the only source left."""
    try:
        found = read_again(hit)
        if found is SAME_BYTES or digest_of(hit.key, msgspec.msgpack.encode(found)) == hit.digest:
            return None
        said = "something else than the file"
    except FileMissing:
        return None
    except HeadwaterError as error:
        said = f"what cannot be proved: {error}"
    return MaintenanceRefused(
        f"the manifest cache says of {hit.ref.location[:500]} {said}.",
        field="maintenance_dir",
        remedy="Nothing was deleted. The cache was dropped; run it again, and find out what has changed the file.",
    )
