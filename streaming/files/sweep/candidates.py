"""Lists a storage root and sorts its files: in use, too young, not a table's, protected, or a candidate for deletion."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable

import msgspec

from headwater.producer.content.folding import fold
from headwater.streaming.files.fingerprints import fingerprint, name_fingerprint
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.sweep.condemned_files import CLAIM_NAME, OWN_FOLDER
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards
from headwater.streaming.reachability.id_set import IdCollector, IdSet

WRITTEN_BY_TABLES = (".parquet", ".orc", ".avro", ".metadata.json", ".metadata.json.gz", ".puffin", ".stats")
CHECKSUM = ".crc"
DELTA_LOG = "/_delta_log/"
CLAIM = f"/{OWN_FOLDER}{CLAIM_NAME}"


class Listed(msgspec.Struct, kw_only=True):
    """Of one root."""

    listed: int = 0
    bytes: int = 0
    live: int = 0
    young: int = 0
    unknown: int = 0
    """⚠ Names that no table writer makes, empty files, files without a time: they stay."""
    protected: int = 0
    mismatched: int = 0
    """Named like a file in use that lies below no root."""
    candidates: list[FoundFile] = []
    fingerprints: IdSet | None = None
    claims: list[str] = []
    """Of folders below the root, perhaps of other stores."""

    @property
    def old(self) -> int:
        """Files of tables that are older than the grace."""
        return self.live + len(self.candidates)


class Sorting:
    """How the files of one root are sorted."""

    def __init__(
        self,
        keeps: Callable[[int], bool],
        names: Collection[int],
        protected: Collection[str],
        salt: bytes,
        older_than: int,
        safeguards: FileSafeguards,
        *,
        patterns: Collection[str] = (),
        on_found: Callable[[FoundFile, int], None] = lambda _file, _fingerprint: None,
    ) -> None:
        self._keeps = keeps
        self._patterns = [re.compile(fnmatch.translate(pattern)) for pattern in patterns]
        self._on_found = on_found
        self._names = names
        self._protected = tuple(protected)
        self._salt = salt
        self._older_than = older_than
        self._safeguards = safeguards

    def sort(self, root: str, files: Iterable[FoundFile], on_listed: Callable[[int], None]) -> Listed:
        result, seen = Listed(candidates=[], claims=[]), IdCollector()
        logs: set[str] = set()
        for file in files:
            result.listed += 1
            result.bytes += file.size
            on_listed(1)
            if file.location.startswith(root + OWN_FOLDER):
                continue
            found = fingerprint(file.location, self._salt)
            seen.add((found,))
            self._on_found(file, found)
            if DELTA_LOG in file.location:
                logs.add(fold(file.location.partition(DELTA_LOG)[0] + "/"))
            if file.location.endswith(CLAIM):
                result.claims.append(file.location)
            self._place(file, found, result)
        result.fingerprints = seen.finish()
        if logs and self._safeguards.protected_prefixes:
            spare(result, logs)  # ⚠ a folder with a Delta log is a Delta table, also one that no catalog knows
        return result

    def _place(self, file: FoundFile, found: int, result: Listed) -> None:
        if self._is_live(file.location, found):
            result.live += 1
        elif (self._safeguards.kinds and not is_written_by_tables(file)) or file.modified is None:
            result.unknown += 1
        elif self._safeguards.protected_prefixes and self._is_protected(file.location):
            result.protected += 1
        elif self._safeguards.foreign_names and name_fingerprint(file.location, self._salt) in self._names:
            result.mismatched += 1
        elif self._safeguards.grace and file.modified >= self._older_than:
            result.young += 1
        else:
            result.candidates.append(file)

    def _is_protected(self, location: str) -> bool:
        if any(pattern.match(location) for pattern in self._patterns):
            return True
        return bool(self._protected) and fold(location).startswith(self._protected)

    def _is_live(self, location: str, found: int) -> bool:
        if self._keeps(found):
            return True
        folder, _, name = location.rpartition("/")
        if not name.endswith(CHECKSUM):
            return False
        base = name.removesuffix(CHECKSUM).removeprefix(".")
        return self._keeps(fingerprint(f"{folder}/{base}", self._salt))


def spare(listed: Listed, folders: Collection[str]) -> None:
    """Nothing below these folders is a candidate. They are folded."""
    outside = [file for file in listed.candidates if not fold(file.location).startswith(tuple(folders))]
    listed.protected += len(listed.candidates) - len(outside)
    listed.candidates = outside


def is_written_by_tables(file: FoundFile) -> bool:
    name = file.location.rpartition("/")[2].lower().removesuffix(CHECKSUM)
    return file.size > 0 and name.endswith(WRITTEN_BY_TABLES) and DELTA_LOG not in file.location
