"""Maps every spelling of a location to one form, so that a file in use is recognised however it is written.

⚠ Folding loses information on purpose, and can only spare: two files that fold to the same form protect each other. A deletion
never uses a folded location, only one that was listed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

DECODINGS_MAX = 3
"""Some writers encode a path that is encoded already."""
_AUTHORITY = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?(?=/|$)")
_STORAGE_KINDS = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasbs": "abfss", "wasb": "abfss", "abfs": "abfss"}
_SLASHES = re.compile(r"/(?:\./|/)+|/\.$")


def storage_of(location: str) -> str:
    """Which storage a location is on, as far as its spelling says: two spellings of one storage may differ, two storages never
    agree."""
    if location.startswith("/") or location[:5].lower() == "file:":
        return "file"
    scheme, separator, rest = location.partition("://")
    kind = _STORAGE_KINDS.get(scheme.lower(), scheme.lower())
    authority = rest.partition("/")[0]
    if kind == "abfss" and "@" in authority:
        container, _, host = authority.partition("@")
        authority = f"{container}@{host.partition('.')[0]}"
    return f"{kind}{separator}{authority}"


def fold(location: str) -> str:
    """Without scheme and authority, percent-decoded, with single slashes, in one normal form and one case."""
    path = _AUTHORITY.sub("", location, count=1)
    if path.isascii() and "%" not in path:  # nearly all of them: nothing to decode or to normalize
        is_plain = path.startswith("/") and "//" not in path and "/." not in path
        return path.lower() if is_plain else _SLASHES.sub("/", "/" + path).lower()
    for _ in range(DECODINGS_MAX):
        decoded = unquote(path, errors="surrogateescape")
        if decoded == path:
            break
        path = decoded
    path = _SLASHES.sub("/", "/" + path)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def fold_all(locations: Sequence[str]) -> list[bytes]:
    """`fold` of each, as bytes. Many plain locations of one storage are folded in one go, at a tenth of the cost."""
    whole = "\n".join(locations)
    authority = _AUTHORITY.match(whole)
    begin = "" if authority is None else authority[0]
    lines = f"\n{whole}"
    paths = lines.replace(f"\n{begin}/", "\n/") if begin else lines
    is_plain = (
        whole.isascii()
        and lines.count("\n") == lines.count(f"\n{begin}/") == len(locations)
        and "%" not in whole
        and "//" not in paths
        and "/." not in paths
    )
    if is_plain:
        return paths.lower().encode().split(b"\n")[1:]
    return [fold(location).encode("utf-8", "surrogatepass") for location in locations]


def is_indirect(folded: str) -> bool:
    """⚠ With `..` it leads somewhere else than its spelling says, if the storage or an engine resolves that."""
    return "/../" in folded


def last_segment(location: str) -> str:
    """The folded name of the file itself, for references that lead to no known root: a mount path, a path-style URL."""
    return fold(location).rpartition("/")[2]
