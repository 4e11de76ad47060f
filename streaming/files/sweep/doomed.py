"""Realms and catalogs that are about to be purged: what they need no longer counts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headwater.producer.pointer_names import catalog_prefix
from headwater.streaming.files.sweep.roots import Root
from headwater.streaming.reachability.retained_identifiers import Span


class Doomed(msgspec.Struct, frozen=True, kw_only=True):
    roots: tuple[Root, ...]
    """Roots below which their files are deleted, if no other realm needs them."""
    realms: frozenset[str] = frozenset()
    """Instances that go as a whole; they are closed, so nothing is committed there any more."""
    catalogs: frozenset[tuple[str, int]] = frozenset()
    """Realm instance and catalog, dropped."""
    grace: bool = False
    """Whether young files stay: others may be writing below these roots."""

    def others(self, realm: str, spans: Mapping[str, Span]) -> dict[str, Span]:
        """What still counts in a realm."""
        gone = tuple(catalog_prefix(catalog_id) for instance, catalog_id in self.catalogs if instance == realm)
        return {pointer: span for pointer, span in spans.items() if not (gone and pointer.startswith(gone))}
