"""Files that an operator names to be deleted: by a list, by a table's metadata, or by their place.

⚠ Each must lie below the root as that is spelled, on the same storage. Whether they are in use is decided as in a sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from headwater.schemas.errors import LocationForbidden
from headwater.streaming.files.kinds import OWN_FOLDER, FileRef, FoundFile
from headwater.streaming.files.marks.manifest_marks import common_folder
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.sweep.candidates import claims_among, kept_folder_of, kept_folders_of
from headwater.streaming.files.sweep.condemned_files import CLAIM_NAME
from headwater.streaming.files.sweep.roots import Root, is_below

PAGE_FILES = 1_000
PROBED_MAX = 100
"""Folders that are listed one by one; if there are more, the folder around all of them is listed."""
_LOG_FOLDERS = ("_delta_log", ".hoodie", "manifests")
_LOOKED_AT = 10
"""Files of such a folder that are checked one by one."""


class Asked:
    def __init__(self, files: Iterable[FileRef]) -> None:
        self.refs = {file.location: file for file in files}

    def roots(self, known: Sequence[Root]) -> list[str]:
        """The roots that contain the files, the innermost for each. `LocationForbidden` for a file that is below none."""
        found: dict[str, None] = {}
        for location in self.refs:
            around = [root.location for root in known if is_below(root.location, location)]
            if not around:
                raise LocationForbidden(
                    f"{location[:500]!r} is below no storage root of a catalog, so it is not known what needs it.",
                    field="location",
                    remedy="Nothing was deleted. Delete it with the vendor's own tools.",
                )
            found[max(around, key=len)] = None
        return list(found)

    def below(self, root: Root) -> Iterator[list[FoundFile]]:
        """Page by page, without times: their age does not count."""
        files = (FoundFile(file.location, file.size or 1, 0) for file in self.refs_below(root))
        while page := list(islice(files, PAGE_FILES)):
            yield page

    def refs_below(self, root: Root) -> Iterator[FileRef]:
        return (file for file in self.refs.values() if is_below(root.location, file.location))


class Surroundings(msgspec.Struct, frozen=True):
    """What a listing of the whole root would have shown beside the files that are asked for."""

    kept: list[str]
    """Folders of tables whose logs are written without us, folded."""
    claims: list[str]
    """Places where a claim may be."""


def surroundings(operations: FileOperations, root: Root, files: Iterable[FoundFile]) -> Surroundings:
    """⚠ The named files need not include the log or the claim of their folder."""
    folders = folders_between(root, files)
    if len(folders) <= PROBED_MAX:
        return _probed(operations, folders)
    inner = common_folder(folder for folder in folders if folder != root.location)
    if not inner.startswith(root.location):  # ⚠ metadata may spell one storage in several ways, which have no folder in common
        inner = root.location
    around = _probed(operations, [folder for folder in folders if inner.startswith(folder)])
    kept, claims = dict.fromkeys(around.kept), list(around.claims)
    for page in operations.pages(inner):
        locations = [file.location for file in page]
        kept.update(dict.fromkeys(kept_folders_of(locations)))
        claims += claims_among(locations)
    return Surroundings(list(kept), claims)


def folders_between(root: Root, files: Iterable[FoundFile]) -> list[str]:
    """The folders below the root that contain the files, at any depth, each with a trailing slash."""
    found: dict[str, None] = {}
    for file in files:
        folder = file.location.rpartition("/")[0]
        while len(folder) >= len(root.location) and f"{folder}/" not in found:
            found[f"{folder}/"] = None
            folder = folder.rpartition("/")[0]
    return list(found)


def _probed(operations: FileOperations, folders: Sequence[str]) -> Surroundings:
    places = (f"{folder}{log}" for folder in folders for log in _LOG_FOLDERS)
    logs = (file for place in places for file in islice(operations.find(place), _LOOKED_AT))
    kept = dict.fromkeys(one for file in logs if (one := kept_folder_of(file.location)))
    return Surroundings(list(kept), [f"{folder}{OWN_FOLDER}{CLAIM_NAME}" for folder in folders])
