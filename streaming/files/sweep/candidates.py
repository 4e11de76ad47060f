"""Lists a storage root and sorts its files: in use, too young, not a table's, protected, or a candidate for deletion."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from headwater.producer.content.folding import fold
from headwater.streaming.files.fingerprints import fingerprint, fingerprints, name_fingerprint
from headwater.streaming.files.kinds import FoundFile
from headwater.streaming.files.sweep.condemned_files import CLAIM_NAME, OWN_FOLDER
from headwater.streaming.files.sweep.file_safeguards import FileSafeguards

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WRITTEN_BY_TABLES = (".parquet", ".orc", ".avro", ".metadata.json", ".metadata.json.gz", ".puffin", ".stats")
CHECKSUM = ".crc"
DELTA_LOG = "/_delta_log/"
HUDI_LOG = "/.hoodie/"
CLAIM = f"/{OWN_FOLDER}{CLAIM_NAME}"
_ARCHIVE_FOLDER = "/manifests/"
_LOG_SIGNS = (DELTA_LOG, HUDI_LOG, _ARCHIVE_FOLDER)
_ARCHIVE_MANIFEST = re.compile(r"(.*/)manifests/\d{10}\.json")
"""Manifests of an archive of a realm's history (streaming/archive)."""


class Candidates(Protocol):
    """Files that may go, with their fingerprints."""

    def add(self, file: FoundFile, found: int) -> None: ...

    def spare(self, folders: Collection[str]) -> int:
        """Drops those below these folders, which are folded; returns how many those were."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[FoundFile]: ...


class FewCandidates:
    """Candidates in memory."""

    def __init__(self) -> None:
        self._files: list[FoundFile] = []

    def add(self, file: FoundFile, found: int) -> None:
        self._files.append(file)

    def spare(self, folders: Collection[str]) -> int:
        before = len(self._files)
        self._files = [file for file in self._files if not fold(file.location).startswith(tuple(folders))]
        return before - len(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[FoundFile]:
        return iter(self._files)


class Listed(msgspec.Struct, kw_only=True):
    """The listing of one root."""

    candidates: Candidates
    listed: int = 0
    bytes: int = 0
    live: int = 0
    young: int = 0
    unknown: int = 0
    """⚠ Names that no table writer produces, empty files, files without a time: they stay."""
    protected: int = 0
    mismatched: int = 0
    """Named like a file in use that lies below no root."""
    claims: list[str] = []
    """Claims in folders below the root, perhaps of other stores."""

    @property
    def old(self) -> int:
        """Files of tables that are older than the grace."""
        return self.live + len(self.candidates)

    def spare(self, folders: Collection[str]) -> None:
        """Removes all candidates below these folders, which are folded."""
        self.protected += self.candidates.spare(folders)


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What can be decided about a file without knowing whether it is in use. Spark executors use it too."""

    salt: bytes
    older_than: int
    safeguards: FileSafeguards
    patterns: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    """Folded prefixes."""


class Judge:
    def __init__(self, judgement: Judgement) -> None:
        self._is = judgement
        self._patterns = [re.compile(fnmatch.translate(pattern)) for pattern in judgement.patterns]

    def verdict(self, file: FoundFile) -> str:
        """The verdict on a file that is not in use: the count of `Listed` that it belongs to, empty for a candidate."""
        safeguards = self._is.safeguards
        if (safeguards.kinds and not is_written_by_tables(file)) or file.modified is None:
            return "unknown"
        if safeguards.protected_prefixes and self._is_protected(file.location):
            return "protected"
        return "young" if safeguards.grace and file.modified >= self._is.older_than else ""

    def base(self, location: str) -> int | None:
        """For a checksum, the fingerprint of the file that it belongs to and stays with."""
        if not location.endswith(CHECKSUM):
            return None
        folder, _, name = location.rpartition("/")
        return fingerprint(f"{folder}/{name.removesuffix(CHECKSUM).removeprefix('.')}", self._is.salt)

    def _is_protected(self, location: str) -> bool:
        if any(pattern.match(location) for pattern in self._patterns):
            return True
        return bool(self._is.protected) and fold(location).startswith(self._is.protected)


class Sorting:
    """How the files of one root are sorted."""

    def __init__(
        self,
        keeps: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
        names: Collection[int],
        judgement: Judgement,
        *,
        on_seen: Callable[[Sequence[FoundFile], NDArray[np.int64]], None] = lambda _files, _ids: None,
    ) -> None:
        """`names` are those of files in use that lie below no root. `on_seen` receives what is listed, with its
        fingerprints."""
        self._keeps = keeps
        self._names = names
        self._judge = Judge(judgement)
        self._salt = judgement.salt
        self._safeguards = judgement.safeguards
        self._on_seen = on_seen

    def sort(
        self,
        root: str,
        pages: Iterable[Sequence[FoundFile]],
        on_listed: Callable[[int], None],
        into: Candidates | None = None,
    ) -> Listed:
        """Without the claim and Headwater's other files below the root: no table needs them, and none of them goes."""
        result = Listed(candidates=FewCandidates() if into is None else into, claims=[])
        logs: set[str] = set()
        own = root + OWN_FOLDER
        for whole_page in pages:
            page = [file for file in whole_page if not file.location.startswith(own)]
            result.listed += len(page)
            result.bytes += sum(file.size for file in page)
            on_listed(len(page))
            self._page(page, result, logs)
        if logs and self._safeguards.protected_prefixes:
            result.spare(logs)  # ⚠ also of tables that no catalog knows
        return result

    def _page(self, files: Sequence[FoundFile], result: Listed, logs: set[str]) -> None:
        """Most files are in use, and there is nothing else to say about most pages: only the others are looked at one by
        one."""
        if not files:
            return
        locations = [file.location for file in files]
        ids = fingerprints(locations, self._salt)
        live = self._keeps(ids)
        self._on_seen(files, ids)
        logs.update(kept_folders_of(locations))
        result.claims += claims_among(locations)
        not_live = (~live).nonzero()[0].tolist()
        result.live += len(files) - len(not_live)
        for at in not_live:
            if self._is_live_base(locations[at]):
                result.live += 1
            else:
                self._place(files[at], int(ids[at]), result)

    def goes(self, file: FoundFile, found: int) -> bool:
        """Whether the file is still a candidate."""
        import numpy as np

        is_live = bool(self._keeps(np.array([found], np.int64))[0]) or self._is_live_base(file.location)
        return not (is_live or self._is_mismatched(file.location) or self._judge.verdict(file))

    def _place(self, file: FoundFile, found: int, result: Listed) -> None:
        verdict = self._judge.verdict(file)
        if verdict in ("", "young") and self._is_mismatched(file.location):
            verdict = "mismatched"
        if verdict:
            setattr(result, verdict, getattr(result, verdict) + 1)
        else:
            result.candidates.add(file, found)

    def _is_mismatched(self, location: str) -> bool:
        return bool(self._names) and self._safeguards.foreign_names and name_fingerprint(location, self._salt) in self._names

    def _is_live_base(self, location: str) -> bool:
        import numpy as np

        base = self._judge.base(location)
        return base is not None and bool(self._keeps(np.array([base], np.int64))[0])


def kept_folders_of(locations: Sequence[str]) -> set[str]:
    """Those of a page of files."""
    whole = "\n".join(locations)
    if not any(sign in whole for sign in _LOG_SIGNS):
        return set()
    return {kept for location in locations if (kept := kept_folder_of(location))}


def claims_among(locations: Sequence[str]) -> list[str]:
    return [one for one in locations if one.endswith(CLAIM)] if CLAIM in "\n".join(locations) else []


def kept_folder_of(location: str) -> str:
    """The folded folder of a table whose log is written without us, or of an archive of ours, if the file belongs to its log;
    empty for any other file."""
    for log in (DELTA_LOG, HUDI_LOG):
        if log in location:
            return fold(location.partition(log)[0] + "/")
    archive = _ARCHIVE_MANIFEST.fullmatch(location) if _ARCHIVE_FOLDER in location else None
    return fold(archive[1]) if archive is not None else ""


def is_written_by_tables(file: FoundFile) -> bool:
    name = file.location.rpartition("/")[2].lower().removesuffix(CHECKSUM)
    return file.size > 0 and name.endswith(WRITTEN_BY_TABLES) and DELTA_LOG not in file.location
