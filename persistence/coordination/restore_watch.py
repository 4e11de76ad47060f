"""Detects that the store was restored underneath this process, and notifies everything that keeps state.

Checked once a second by working threads (lanes, head watches, id generators), never by a thread of its own: the incarnation,
what the database says of its copy of the data, and the pointers that this process saw move last. A backup lacks the newest
commits first, so those tell.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable

from headwater.persistence.backend import Backend
from headwater.persistence.clock import MICROS, Clock
from headwater.persistence.coordination.incarnation import (
    Incarnation,
    ensure_incarnation,
    is_another_copy,
    read_incarnation,
    replace_incarnation,
)
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import HeadwaterError, OutcomeUnknown, StoreRefused, StoreRestored, StoreUnavailable

CHECK_SECONDS = 1.0
_CHECK_MICROS = int(CHECK_SECONDS * MICROS)
SETTLE_SECONDS = 2.0
"""Ids are made this long after a new incarnation began: by then all who still held a node of the old one have noticed."""
MOVES_KEPT_MAX = 8

Listener = Callable[[], None]
InLog = Callable[[str, PointerRow, PointerRow], bool]
"""Whether the head of the second row is in the log that ends in the head of the first."""

_log = logging.getLogger(__name__)


class RestoreWatch:
    """The watch of one open store. Thread-safe."""

    def __init__(self, backend: Backend, clock: Clock, in_log: InLog) -> None:
        self.epoch = 0
        """Incremented with each restore that this process notices: what was prepared in an earlier epoch is not written."""
        self._backend = backend
        self._clock = clock
        self._in_log = in_log
        self._incarnation: Incarnation | None = None
        self._copy = ""
        self._listeners: list[Listener] = []
        self._moves: OrderedDict[tuple[str, str], PointerRow] = OrderedDict()
        self._lock = threading.Lock()
        self._checking = threading.RLock()
        self._check_at = 0

    @property
    def incarnation(self) -> Incarnation:
        """As of the last check."""
        if self._incarnation is None:
            with self._checking:
                if self._incarnation is None:
                    incarnation = ensure_incarnation(self._backend, self._clock)
                    self._copy = self._backend.data_copy()
                    self._incarnation = incarnation
                    self._check_at = self._clock.now_micros() + _CHECK_MICROS
        return self._incarnation

    @property
    def copy(self) -> str:
        """Of the data that everything rests on which this process remembers: what it prepares is written into this copy alone.
        ⚠ After a restore it is the new one only when everybody has forgotten the old."""
        if self._incarnation is None:
            _ = self.incarnation
        return self._copy

    @property
    def history(self) -> str:
        """Equal while the store was not restored, as far as this process has noticed. Of all processes on one machine alike."""
        return f"{self.copy} {self.incarnation.id}"

    def ids_from(self) -> int:
        """The time in microseconds before which no node is leased."""
        known = self.incarnation
        return known.since + int(SETTLE_SECONDS * MICROS) if known.number > 1 else 0

    def on_restored(self, listener: Listener) -> None:
        """Have it called, on the thread that notices, whenever the store was restored: forget what was read before. It must be
        quick, and is never removed."""
        with self._lock:
            self._listeners.append(listener)

    def landed(self, realm: str, pointer: str, row: PointerRow) -> None:
        """The row was read, or written and acknowledged."""
        key = (realm, pointer)
        with self._lock:
            self._moves[key] = row
            self._moves.move_to_end(key)
            if len(self._moves) > MOVES_KEPT_MAX:
                self._moves.popitem(last=False)

    def check_if_due(self) -> None:
        """Once a second, whatever the clock does. A store that does not answer is asked again the next time."""
        if not self._is_due():
            return
        if not self._checking.acquire(blocking=False):
            return
        try:
            if self._is_due():
                self._check_at = self._clock.now_micros() + _CHECK_MICROS
                self.check()
        except (StoreUnavailable, StoreRefused, OutcomeUnknown):
            return
        finally:
            self._checking.release()

    def _is_due(self) -> bool:
        """⚠ A clock that was set back would put off the next look by as much."""
        left = self._check_at - self._clock.now_micros()
        return left <= 0 or left > _CHECK_MICROS

    def check(self) -> None:
        """Check now."""
        try:
            self._look()
        except StoreRestored:
            self.replaced()

    def _look(self) -> None:
        with self._checking:
            known = self.incarnation
            there = read_incarnation(self._backend)
            if there is None or there.id != known.id:
                self._begin(there or ensure_incarnation(self._backend, self._clock), forget=bool(known.id))
            elif is_another_copy(there, self._backend.data_identity()):
                self.went_back("the database holds another copy of the data than before")
            elif lost := self._lost_move():
                self.went_back(f"{lost} lacks a commit that had landed")

    def replaced(self) -> None:
        """The backend says that its data are not those of before. Another process may have noticed first."""
        with self._checking:
            epoch = self.epoch
            for _ in range(2):  # a backend may say so once for reading and once for writing
                try:
                    self._look()
                    break
                except StoreUnavailable as unavailable:
                    _log.info("the store cannot be looked at after a restore: %s", unavailable)
            if self.epoch == epoch:
                self._begin(self.incarnation, forget=True)

    def went_back(self, reason: str) -> None:
        """The store was seen not to be what it was: all others learn of it too, and this process forgets."""
        with self._checking:
            known = self.incarnation
            try:
                new = replace_incarnation(self._backend, self._clock, known if known.id else None, reason)
            except HeadwaterError:  # it may only be read, or does not answer: this process forgets all the same
                _log.exception("the new incarnation of the store could not be written")
                new = known
            self._begin(new, forget=True)

    def _begin(self, incarnation: Incarnation, *, forget: bool) -> None:
        self._incarnation = incarnation
        if not forget:
            return
        copy = self._copy_now()
        _log.warning("the store was restored (%s); what this process remembers of it is forgotten", incarnation.reason)
        with self._lock:
            self._moves.clear()
            listeners = tuple(self._listeners)
        self.epoch += 1
        for listener in listeners:
            try:
                listener()
            except Exception:  # the others must forget too
                _log.exception("a listener failed after a restore")
        self._copy = copy

    def _copy_now(self) -> str:
        """Read before anything is forgotten: what is read behind this is of that copy, or of a later one. While the store
        does not answer, the old one, into which nothing can be written."""
        for _ in range(2):  # a backend may say once that the data were replaced
            try:
                return self._backend.data_copy()
            except HeadwaterError as error:
                _log.info("which copy of the data the store holds is not known yet: %s", error)
        return self._copy

    def _lost_move(self) -> str | None:
        """The name of a pointer whose log lacks what this process knows of it. One that is not there was purged, or is too
        new for the backup: then the pointers beside it tell."""
        with self._lock:
            moves = list(self._moves.items())
        for (realm, pointer), known in moves:
            row = self._backend.read_pointer(realm, pointer)
            if row is None or (row.version, row.head) == (known.version, known.head):
                continue
            if row.version <= known.version or not self._in_log(realm, row, known):
                return pointer
        return None
