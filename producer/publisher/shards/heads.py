"""Watches a realm's pointers, own commits at once and others by polling, and reports to each shard which have moved."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from headwater.persistence.commit.draft import Draft
from headwater.persistence.reading.moved_pointers import MovedPointers
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.topics import partition_of

SWEEP_SECONDS = 60.0
"""How often every pointer is read, regardless of reported moves."""
PAGE_NAMES = 1_000

_log = logging.getLogger(__name__)


class Inbox:
    """The pointers of one shard whose rows have changed since it looked."""

    def __init__(self, shard: int, shards: int) -> None:
        self.shard = shard
        self.shards = shards
        self._dirty: dict[str, PointerRow] = {}
        self._gone: set[str] = set()
        self._lock = threading.Lock()
        self._filled = threading.Event()

    def put(self, pointer: str, row: PointerRow) -> None:
        if partition_of(pointer, self.shards) == self.shard:
            with self._lock:
                self._dirty[pointer] = row
            self._filled.set()

    def take(self) -> dict[str, PointerRow]:
        with self._lock:
            taken, self._dirty = self._dirty, {}
            self._filled.clear()
            return taken

    def put_gone(self, pointer: str) -> None:
        """Its row is not there any more."""
        if partition_of(pointer, self.shards) == self.shard:
            with self._lock:
                self._gone.add(pointer)
            self._filled.set()

    def take_gone(self) -> set[str]:
        with self._lock:
            taken, self._gone = self._gone, set()
            return taken

    def waiting(self) -> dict[str, PointerRow]:
        """The heads that were not taken yet."""
        with self._lock:
            return dict(self._dirty)

    def wait(self, seconds: float) -> None:
        self._filled.wait(seconds)

    def wake(self) -> None:
        self._filled.set()


class RealmHeads:
    """Rows of all pointers of one realm. One thread, as long as a shard of the realm is published here."""

    def __init__(self, kernel: RealmKernel, poll_seconds: Callable[[], float]) -> None:
        self._kernel = kernel
        self._poll_seconds = poll_seconds
        self._rows: dict[str, PointerRow] = {}
        self._inboxes: list[Inbox] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._moved = MovedPointers(kernel)
        self._swept_at = float("-inf")
        self._epoch = kernel.store.restores.epoch
        self.ready = threading.Event()
        """Set when every pointer has been read once."""
        self._thread = threading.Thread(target=self._poll_until_closed, name="publisher-heads", daemon=True)
        kernel.on_moved(self._moved_here)
        self._thread.start()

    def subscribe(self, inbox: Inbox) -> None:
        """It gets every row that is known, then those that change."""
        with self._lock:
            self._inboxes.append(inbox)
            rows = list(self._rows.items())
        for pointer, row in rows:
            inbox.put(pointer, row)

    def unsubscribe(self, inbox: Inbox) -> None:
        with self._lock:
            self._inboxes.remove(inbox)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def sweep(self) -> None:
        """Read every pointer of the realm."""
        self._moved.start()
        with self._lock:
            unnamed = set(self._rows)
        for names in self._kernel.store.backend.name_pages(self._kernel.realm):
            self._read(names)
            unnamed.difference_update(names)
        self._forget(sorted(unnamed))
        self._swept_at = time.monotonic()
        self.ready.set()

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────────

    def _moved_here(self, pointer: str, draft: Draft) -> None:
        if draft.head.row is not None and not self._closing.is_set():
            self._learn(pointer, draft.head.row)

    def _learn(self, pointer: str, row: PointerRow) -> None:
        with self._lock:
            known = self._rows.get(pointer)
            if not row.head or (known is not None and known.version >= row.version):
                return
            self._rows[pointer] = row
            inboxes = tuple(self._inboxes)
        for inbox in inboxes:
            inbox.put(pointer, row)

    def _forget(self, names: list[str]) -> None:
        """Those that have lost their names, once their rows are gone too: their shards look why."""
        for start in range(0, len(names), PAGE_NAMES):
            page = names[start : start + PAGE_NAMES]
            there = self._kernel.store.backend.read_pointers(self._kernel.realm, page)
            for pointer in page:
                if pointer not in there:
                    with self._lock:
                        self._rows.pop(pointer, None)
                        inboxes = tuple(self._inboxes)
                    for inbox in inboxes:
                        inbox.put_gone(pointer)

    def _poll_until_closed(self) -> None:
        while not self._closing.is_set():
            try:
                self._forget_if_restored()
                if time.monotonic() - self._swept_at > SWEEP_SECONDS:
                    self.sweep()
                else:
                    self._poll()
            except HeadwaterError as error:
                _log.warning("%s: the store was not asked for moves: %s", self._kernel.realm, error)
                self._closing.wait(1.0)
            self._closing.wait(self._poll_seconds())

    def _forget_if_restored(self) -> None:
        """Rows of a store that was restored count on from older versions, and so do its moves: all of them are read again."""
        restores = self._kernel.store.restores
        restores.check_if_due()
        if self._epoch != restores.epoch:
            self._epoch, self._swept_at = restores.epoch, float("-inf")
            with self._lock:
                self._rows.clear()

    def _poll(self) -> None:
        for name, row in self._moved.read_moved(self._is_news).items():
            self._learn(name, row)

    def _is_news(self, name: str, version: int | None) -> bool:
        known = self._rows.get(name)
        return known is None or version is None or version > known.version

    def _read(self, names: list[str]) -> None:
        for name, row in self._kernel.store.backend.read_pointers(self._kernel.realm, names).items():
            self._learn(name, row)
