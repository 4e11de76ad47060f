"""Names metadata files: a number, a random part, and whether the table keeps all its files in the folder above.

Whoever compares the places of many tables knows by the name of its metadata where a table lies, and reads the file only of
those that keep files apart or that another program wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import UUID, uuid4

from headwater.service.storage.locations import LOCATION_PROPERTIES, folded

FOLDER = "/metadata"
_VERSION = re.compile(r"(\d{1,9})-[^/]*metadata\.json(?:\.gz)?")
_KEPT_TOGETHER = re.compile(
    rf"(.+){FOLDER}/\d+-[0-9a-f]{{8}}-[0-9a-f]{{4}}-8[0-9a-f]{{3}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}(?:\.gz)?\.metadata\.json"
)
"""⚠ The version of the UUID is the sign: other writers give random ones, of version 4. A table whose own writer forges it hides
its places from others, and gains none: what it is given is judged by its metadata."""
_VERSION_BITS = 0xF << 76


def new_file_location(folder: str, previous: str | None, *, packed: bool, kept_together: bool) -> str:
    random = uuid4()
    if kept_together:
        random = UUID(int=random.int & ~_VERSION_BITS | 8 << 76)
    return f"{folder}/{next_version(previous):05d}-{random}{'.gz' if packed else ''}.metadata.json"


def next_version(previous: str | None) -> int:
    match = None if previous is None else _VERSION.fullmatch(previous.rpartition("/")[2])
    return 0 if previous is None else int(match.group(1)) + 1 if match else 1


def keeps_together(location: str, folder: str, properties: Mapping[str, str]) -> bool:
    """Whether a table of this location and these properties has all files in the folder above that of its metadata."""
    home = folded(location)
    places = [folded(properties[name]) for name in LOCATION_PROPERTIES if name in properties]
    return folded(folder) == f"{home}{FOLDER}" and all(place == home or place.startswith(f"{home}/") for place in places)


def only_place(metadata_location: str) -> str | None:
    """The folder that holds all files of the table, if the name of its metadata says that there is one."""
    match = _KEPT_TOGETHER.fullmatch(metadata_location)
    return None if match is None else match[1]
