"""The files of one manifest as fingerprints. Pure and picklable: Spark executors compute them too."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headwater.producer.content.folding import fold_all, is_indirect, storage_of
from headwater.streaming.files.fingerprints import folded_fingerprints
from headwater.streaming.files.formats.manifests import locations_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILES_AT_ONCE = 2_000


class ManifestMarks(msgspec.Struct, frozen=True):
    """Eight bytes per file and list, sorted, little-endian."""

    ids: bytes
    """Fingerprints of the files."""
    names: bytes
    """Fingerprints of the file names alone."""
    place: str
    """The folder that contains all files, folded and with its storage; empty if there is none."""

    @property
    def count(self) -> int:
        return len(self.ids) // 8


def mark_manifest(location: str, content: bytes, salt: bytes) -> ManifestMarks:
    """Raises what `files_of` raises: a manifest that cannot be read completely has no marks."""
    return marks_of(locations_of(location, content), salt)


def marks_of(locations: Iterable[str], salt: bytes) -> ManifestMarks:
    """In pieces, so that folding and hashing do many at a time."""
    rest = iter(locations)
    ids: list[NDArray[np.int64]] = []
    names: list[NDArray[np.int64]] = []
    places: set[str] = set()
    while piece := list(itertools.islice(rest, FILES_AT_ONCE)):
        folded = fold_all(piece)
        ids.append(folded_fingerprints(folded, salt))
        names.append(folded_fingerprints((one[one.rfind(b"/") + 1 :] for one in folded), salt))
        places |= _places(piece, folded)
    return ManifestMarks(_packed(ids), _packed(names), common_folder(places))


def _places(locations: Sequence[str], folded: Sequence[bytes]) -> set[str]:
    """The folders of these files, folded and with their storages; empty for one that is named through `..`."""
    folders = {
        (location[: location.rfind("/")], one[: one.rfind(b"/") + 1]): location
        for location, one in zip(locations, folded, strict=True)
    }
    found = {(storage_of(one), folder.decode("utf-8", "surrogatepass")) for (_, folder), one in folders.items()}
    return {"" if is_indirect(folder) else f"{storage}{folder}" for storage, folder in found}


def common_folder(places: Iterable[str]) -> str:
    """The deepest folder that contains or equals all of these; empty if they are on several storages."""
    places = list(places)
    if not places:
        return ""
    first, last = min(places), max(places)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    folder = first[: first[:same].rfind("/") + 1]
    return folder if folder.startswith(_storage(first)) and _storage(first) == _storage(last) else ""


def unpacked(packed: bytes) -> NDArray[np.int64]:
    import numpy as np

    return np.frombuffer(packed, np.dtype("<i8"))


def _packed(numbers: Sequence[NDArray[np.int64]]) -> bytes:
    import numpy as np

    return np.unique(np.concatenate(numbers)).astype("<i8").tobytes() if numbers else b""


def _storage(place: str) -> str:
    """`file/…` and `s3://bucket/…`."""
    scheme, separator, rest = place.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}/" if separator else f"{place.partition('/')[0]}/"
