"""Counts what requests cost a worker, per caller and per address, and refuses what is more than a budget allows.

Each worker counts its own. A refusal says when to retry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from headwater.schemas.errors import NotServing, TooManyRequests
from headwater.service.auth.caller import Caller
from headwater.service.auth.rights.rate_limits import too_many
from headwater.service.gate.route import Budget

REQUESTS_MAX = 8_192
"""Requests in progress per worker, including open streams and long polls."""
BODIES_OF_CALLER, BODIES_OF_WORKER = 4, 16
"""How many bodies of the largest size may be in memory at once; and answers, of as many bytes."""
AGAIN_SECONDS = 1.0
STREAMS_AGAIN_SECONDS = 10.0

_Key = tuple[str, Hashable]
K = TypeVar("K")


class Budgets:
    """One per worker; for its event loop alone."""

    def __init__(self, request_bytes_max: int, *, requests_max: int = REQUESTS_MAX) -> None:
        self._requests_max = requests_max
        self._of_caller_max = BODIES_OF_CALLER * request_bytes_max
        self._of_worker_max = BODIES_OF_WORKER * request_bytes_max
        self.requests = 0
        self.body_bytes = 0
        self.answer_bytes = 0
        self.refused = 0
        self.given_up = 0
        """Answers whose readers took nothing."""
        self._requests: dict[_Key, int] = {}
        self._uploads: Counter[_Key] = Counter()
        self._bytes: Counter[Hashable] = Counter()
        self._answers: Counter[Hashable] = Counter()

    def enter(self, budget: Budget, caller: Caller | None) -> _Key | None:
        """Takes a place; `leave` gives it back. ⚠ No work is done for who leaves too much of it unread."""
        if self.requests >= self._requests_max and not budget.is_reserved:
            self.refused += 1
            raise NotServing("this worker serves as many requests as it can.", remedy="Try again in a moment.")
        if self._answers and caller is not None:
            self._check_answers(caller.identity)
        key = None if caller is None or caller.development else (budget.name, caller.identity)
        if key is not None:
            open_now = self._requests.get(key, 0)
            if open_now >= budget.requests_of_caller_max:
                raise self._too_many(
                    f"this principal has {budget.requests_of_caller_max} requests open here.", STREAMS_AGAIN_SECONDS
                )
            self._requests[key] = open_now + 1
        self.requests += 1
        return key

    def leave(self, key: _Key | None) -> None:
        self.requests -= 1
        if key is not None:
            left = self._requests[key] - 1
            if left:
                self._requests[key] = left
            else:
                del self._requests[key]

    @contextmanager
    def upload(self, budget: Budget, owner: Hashable) -> Iterator[None]:
        """While a body arrives. ⚠ A place is held as long as its sender likes: few for each, so that some are left for all."""
        key = (budget.name, owner)
        if self._uploads[key] >= budget.uploads_max:
            raise self._too_many(f"{budget.uploads_max} bodies of this sender are on their way already.", AGAIN_SECONDS)
        self._uploads[key] += 1
        try:
            yield
        finally:
            _less(self._uploads, key)

    def take_bytes(self, owner: Hashable, count: int) -> None:
        """For bytes of a body that are kept until its request is answered."""
        if self._bytes[owner] + count > self._of_caller_max:
            raise self._too_many("bodies of this sender fill its share of the memory.", AGAIN_SECONDS)
        if self.body_bytes + self.answer_bytes + count > self._of_worker_max:
            raise self._full()
        self._bytes[owner] += count
        self.body_bytes += count

    def give_bytes_back(self, owner: Hashable, count: int) -> None:
        if count:
            self.body_bytes -= count
            _less(self._bytes, owner, count)

    def take_answer(self, owner: Hashable, count: int, *, is_done: bool) -> None:
        """For bytes of an answer until they are sent. One is never too large by itself: there only must be room before it.
        ⚠ The result of a finished mutation is always sent: a refusal would claim that it was not done."""
        if not is_done:
            self._check_answers(owner)
            if self.body_bytes + self.answer_bytes >= self._of_worker_max:
                raise self._full()
        self._answers[owner] += count
        self.answer_bytes += count

    def give_answer_back(self, owner: Hashable, count: int) -> None:
        self.answer_bytes -= count
        _less(self._answers, owner, count)

    def _check_answers(self, owner: Hashable) -> None:
        if self._answers.get(owner, 0) >= self._of_caller_max:
            raise self._too_many("answers that this caller has not read fill its share of the memory.", AGAIN_SECONDS)

    def _full(self) -> NotServing:
        self.refused += 1
        return NotServing("bodies and answers of many callers fill the memory.", remedy="Try again in a moment.")

    def _too_many(self, message: str, again_seconds: float) -> TooManyRequests:
        self.refused += 1
        return too_many(message, again_seconds)


def _less(counter: Counter[K], key: K, count: int = 1) -> None:
    """What is nought is forgotten."""
    counter[key] -= count
    if not counter[key]:
        del counter[key]
