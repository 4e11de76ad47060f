"""Says which store a folder of retained sets belongs to, so that the streams of two stores do not share one.

The set of `::system::` has the same name in every store: two streams in one folder would discard each other's set again and
again. A store that was restored from a backup keeps its folder: it still knows realms whose sets are there.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection
from pathlib import Path

import msgspec

from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import InvalidInput
from headwater.streaming.retained.retained_store import RetainedStore

OWNER_FILE = "store.json"


class FolderOwner(msgspec.Struct, frozen=True, kw_only=True):
    incarnation: str


def claim_folder(folder: str, incarnation: str, instances: Collection[str]) -> None:
    """`InvalidInput` if the folder belongs to another store that has sets in it, or cannot be written. `instances`: realms of
    this store."""
    file = Path(folder) / OWNER_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        before = _read(file)
        is_taken = before is not None and before.incarnation != incarnation and any(Path(folder).glob("*/step-*"))
        if is_taken and not _has_set_of(folder, instances):
            raise InvalidInput(
                f"{folder} holds the retained sets of another store.",
                field="maintenance_dir",
                remedy="Use a separate folder for each store.",
            )
        if before is None or before.incarnation != incarnation:
            unfinished = file.with_name(f"{OWNER_FILE}.{secrets.token_hex(4)}")
            unfinished.write_bytes(msgspec.json.encode(FolderOwner(incarnation=incarnation)))
            unfinished.replace(file)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be written: {error.strerror}.", field="maintenance_dir", remedy="Name a folder of your own."
        ) from error


def _has_set_of(folder: str, instances: Collection[str]) -> bool:
    """Instance ids are unique to the store that issued them."""
    return any(RetainedStore(folder, instance).folder.exists() for instance in instances if instance != SYSTEM_REALM)


def _read(file: Path) -> FolderOwner | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=FolderOwner)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
