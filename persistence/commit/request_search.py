"""Finds requests that were committed before, before they are planned: in memory, then by one bulk read of their rows.

⚠ A row counts only if its entry is in the log that ends in the head that the batch is planned on. What is not found there is
not in that log, for a row is written before its entry lands; so whatever lands on that head was never committed before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from headwater.persistence.log.committed_requests import CommittedRequest, find_committed
from headwater.persistence.log.head import Head
from headwater.persistence.log.log_walk import LogWalk
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.schemas.errors import CommitOutcomeUnknown, IdempotencyKeyReused, ObjectNotFound

REMEMBERED_REQUESTS_MAX = 1_000


class RequestSearch:
    """The search of one lane."""

    def __init__(self, objects: RealmObjects, pointer: str) -> None:
        self._objects = objects
        self._pointer = pointer
        self._remembered: OrderedDict[str, CommittedRequest] = OrderedDict()
        self._found: dict[str, CommittedRequest] = {}
        """Results for the requests looked up last. ⚠ Kept apart from `_remembered`, which may drop some within a batch."""
        self._undecided: dict[str, CommittedRequest] = {}

    def look_up(self, request_ids: Sequence[str], head: Head) -> None:
        """Ask the store for those that are not remembered. Of an entry whose history is gone, a row proves that it was
        committed where rows and pointer were written in one transaction; elsewhere nothing does."""
        self._undecided.clear()
        self._found = {known: self._remembered[known] for known in request_ids if known in self._remembered}
        wanted = [request_id for request_id in request_ids if request_id not in self._found]
        if not wanted or head.row is None:
            return
        objects = self._objects
        for found in find_committed(objects.backend, objects.realm, self._pointer, wanted):
            try:
                if self._is_logged(found, head):
                    self._found[found.request_id] = found
            except ObjectNotFound:
                if found.seq >= head.row.floor:
                    raise
                if objects.backend.abilities.commits_in_one_transaction and not found.is_unproven:
                    self._found[found.request_id] = found
                else:
                    self._undecided[found.request_id] = found
        for found in self._found.values():
            self.remember(found)

    def committed(self, request_id: str, fingerprint: bytes) -> CommittedRequest | None:
        """What the request became, if it was found when it was looked up."""
        if (found := self._found.get(request_id)) is not None:
            check_same(found, fingerprint)
            return found
        if (undecided := self._undecided.get(request_id)) is not None:
            raise CommitOutcomeUnknown(
                f"{self._pointer}: the request was prepared as seq {undecided.seq}, and the history that would tell whether it "
                "was committed has expired.",
                remedy="Read the state, and use a new request id if the change is not there.",
                entry_id=undecided.entry_id.hex(),
            )
        return None

    def remember(self, found: CommittedRequest) -> None:
        self._remembered[found.request_id] = found
        while len(self._remembered) > REMEMBERED_REQUESTS_MAX:
            self._remembered.popitem(last=False)

    def forget(self) -> None:
        self._remembered.clear()
        self._found.clear()
        self._undecided.clear()

    def _is_logged(self, found: CommittedRequest, head: Head) -> bool:
        if found.seq > head.seq:
            return False
        walk = LogWalk(self._objects)
        return walk.at(walk.header(head.entry_id), found.seq).entry_id == found.entry_id


def check_same(committed: CommittedRequest, fingerprint: bytes) -> None:
    """⚠ An id that was used for another request must not be answered as if this one had been committed."""
    if committed.fingerprint and fingerprint and committed.fingerprint != fingerprint:
        raise IdempotencyKeyReused(
            "the same key came before with another request.",
            field="Idempotency-Key",
            remedy="Use a new key for every request.",
            entry_id=committed.entry_id.hex(),
        )
