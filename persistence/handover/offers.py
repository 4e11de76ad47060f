"""The requests that this worker has offered to another one, from the offer to the outcome; and those that it has taken."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any, NamedTuple

import msgspec

from headwater.persistence.commit.commit_outcome import CommitOutcome
from headwater.persistence.commit.commit_request import CommitRequest
from headwater.persistence.commit.landed_elsewhere import HandedOver, NotLookedBack
from headwater.persistence.commit.replies import Reply
from headwater.persistence.handover.connection import Connection
from headwater.persistence.handover.declared_requests import DECLARED_REQUESTS, DeclaredRequest
from headwater.persistence.handover.messages import (
    NO_REPORT,
    Declined,
    Offer,
    Outcome,
    Refusal,
    encoded,
    error_of,
    outcome_of,
    refusal_of,
)

PENDING_MAX = 10_000
UNSENT_BYTES_MAX = 16 * 1024 * 1024
BODY_BYTES_MAX = 1024 * 1024
"""A larger request costs more to send than a race for the row does."""


class Offered(NamedTuple):
    realm: str
    pointer: str
    request: CommitRequest
    reply: Reply[CommitOutcome]
    handed_over: HandedOver
    declared: DeclaredRequest[Any, Any]

    def give(self, answer: Outcome | Refusal) -> None:
        report = self.declared.report
        if report is not None and answer.report != NO_REPORT:
            report.take(self.request, msgspec.msgpack.decode(answer.report, type=report.type))
        if isinstance(answer, Refusal):
            self.reply.give(error_of(answer))
        else:
            self.reply.give(CommitOutcome(self.pointer, answer.logged, answer.head_seq, answer.head_commit, answer.replayed))


class Peer:
    """Another worker, as this one hands requests over to it."""

    def __init__(self, name: str, connection: Connection) -> None:
        self.name = name
        self.connection = connection
        self.is_live = False
        """Whether it has answered a ping and accepts new requests."""
        self._pending: dict[int, Offered] = {}
        self._waiting_since = time.monotonic()
        """Since when at least one is pending."""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def silent_seconds(self) -> float:
        """⚠ Counted only while an outcome is due: an idle connection is not a silent one."""
        return time.monotonic() - max(self.connection.heard_at, self._waiting_since)

    def offer(self, offered: Offered) -> bool:
        if self.connection.unsent_bytes > UNSENT_BYTES_MAX:
            return False
        body = encoded(offered.declared.declare(offered.request))
        if len(body) > BODY_BYTES_MAX:
            return False
        with self._lock:
            if not self.is_live or len(self._pending) >= PENDING_MAX or not offered.reply.is_wanted():
                return False
            number = next(self._numbers)
            if not self._pending:
                self._waiting_since = time.monotonic()
            self._pending[number] = offered
            self.connection.post(
                Offer(number, offered.realm, offered.pointer, offered.declared.name, body, offered.handed_over)
            )
        return True

    def take(self, number: int) -> Offered | None:
        with self._lock:
            return self._pending.pop(number, None)

    def lose(self) -> list[Offered]:
        """The requests without an outcome. None can be added afterwards."""
        with self._lock:
            self.is_live = False
            lost = list(self._pending.values())
            self._pending.clear()
        self.connection.close()
        return lost


class TakenReply:
    """Waits in a lane of this worker for the worker that has offered the request."""

    __slots__ = ("_connection", "_number", "_request", "_was_given")

    def __init__(self, connection: Connection, number: int, request: CommitRequest) -> None:
        self._connection = connection
        self._number = number
        self._request = request
        self._was_given = False

    def is_wanted(self) -> bool:
        return True

    def is_given(self) -> bool:
        return self._was_given

    def give(self, answer: CommitOutcome | BaseException) -> None:
        self._was_given = True
        declared = DECLARED_REQUESTS.of(self._request)
        seen = None if declared is None or declared.report is None else declared.report.seen(self._request)
        report = NO_REPORT if seen is None else encoded(seen)
        if isinstance(answer, NotLookedBack):
            # ⚠ The sender's position is too old or has expired. Nothing was planned here, so the sender may commit.
            self._connection.post(Declined(self._number))
        elif isinstance(answer, BaseException):
            self._connection.post(refusal_of(self._number, answer, report))
        else:
            self._connection.post(outcome_of(self._number, answer, report))


class ReturnedReply:
    """The reply of a request that came back without an outcome. It was wanted before the offer, and still counts as wanted."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply[CommitOutcome]) -> None:
        self._reply = reply

    def is_wanted(self) -> bool:
        return True

    def is_given(self) -> bool:
        return self._reply.is_given()

    def give(self, answer: CommitOutcome | BaseException) -> None:
        self._reply.give(answer)
