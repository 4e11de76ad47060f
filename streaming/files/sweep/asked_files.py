"""Files that an operator names to be deleted: by a list, by a table's metadata, or by their place.

⚠ Each must lie below the root as that is spelled, on the same storage. Whether they are in use is decided as in a sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headwater.producer.content.folding import fold
from headwater.schemas.errors import LocationForbidden
from headwater.streaming.files.kinds import FileRef, FoundFile
from headwater.streaming.files.operations import FileOperations
from headwater.streaming.files.sweep.roots import Root, is_below


class Asked:
    def __init__(self, files: Iterable[FileRef]) -> None:
        self.refs = {file.location: file for file in files}

    def roots(self, known: Sequence[Root]) -> list[str]:
        """The roots that the files lie below, the innermost for each. `LocationForbidden` for a file that is below none."""
        found: dict[str, None] = {}
        for location in self.refs:
            around = [root.location for root in known if is_below(root.location, location)]
            if not around:
                raise LocationForbidden(
                    f"{location[:500]!r} lies below no storage root of a catalog, so it is not known who needs it.",
                    field="location",
                    remedy="Nothing was deleted. Delete it with the vendor's own tools.",
                )
            found[max(around, key=len)] = None
        return list(found)

    def below(self, root: Root) -> Iterator[FoundFile]:
        """Without times: their age does not count."""
        return (FoundFile(file.location, file.size or 1, 0) for file in self.refs_below(root))

    def refs_below(self, root: Root) -> Iterator[FileRef]:
        return (file for file in self.refs.values() if is_below(root.location, file.location))


def folders_between(root: Root, files: Iterable[FoundFile]) -> list[str]:
    """The folders below the root that the files lie in, at any depth, each with a slash at its end."""
    found: dict[str, None] = {}
    for file in files:
        folder = file.location.rpartition("/")[0]
        while len(folder) >= len(root.location) and f"{folder}/" not in found:
            found[f"{folder}/"] = None
            folder = folder.rpartition("/")[0]
    return list(found)


def delta_tables(operations: FileOperations, folders: Iterable[str]) -> list[str]:
    """⚠ Those with a Delta log, folded: what was asked for need not name the log."""
    return [fold(folder) for folder in folders if next(iter(operations.find(f"{folder}_delta_log")), None) is not None]
