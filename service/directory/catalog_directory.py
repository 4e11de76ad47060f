"""The directory of one catalog: begun from its checkpoint, and written to a new one when enough has changed."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator

import msgspec

from headwater.persistence.coordination.work_leases import HeldLease
from headwater.persistence.index import decode_key
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.records.directory_checkpoints import (
    FORMAT,
    Checkpoint,
    DirectoryCheckpoints,
    DirectoryHead,
    DirectoryPart,
    FollowedLog,
    PartRef,
    bounded_logs,
)
from headwater.persistence.store import RealmKernel
from headwater.producer.content.snapshots import ContentEntry, Snapshots
from headwater.schemas.entry_ids import content_id_text
from headwater.schemas.errors import Corruption, HeadwaterError
from headwater.service.directory.followed_logs import FollowedLogs
from headwater.service.directory.key_table import ID_BYTES, KeyTable, table_from, table_of
from headwater.service.directory.known_keys import KnownKeys

PART_BYTES = 250_000

_log = logging.getLogger(__name__)


class DirectoryOptions(msgspec.Struct, frozen=True, kw_only=True):
    bytes_max: int = 128 * 1024 * 1024
    """Size of the directories of one worker; the catalog that was requested last is kept whatever its size."""
    changed_least: int = 1_000
    changed_part: float = 0.05
    """A checkpoint is written once so many keys have come, and so many of all."""
    entries_most: int = 5_000
    """… or once so many entries were followed that a restart would have to follow again."""
    left_least: int = 10_000
    """Half of the keys may have lost their ids, and so many, before everything is read again."""


class CatalogDirectory:
    """One thread at a time calls `cover` and `save`; any thread may look an id up."""

    def __init__(self, kernel: RealmKernel, catalog_id: int, options: DirectoryOptions, is_closing: Callable[[], bool]) -> None:
        self._kernel = kernel
        self._catalog_id = catalog_id
        self._options = options
        self._is_closing = is_closing
        self._checkpoints = DirectoryCheckpoints(kernel, catalog_id)
        self.lock = threading.Lock()
        self.walks = 0
        self._generation = ""
        """Generation of the checkpoint that this directory read or wrote last …"""
        self._base: tuple[PartRef, ...] = ()
        """… and the parts that hold its table."""
        self._saved_keys = 0
        self._saved_entries = 0
        self._keys = KnownKeys()
        self._logs = self._followed(())
        self._is_read = False
        self._replaces = False
        """What is in the store is damaged, or has too many keys that lost their ids: the next checkpoint takes its place,
        however far that one reaches."""

    @property
    def size_bytes(self) -> int:
        return self._keys.size_bytes

    def find(self, at: LogRecord, id: bytes) -> ContentEntry | None:
        """⚠ A key counts only if that very state holds the id there."""
        keys = [decode_key(key) for key in self._keys.keys_of(id)]
        if not keys:
            return None
        there = Snapshots(self._kernel, self._catalog_id).get(at, keys)
        wanted = content_id_text(id)
        return next((there[key] for key in keys if key in there and there[key].content_id == wanted), None)

    def covers(self, at: LogRecord) -> bool:
        return self._logs.covers(at)

    def cover(self, at: LogRecord) -> None:
        """May take long where there is no checkpoint: see the module followed_logs."""
        if not self._is_read:
            self._read()
            self._is_read = True
        if self._keys.left > max(self._options.left_least, len(self._keys) // 2):
            self._keys = KnownKeys()
            self._logs = self._followed(())
            self._generation, self._base, self._saved_keys, self._saved_entries = "", (), 0, 0
            self._replaces = True
        walks = self._logs.walks
        try:
            self._logs.cover(self._kernel, at)
        finally:
            self.walks += self._logs.walks - walks

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────

    def needs_checkpoint(self) -> bool:
        options = self._options
        changed = self._keys.later_count + abs(len(self._keys.table) - self._saved_keys)
        is_much = changed >= max(options.changed_least, options.changed_part * len(self._keys))
        return is_much or self._logs.entries - self._saved_entries >= options.entries_most

    def save(self) -> bool:
        """False where another worker writes or has written one that reaches as far, or the store did not take it: then it is
        tried again when as much has changed again."""
        self._saved_entries = self._logs.entries
        try:
            lease = self._checkpoints.lease()
            if lease is None:
                return False
            try:
                return self._save(lease)
            finally:
                lease.release()
        except HeadwaterError as error:
            _log.warning("the checkpoint of a directory was not written: %s", error)
            return False

    def _save(self, lease: HeldLease) -> bool:
        there = self._checkpoints.head()
        logs = bounded_logs(self._logs.newest_first())
        is_ours = there is not None and there.generation == self._generation
        reached = 0 if there is None or self._replaces or self._logs.is_disproved else there.followed
        if not is_ours and reached and reached >= sum(one.last_seq for one in logs):
            self._keys.merge()
            self._saved_keys = len(self._keys.table)
            return False
        if not is_ours or self._keys.later_count > self._options.changed_part * len(self._keys.table):
            self._keys.merge()
        generation = uuid.uuid4().hex
        if is_ours and len(self._keys.table) == self._saved_keys:
            base = self._base
        else:
            base = self._write(generation, self._keys.table, 0)
        later = self._write(generation, table_of(self._keys.later_pairs()), len(base))
        head = DirectoryHead(FORMAT, generation, base, later, self._keys.left, logs)
        if not self._checkpoints.publish(lease, head):
            return False
        self._generation, self._base, self._saved_keys = generation, base, len(self._keys.table)
        self._replaces = self._logs.is_disproved = False
        return True

    def _write(self, generation: str, table: KeyTable, first: int) -> tuple[PartRef, ...]:
        return tuple(self._checkpoints.write_part(generation, number, part) for number, part in enumerate(_parts(table), first))

    def _read(self) -> None:
        try:
            found = self._checkpoints.read()
            if found is None:
                return
            self._keys = keys = _keys_of(found)
        except (Corruption, msgspec.MsgspecError, ValueError) as error:
            _log.warning("the checkpoint of a directory cannot be read, its keys are walked: %s", error)
            self._replaces = True
            return
        self._logs = self._followed(reversed(found.head.logs))
        self._generation, self._base, self._saved_keys = found.head.generation, found.head.base, len(keys.table)

    def _followed(self, logs: Iterable[FollowedLog]) -> FollowedLogs:
        return FollowedLogs(self._keys, logs, is_closing=self._is_closing)


def _keys_of(found: Checkpoint) -> KnownKeys:
    parts = found.base
    table = table_from([one.ids for one in parts], [one.lengths for one in parts], [one.keys for one in parts])
    keys = KnownKeys(table, found.head.left)
    for part in found.later:
        for id, key in table_from([part.ids], [part.lengths], [part.keys]).pairs():
            keys.add(id, key)
    return keys


def _parts(table: KeyTable) -> Iterator[DirectoryPart]:
    """Each of at most about PART_BYTES."""
    start = 0
    while start < len(table):
        end, size = start, 0
        while end < len(table) and size < PART_BYTES:
            size += ID_BYTES + 2 + table.offsets[end + 1] - table.offsets[end]
            end += 1
        keys = table.keys[table.offsets[start] : table.offsets[end]]
        yield DirectoryPart(table.ids[start * ID_BYTES : end * ID_BYTES], table.lengths(start, end), keys)
        start = end
