"""Normalizes locations from outside, and refuses those outside of the warehouse.

⚠ A principal that may write a table's metadata must not be able to make the server read or write elsewhere: `..`, encoded dots,
links that lead out and other schemes are refused.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import LocationForbidden

LOCATION_BYTES_MAX = 4_096
LOCATION_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
_FILE = re.compile(r"file:/*(?=/)")
_AS_ASKED = re.compile(r"file:/[^/]|file:///[^/]|(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")
"""Spellings that every engine understands in the same way; others, such as a path without a scheme, are normalized."""
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_SLASHES = re.compile(r"/{2,}")
_ENCODED = re.compile(r"%(2e|2f|5c|00)", re.IGNORECASE)


class Warehouse:
    """Where one catalog's files may lie: a folder of this machine, or a prefix of an object store."""

    def __init__(self, root: str) -> None:
        self.root = _spelled(root).rstrip("/")

    @property
    def is_local(self) -> bool:
        return self.root.startswith("file:///")

    @property
    def is_s3(self) -> bool:
        return self.root.startswith(("s3://", "s3a://", "s3n://"))

    def check(self, location: str, field: str = "location") -> str:
        """The location as it was asked for, without a slash at its end; `LocationForbidden` if it is not within the warehouse.

        Clients compare what they get with what they asked for, so `file:/x` stays `file:/x`.
        """
        if not self.root:
            raise LocationForbidden(
                "the catalog has no storage root, so there is no place for files.",
                field=field,
                remedy="Give it one, as `headwater catalog update … --storage-root …` does.",
            )
        spelled = _spelled(location).rstrip("/") if isinstance(location, str) else ""
        if not self._is_within(spelled):
            raise LocationForbidden(
                f"{str(location)[:200]!r} is not within the warehouse.",
                field=field,
                remedy="Leave it out, or choose one below it.",
            )
        return location.rstrip("/") if _AS_ASKED.match(location) else spelled

    def check_properties(self, properties: Mapping[str, str]) -> None:
        for name in LOCATION_PROPERTIES:
            if name in properties:
                self.check(properties[name], f"properties.{name}")

    def new_location(self, key: KeyPath) -> str:
        """A folder that nothing else has: names come back after a drop or a rename, files stay until nothing needs them."""
        return "/".join([self.root, *self._folders(key[:-1]), f"{_folder(key[-1])}-{uuid.uuid4().hex}"])

    def namespace_location(self, key: KeyPath) -> str:
        """Where tables of a namespace go whose location the server chooses."""
        return "/".join([self.root, *self._folders(key)])

    def _folders(self, names: Iterable[str]) -> list[str]:
        return [_folder(name) for name in names]

    def _is_within(self, location: str) -> bool:
        if not location.startswith(f"{self.root}/") or len(location.encode("utf-8", "replace")) > LOCATION_BYTES_MAX:
            return False
        inside = location.removeprefix(self.root)
        if _ENCODED.search(inside) or "\\" in inside or any(ord(letter) < 32 for letter in inside):
            return False
        if any(part in (".", "..") for part in inside.split("/")):
            return False
        if not self.is_local:
            return True
        root = os.path.realpath(local_path(self.root))
        return Path(os.path.realpath(local_path(location))).is_relative_to(root)


def places_of(location: str, properties: Mapping[str, str]) -> Iterator[str]:
    """Everywhere that a table of this metadata has files."""
    yield location
    yield from (properties[name] for name in LOCATION_PROPERTIES if name in properties)


def folded(location: str) -> str:
    """One spelling of a place, for comparisons: without doubled slashes, and none at the end."""
    scheme, separator, path = _spelled(location).partition("://")
    return f"{scheme}{separator}{_SLASHES.sub('/', path).rstrip('/')}"


def is_below(location: str, root: str) -> bool:
    """Whether it begins with the root. Whether it may be read is up to `Warehouse.check`."""
    return bool(root) and _spelled(location).startswith(f"{_spelled(root).rstrip('/')}/")


def local_path(location: str) -> str:
    return _spelled(location).removeprefix("file://")


def resolved(location: str) -> str:
    """Behind all links, where it is a place of this machine."""
    spelled = _spelled(location)
    return f"file://{os.path.realpath(local_path(spelled))}" if spelled.startswith("file://") else spelled


def _spelled(location: str) -> str:
    """`file:/x`, `file:///x` and `/x` are one place."""
    if location.startswith("file:"):
        return "file://" + _FILE.sub("", location, count=1)
    return f"file://{location}" if location.startswith("/") else location


def _folder(name: str) -> str:
    return _PLAIN.sub("_", name)[:80] or "_"
