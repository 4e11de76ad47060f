"""What serves an ACTIVE realm: kernel, watch, pages, catalogs. Cached, and checked again.

A realm that is known answers without the store; it is looked up again every second, so one that was closed or re-created under
its name is noticed. What is not known is always asked for: nothing is remembered as absent.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from headwater.persistence.commit.draft import Draft
from headwater.persistence.reading.head_watch import HeadWatch
from headwater.persistence.realms.realms import Realms
from headwater.persistence.store import RealmKernel, Store
from headwater.producer.catalogs.catalog_records import Catalog
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.pointer_names import CATALOGS
from headwater.schemas.errors import HeadwaterError, NotFound, RealmNotActive
from headwater.service.operations.encoded_entries import EncodedEntries
from headwater.service.operations.feed_pages import FeedPages

LOOK_AGAIN_SECONDS = 1.0
BELIEVED_SECONDS = 10.0
"""How long a realm is served on when it cannot be looked up again."""
CATALOGS_KEPT_MAX = 10_000

Landed = Callable[[str, Draft], None]
"""Called with every batch that this process commits."""

_log = logging.getLogger(__name__)


class RealmFeed:
    """One realm instance, served."""

    def __init__(self, kernel: RealmKernel, encoded: EncodedEntries, on_landed: Landed | None = None) -> None:
        self.kernel = kernel
        self.encoded = encoded
        if on_landed is not None:
            kernel.on_moved(on_landed)
        kernel.on_moved(self._encode)  # before the watch: readers that it wakes find the entries encoded
        self.watch = HeadWatch(kernel)
        self.pages = FeedPages(kernel, self.watch, encoded)
        self._catalogs = Catalogs(kernel)
        self._known_catalogs: dict[str, tuple[bytes, Catalog]] = {}
        self._catalog_names: tuple[bytes, dict[int, str]] = (b"", {})
        self.attached: dict[type, Any] = {}
        """What others know of this realm instance, kept for as long as it is served."""

    @property
    def name(self) -> str:
        return self.kernel.realm_name

    def known_catalog(self, name: str) -> Catalog | None:
        """From memory, if no catalog was made or dropped since it was read."""
        known, head = self._known_catalogs.get(name), self.watch.known(CATALOGS)
        return known[1] if known is not None and head is not None and head.newest.entry_id == known[0] else None

    def read_catalog(self, name: str) -> Catalog:
        """Strongly, and known from then on."""
        entry_id = self.watch.head(CATALOGS).newest.entry_id  # before the read: what changes in between is noticed by it
        catalog = self._catalogs.get(name)
        if len(self._known_catalogs) >= CATALOGS_KEPT_MAX:
            self._known_catalogs.clear()
        self._known_catalogs[name] = (entry_id, catalog)
        return catalog

    def known_catalog_name(self, id: int) -> str | None:
        """From memory, if no catalog was made or dropped since."""
        (entry_id, names), head = self._catalog_names, self.watch.known(CATALOGS)
        return names.get(id) if head is not None and head.newest.entry_id == entry_id else None

    def read_catalog_name(self, id: int) -> str | None:
        """None for one that was dropped, or never was."""
        entry_id = self.watch.head(CATALOGS).newest.entry_id
        if self._catalog_names[0] != entry_id:
            self._catalog_names = (entry_id, {catalog.id: catalog.name for catalog in self._catalogs.list()})
        return self._catalog_names[1].get(id)

    def close(self) -> None:
        self.watch.close()

    def _encode(self, pointer: str, draft: Draft) -> None:
        self.encoded.keep(f"{self.kernel.realm}/{pointer}", draft.entries, self.name)


class RealmFeeds:
    """All realms of one store. Thread-safe."""

    def __init__(self, store: Store, *, encoded_bytes_max: int, on_landed: Landed | None = None) -> None:
        self.store = store
        self._on_landed = on_landed
        self.encoded = EncodedEntries(encoded_bytes_max)
        store.restores.on_restored(self.encoded.clear)
        self._realms = Realms(store)
        self._system: RealmFeed | None = None
        self._feeds: dict[str, RealmFeed] = {}
        self._looked_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def known(self, name: str) -> RealmFeed | None:
        """From memory; None if it is not known or must be looked up again. Never asks the store."""
        feed = self._feeds.get(name)
        if feed is None or time.monotonic() - self._looked_at[name] > LOOK_AGAIN_SECONDS:
            return None
        return feed

    def require(self, name: str) -> RealmFeed:
        """The feed of an ACTIVE realm, looked up if that was not done lately. May ask the store."""
        known = self.known(name)
        return known if known is not None else self._look_up(name)

    @property
    def known_system(self) -> RealmFeed | None:
        return self._system

    def system(self) -> RealmFeed:
        """The feed of `::system::`: of realms, system administrators and their rights. ⚠ It is never `known`: an API that does
        not ask for it by this name does not get it."""
        with self._lock:
            if self._system is None:
                self._system = RealmFeed(self.store.system, self.encoded)
            return self._system

    def _look_up(self, name: str) -> RealmFeed:
        try:
            kernel = self._realms.require_active(name)
        except (NotFound, RealmNotActive):
            self._forget(name)
            raise
        except HeadwaterError:
            feed = self._feeds.get(name)
            if feed is not None and time.monotonic() - self._looked_at[name] < BELIEVED_SECONDS:
                return feed
            raise
        return self._serve(name, kernel)

    def check_store(self) -> None:
        """One cheap read of what every request needs; raises if it fails."""
        self._realms.list(limit=1)

    def look_again(self) -> None:
        """At all that are served: one that was closed ends, with those who wait at it, though nobody asks for it."""
        for name in list(self._feeds):
            with contextlib.suppress(HeadwaterError):
                self._look_up(name)

    def all_known(self) -> list[RealmFeed]:
        return list(self._feeds.values())

    def close(self) -> None:
        for feed in self.all_known():
            feed.close()
        if self._system is not None:
            self._system.close()

    def _serve(self, name: str, kernel: RealmKernel) -> RealmFeed:
        with self._lock:
            feed = self._feeds.get(name)
            if feed is None or feed.kernel is not kernel:
                if feed is not None:
                    _log.info("realm %s is another instance now", name)
                    threading.Thread(target=feed.close, daemon=True).start()
                feed = self._feeds[name] = RealmFeed(kernel, self.encoded, self._on_landed)
            self._looked_at[name] = time.monotonic()
            return feed

    def _forget(self, name: str) -> None:
        with self._lock:
            feed = self._feeds.pop(name, None)
            self._looked_at.pop(name, None)
        if feed is not None:
            threading.Thread(target=feed.close, daemon=True).start()
