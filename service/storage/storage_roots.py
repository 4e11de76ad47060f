"""Allows a storage root that a request names only if the operator lists it.

⚠ The server reads and writes metadata there with its own rights. Without a rule, a principal that may create catalogs could
name the warehouse of another realm, or any folder of the server's machine.
"""

from __future__ import annotations

import re

import msgspec

from headwater.schemas.errors import LocationForbidden
from headwater.service.storage.locations import Warehouse

_OBJECT_STORE = re.compile(
    r"(?:s3|s3a|gs|abfs|abfss|wasb|wasbs)://[A-Za-z0-9][A-Za-z0-9@._-]*(?P<path>/[^?#%\\\x00-\x20\x7f]*)?"
)


class StorageRoots(msgspec.Struct, frozen=True):
    allowed: tuple[str, ...] = ()
    """At or below these; empty for any object store, and no local files."""
    anywhere: bool = False
    """In development, where the caller also runs the server."""

    def check(self, root: str) -> str:
        """The root as it is; none at all is fine."""
        if root and not self.anywhere and not self._is_allowed(root):
            raise LocationForbidden(
                f"{root[:200]!r} is not where catalogs made by requests may lie.",
                field="storage_root",
                remedy="Choose one that the setting storage_roots allows, or have `headwater catalog create` make it "
                "on the store, without --server.",
            )
        return root

    def _is_allowed(self, root: str) -> bool:
        return any(is_at_or_below(root, one) for one in self.allowed) if self.allowed else _is_object_store(root)


def storage_roots(setting: str, *, dev: bool) -> StorageRoots:
    return StorageRoots(tuple(setting.split()), anywhere=dev)


def is_at_or_below(root: str, allowed: str) -> bool:
    warehouse = Warehouse(allowed)
    if Warehouse(root).root == warehouse.root:
        return True
    try:
        warehouse.check(root)
    except LocationForbidden:
        return False
    return True


def _is_object_store(root: str) -> bool:
    match = _OBJECT_STORE.fullmatch(root)
    return match is not None and not {".", ".."} & set((match["path"] or "").split("/"))
