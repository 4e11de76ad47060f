"""Opens file storage for commits and new catalogs when the first one needs it: other processes load nothing for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.persistence.coordination.removal_intents import CondemnedFiles
    from headwater.persistence.store import Store


def condemned_files_of(options: Mapping[str, str]) -> Callable[[], CondemnedFiles]:
    """With these storage options, and otherwise as the environment says."""

    @functools.cache
    def reach() -> CondemnedFiles:
        from headwater.streaming.files.stores.storages import Storages
        from headwater.streaming.files.sweep.condemned_files import StoredCondemned

        return StoredCondemned(Storages(options))

    return reach


def new_roots_of(store: Store, options: Mapping[str, str]) -> Callable[[str, str], None]:
    """Claims storage roots of new catalogs."""

    def claim(realm: str, catalog: str) -> None:
        from headwater.streaming.files.new_roots import claims_of_new_roots

        claims_of_new_roots(store, options)(realm, catalog)

    return claim
