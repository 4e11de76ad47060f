"""Removes what a purged realm has outside the store: its retained set, and its topics in Kafka.

Archives stay: they are made to outlive their source, and belong to those who requested them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headwater.schemas.errors import MaintenanceRefused
from headwater.streaming.retained.retained_store import RetainedStore


class ExternalResources(Protocol):
    """External resources of one kind. A realm is PURGED only when all of them are gone."""

    def check(self, instances: Sequence[str]) -> None:
        """Anything that would prevent their removal, before anything is deleted."""

    def remove(self, instance: str) -> None:
        """Removes all of it, or raises. May be repeated at any time."""


class RetainedSets:
    """Under the folder where the streamed sets are kept, with all their steps."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def check(self, instances: Sequence[str]) -> None:
        """Files give no way to check in advance."""

    def remove(self, instance: str) -> None:
        store = RetainedStore(self._folder, instance)
        store.clear()
        if store.folder.exists():
            raise MaintenanceRefused(
                f"the retained set in {store.folder} cannot be deleted.",
                field="maintenance_dir",
                remedy="Look at the folder's rights, then run it again.",
            )
