"""The newest known head of any pointer, from own commits and the moves of other processes, without a read.

Own commits wake waiters at once. Moves of others are noticed within `poll_seconds`, or as soon as the database hints at them,
by one question for the whole realm whose cost grows with the moves and not with the pointers. When that question fails, every
answer is read strongly again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from headwater.persistence.commit.draft import Draft
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.reading.moved_pointers import MovedPointers
from headwater.persistence.reading.pointer_log import LogHead, PointerLog, ended_head
from headwater.persistence.rows import PointerRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import HeadwaterError, PointerPurged, StoreUnavailable

STALE_POLLS = 20
"""After so many intervals without a successful poll, known heads no longer count as new."""

Wake = Callable[[], None]

_log = logging.getLogger(__name__)


class HeadWatch:
    """Heads of one realm's pointers. Start it with the first question; close it with the store."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._kernel = kernel
        self._poll_seconds = kernel.store.options.poll_seconds
        self._heads: dict[str, LogHead] = {}
        self._ends: dict[str, LogHead] = {}
        """Of pointers that were purged."""
        self._waiters: dict[str, set[Wake]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._moved = MovedPointers(kernel)
        self._being_read: Counter[str] = Counter()
        """⚠ A move that arrives while a head is being read must not be missed."""
        self._polled_at = 0.0
        self._thread: threading.Thread | None = None
        self._nudged = threading.Event()
        self._stop_listening: Callable[[], None] | None = None
        self._restores = kernel.store.restores
        self._restores.on_restored(self._forget)
        self._moves_epoch = self._restores.epoch
        kernel.on_moved(self._moved_here)
        kernel.on_moved_by_peer(self._moved_by_peer)

    def head(self, pointer: str) -> LogHead:
        """From memory if it is known and fresh; otherwise read strongly, and known from then on."""
        self._start()
        known = self._heads.get(pointer)
        if known is not None and self._is_fresh():
            return known
        epoch = self._restores.epoch
        with self._lock:
            self._being_read[pointer] += 1
        try:
            head = PointerLog(self._kernel, pointer).head()
            self._learn(pointer, head.row, head.newest, epoch)
        finally:
            with self._lock:
                self._being_read[pointer] -= 1
                self._being_read += Counter()  # forgets what is at 0
        return head

    def head_or_end(self, pointer: str) -> LogHead:
        """The head, or where the log of a purged pointer ended: a reader at that position reads on, and nothing follows."""
        ended = self.known_end(pointer)
        if ended is not None:
            return ended
        try:
            return self.head(pointer)
        except PointerPurged as purged:
            self._ends[pointer] = ended_head(pointer, purged)
            return self._ends[pointer]

    def known_end(self, pointer: str) -> LogHead | None:
        """The end of a pointer that is known to be purged. Never asks the store."""
        ended = self._ends.get(pointer)
        return ended if ended is not None and pointer not in self._heads and self._is_fresh() else None

    def known(self, pointer: str) -> LogHead | None:
        """The head if it is in memory and fresh. Never asks the store, so an event loop may call it."""
        known = self._heads.get(pointer)
        return known if known is not None and self._is_fresh() else None

    def wait(self, pointer: str, after_seq: int, timeout_seconds: float) -> LogHead:
        """The head as soon as it is beyond `after_seq`, or as it is when the time is over."""
        moved, epoch = threading.Event(), self._restores.epoch
        self.add_waiter(pointer, moved.set)
        try:
            head = self.head_or_end(pointer)
            deadline = time.monotonic() + timeout_seconds
            while head.seq <= after_seq and moved.wait(max(0.0, deadline - time.monotonic())):
                moved.clear()
                head = self.head_or_end(pointer)
                if self._restores.epoch != epoch:  # what was waited for may never come: the caller must look
                    break
            return head
        finally:
            self.remove_waiter(pointer, moved.set)

    async def wait_async(self, pointer: str, after_seq: int, timeout_seconds: float) -> LogHead:
        loop, moved, epoch = asyncio.get_running_loop(), asyncio.Event(), self._restores.epoch

        def wake() -> None:
            loop.call_soon_threadsafe(moved.set)

        self.add_waiter(pointer, wake)
        try:
            is_known = pointer in self._heads
            head = self.head_or_end(pointer) if is_known else await asyncio.to_thread(self.head_or_end, pointer)
            deadline = loop.time() + timeout_seconds
            while head.seq <= after_seq and deadline > loop.time():
                try:
                    await asyncio.wait_for(moved.wait(), deadline - loop.time())
                except TimeoutError:
                    break
                moved.clear()
                is_known = pointer in self._heads
                head = self.head_or_end(pointer) if is_known else await asyncio.to_thread(self.head_or_end, pointer)
                if self._restores.epoch != epoch:
                    break
            return head
        finally:
            self.remove_waiter(pointer, wake)

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
        self._closing.set()
        self._nudged.set()
        if self._thread is not None:
            self._thread.join()

    # ── learning ────────────────────────────────────────────────────────────────────────────────────────────

    def _moved_here(self, pointer: str, draft: Draft) -> None:
        head = draft.head
        if head.row is not None and head.entry is not None and (pointer in self._heads or pointer in self._waiters):
            self._learn(pointer, head.row, LogRecord(head.entry_id, head.entry), self._restores.epoch)

    def _moved_by_peer(self, pointer: str, row: PointerRow, newest: LogRecord) -> None:
        if pointer in self._heads or pointer in self._waiters:
            self._learn(pointer, row, newest, self._restores.epoch)

    def _learn(self, pointer: str, row: PointerRow, newest: LogRecord, epoch: int) -> None:
        """Remember the head, unless it was read before the store was restored."""
        with self._lock:
            known = self._heads.get(pointer)
            if epoch != self._restores.epoch or (known is not None and known.row.version >= row.version):
                return
            self._heads[pointer] = LogHead(row, newest)
            waiters = tuple(self._waiters.get(pointer, ()))
        self._restores.landed(self._kernel.realm, pointer, row)
        for wake in waiters:
            wake()

    def _forget(self) -> None:
        """The store was restored: nothing that is known counts, and all waiters look again."""
        with self._lock:
            self._heads.clear()
            self._ends.clear()
            waiters = [wake for wakes in self._waiters.values() for wake in wakes]
        for wake in waiters:
            wake()

    def add_waiter(self, pointer: str, wake: Wake) -> None:
        """Have `wake` called, on whatever thread, when the pointer's row is seen to have moved."""
        with self._lock:
            self._waiters.setdefault(pointer, set()).add(wake)

    def remove_waiter(self, pointer: str, wake: Wake) -> None:
        with self._lock:
            self._waiters[pointer].discard(wake)
            if not self._waiters[pointer]:
                del self._waiters[pointer]

    # ── other processes ─────────────────────────────────────────────────────────────────────────────────────

    def _is_fresh(self) -> bool:
        return time.monotonic() - self._polled_at < STALE_POLLS * self._poll_seconds

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                self._polled_at = time.monotonic()
                self._moved.start()
                self._thread = threading.Thread(target=self._poll_until_closed, name="head-watch", daemon=True)
                self._thread.start()
                self._stop_listening = self._kernel.store.backend.listen(self._nudged.set)

    def _poll_until_closed(self) -> None:
        while True:
            self._nudged.wait(self._poll_seconds)
            self._nudged.clear()
            if self._closing.is_set():
                return
            began = time.monotonic()
            try:
                self._poll()
            except StoreUnavailable:  # known heads grow stale, and are read strongly until it is over
                continue
            except HeadwaterError:  # one bad pointer must not end the watch of all: heads count as stale until it is repaired
                _log.exception("looking for moved pointers failed")
                continue
            self._polled_at = began

    def _poll(self) -> None:
        self._restores.check_if_due()
        epoch = self._restores.epoch
        if self._moves_epoch != epoch:  # the database counts its moves from an older number again
            self._moved.start()
            self._forget()
            self._moves_epoch = epoch
        for name, row in self._moved.read_moved(self._is_news).items():
            known = self._heads.get(name)
            if row.head and (known is None or row.version > known.row.version):
                self._learn(name, row, self._kernel.walk.header(row.head), epoch)

    def _is_news(self, name: str, version: int | None) -> bool:
        known = self._heads.get(name)
        if known is None:
            return name in self._being_read
        return version is None or version > known.row.version
