"""The files of one manifest as fingerprints. Pure and picklable: Spark executors compute them too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from headwater.producer.content.folding import fold, is_indirect, storage_of
from headwater.streaming.files.fingerprints import folded_fingerprint
from headwater.streaming.files.formats.manifests import files_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    return marks_of((file.location for file in files_of(location, content)), salt)


def marks_of(locations: Iterable[str], salt: bytes) -> ManifestMarks:
    ids: list[int] = []
    names: list[int] = []
    places: set[str] = set()
    for location in locations:
        folded = fold(location)
        folder, _, name = folded.rpartition("/")
        ids.append(folded_fingerprint(folded, salt))
        names.append(folded_fingerprint(name, salt))
        places.add("" if is_indirect(folded) else f"{storage_of(location)}{folder}/")
    return ManifestMarks(_packed(ids), _packed(names), common_folder(places))


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


def _packed(numbers: list[int]) -> bytes:
    import numpy as np

    return np.unique(np.array(numbers, np.dtype("<i8"))).tobytes()


def _storage(place: str) -> str:
    """`file/…` and `s3://bucket/…`."""
    scheme, separator, rest = place.partition("://")
    return f"{scheme}{separator}{rest.partition('/')[0]}/" if separator else f"{place.partition('/')[0]}/"
