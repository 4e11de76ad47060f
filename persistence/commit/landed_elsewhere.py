"""Finds out from the log whether another process has landed a request that was handed over to it.

A request is handed over together with a position: an entry that was in the log before. If the request lands, its entry comes
after that one, in whichever process. So a lane that is about to plan the request on a head first searches the entries between,
and the CAS on that head decides the rest: it fails if another process lands something later.
⚠ A log in which the position is not found was restored from a backup, or has expired: then the outcome is unknown.

A caller's own request id may be in the log for another request of that caller, so it is looked up by its row as always
(request_search); the row has the token of the hand-over, which shows whether it is this request or an earlier one.
"""

from __future__ import annotations

from typing import NamedTuple

from headwater.persistence.log.head import Head
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import LogWalk
from headwater.schemas.errors import CommitOutcomeUnknown, ObjectNotFound

ENTRIES_MAX = 10_000
"""How many entries are searched. If more have come since, the outcome is unknown."""


class NotLookedBack(CommitOutcomeUnknown):
    """The log does not show it, and the lane has not planned the request: the worker that offered it may still commit it."""


class LogPosition(NamedTuple):
    """An entry that was in the pointer's log."""

    seq: int
    entry_id: bytes


class HandedOver(NamedTuple):
    """For a request that several processes may land: after which entry, and how its row differs from those of others."""

    after: LogPosition
    token: bytes


class OwnEntries:
    """The entry after which all others are this lane's own: none of them belongs to another process."""

    def __init__(self) -> None:
        self._first = 0
        self._known = False

    def begin(self, head: Head) -> None:
        """Start at a head that other processes left."""
        self._first, self._known = head.seq, True

    def cover(self, after: LogPosition, head: Head) -> bool:
        """Whether all entries from there to the head are the lane's own."""
        return self._known and self._first <= after.seq <= head.seq


def landed_since(walk: LogWalk, head: Head, after: LogPosition, request_id: str) -> LogRecord | Exception | None:
    """The newest entry of the request after the position, None if there is none in the log that ends in the head."""
    count = head.seq - after.seq
    if not 0 <= count <= ENTRIES_MAX:
        return _unknown(request_id, "the history is not the one that it was handed over in.")
    try:
        before, found = head.entry_id, None
        for logged in walk.backward(walk.header(head.entry_id), count) if count else ():
            before = logged.entry.previous
            if found is None and logged.entry.request_id == request_id:
                found = logged
    except ObjectNotFound:
        return _unknown(request_id, "the history that would tell has expired.")
    if before != after.entry_id:
        return _unknown(request_id, "the history is not the one that it was handed over in.")
    return found


def _unknown(request_id: str, why: str) -> NotLookedBack:
    return NotLookedBack(
        f"the request {request_id} was handed over to another process, and {why}",
        remedy="Look for the request id in the log before committing again.",
        request_id=request_id,
    )
