"""Opens file storage for commits when the first one needs it: a process that never meets a removal loads nothing for it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.persistence.coordination.removal_intents import CondemnedFiles


def condemned_files_of(options: Mapping[str, str]) -> Callable[[], CondemnedFiles]:
    """With these storage options, and otherwise as the environment says."""

    @functools.cache
    def reach() -> CondemnedFiles:
        from headwater.streaming.files.stores.storages import Storages
        from headwater.streaming.files.sweep.condemned_files import StoredCondemned

        return StoredCondemned(Storages(options))

    return reach
