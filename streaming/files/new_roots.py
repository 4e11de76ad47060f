"""Claims the storage root of a catalog that was just created, so that sweeps may delete files below it.

⚠ Only an empty root is claimed: if there are files, only an operator knows whose they are, and claims it with `maintain files
claim`. A catalog never waits long for its claim, and never fails for lack of one.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from headwater.persistence.store import Store
from headwater.schemas.errors import HeadwaterError
from headwater.streaming.files.kinds import OWN_FOLDER
from headwater.streaming.files.stores.local_files import local_path
from headwater.streaming.files.stores.storages import Storages
from headwater.streaming.files.sweep.claims import Claims
from headwater.streaming.files.sweep.roots import Root, roots_of

WAIT_SECONDS = 10.0
_log = logging.getLogger("headwater.files")


def claims_of_new_roots(store: Store, options: Mapping[str, str]) -> Callable[[str, str], None]:
    """Call with the realm instance and the name of a catalog that has a new storage root."""

    def claim(realm: str, catalog: str) -> None:
        root = next((one for one in roots_of(store, [realm]) if one.catalog == catalog), None)
        if root is None or not root.takes_claim or not _is_reached(root, options):
            return
        thread = threading.Thread(target=_claim, args=(store, root, options), name="claim", daemon=True)
        thread.start()
        thread.join(WAIT_SECONDS)

    return claim


def _claim(store: Store, root: Root, options: Mapping[str, str]) -> None:
    own = f"{root.location}{OWN_FOLDER}"  # left by sweeps of an earlier catalog
    try:
        storages = Storages(options)
        if any(not file.location.startswith(own) for page in storages.list(root.location) for file in page):
            _log.info("%s has files already and is not claimed", root.location)
            return
        Claims(store, storages).claim(root)
    except HeadwaterError as error:
        _log.warning("%s is not claimed: %s", root.location, error)
    except Exception:  # the catalog is there, and the thread ends here
        _log.exception("%s is not claimed", root.location)


def _is_reached(root: Root, options: Mapping[str, str]) -> bool:
    """Whether this process is known to reach it: a folder whose parent exists, or a storage that options name."""
    if not root.location.startswith(("/", "file:/")):
        return bool(options)
    try:
        above = Path(local_path(root.location)).parent
    except HeadwaterError:
        return False
    return above != Path("/") and above.is_dir() and os.access(above, os.W_OK)
