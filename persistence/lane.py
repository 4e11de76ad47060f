"""Requests for one pointer enter, from any thread; each leaves with its own answer, all that waited behind a single CAS.

A lane takes everything that waits, applies request after request to the head that it holds in memory, writes the new objects
in one batch and moves the pointer once. A request that the head refuses fails alone.
⚠ A negative answer is given only against a head that this batch's CAS confirmed or that was read strongly after the request
came. ⚠ Before a request is applied again, it is looked for in the log by its request id.
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from headwater.persistence.attempt import Attempt, AttemptStats, closed
from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.draft import Draft, IdSource, Plan
from headwater.persistence.head import Head, load_head
from headwater.persistence.log_entry import Logged
from headwater.persistence.log_walk import LogWalk
from headwater.persistence.realm_objects import RealmObjects
from headwater.persistence.retries import RetryPolicy
from headwater.persistence.rows import FENCE_CLOSED
from headwater.schemas.errors import (
    CommitOutcomeUnknown,
    CommitRetriesExhausted,
    HeadwaterError,
    LaneFull,
    OutcomeUnknown,
    StoreUnavailable,
)

BATCH_REQUESTS_MAX = 256
WAITING_REQUESTS_MAX = 10_000
REMEMBERED_REQUESTS_MAX = 10_000
MICROS = 1_000_000


class CommitRequest(Protocol):
    """What a lane applies. `plan` is called once for each attempt, always with the state that it would commit onto."""

    @property
    def request_id(self) -> str: ...

    @property
    def request_id_is_callers(self) -> bool:
        """Whether the caller brought the id along, so that the same request may have come before."""

    def plan(self, draft: Draft) -> Plan | Iterator[Plan] | None:
        """What to append; None for nothing to do; raises what the head refuses. An iterator gives several entries, all or
        none, and sees the draft move on to each before it is asked for the next."""


class Answer(msgspec.Struct, frozen=True):
    """What became of a request: its entry, or None when there was nothing to do, and the head that says so."""

    logged: Logged | None
    head_seq: int
    head_commit: bytes
    replayed: bool = False
    """The entry was there already, under the same request id."""


class LaneStats(AttemptStats):
    commits: int = 0
    batches: int = 0
    refused: int = 0
    replayed: int = 0
    batch_requests_max: int = 0


class LaneContext(msgspec.Struct, frozen=True):
    """What all lanes of a realm share."""

    backend: Backend
    realm: str
    objects: RealmObjects
    ids: IdSource
    clock: Clock
    policy: RetryPolicy
    chance: random.Random
    moved: Callable[[str, Draft], None] | None = None
    """Told of every batch that landed, before anyone is answered."""
    lookback_entries: int = 1_000
    """How far a lane that starts cold looks back for request ids that callers bring along."""


class Waiting(msgspec.Struct):
    request: CommitRequest
    future: Future[Answer]
    since: int
    """Microseconds."""


class Lane:
    def __init__(self, pointer: str, context: LaneContext, stats: LaneStats) -> None:
        self.pointer = pointer
        self.stats = stats
        self._context = context
        self._waiting: deque[Waiting] = deque()
        self._lock = threading.Lock()
        self._running = False
        self._held: Head | None = None
        self._remembered: OrderedDict[str, Logged] = OrderedDict()
        self._looked_back = False
        self._round_trip_seconds = 0.0

    def submit(self, request: CommitRequest) -> tuple[Future[Answer], bool]:
        """The answer to come, and whether the lane must be started: the caller then has `run` called on some thread."""
        waiting = Waiting(request, Future(), self._context.clock.now_micros())
        with self._lock:
            if len(self._waiting) >= WAITING_REQUESTS_MAX:
                raise LaneFull(
                    f"{len(self._waiting)} commits wait for {self.pointer!r}.", field="pointer", remedy="Try again later."
                )
            self._waiting.append(waiting)
            must_start, self._running = not self._running, True
        return waiting.future, must_start

    def run(self) -> None:
        """Work off what waits, then rest."""
        while batch := self._take():
            try:
                self._commit(batch)
            except BaseException as error:  # whatever it is, nobody may wait for ever
                self._held = None
                for waiting in batch:
                    if not waiting.future.done():
                        waiting.future.set_exception(error)
                if not isinstance(error, Exception):
                    raise

    def _take(self) -> list[Waiting]:
        with self._lock:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_REQUESTS_MAX))]
            self._running = bool(batch)
            self.stats.batch_requests_max = max(self.stats.batch_requests_max, len(batch))
        return batch

    # ── one batch ───────────────────────────────────────────────────────────────────────────────────────────

    def _commit(self, batch: list[Waiting]) -> None:
        tries = Tries(self._context, since=batch[0].since)
        head, fresh = self._held, False
        while True:
            try:
                if head is None:
                    head, fresh = self._read_head(), True
                if head.row is not None and head.row.fence == FENCE_CLOSED:
                    if fresh:
                        return self._refuse(batch, closed(self._context.realm, self.pointer))
                    head = None
                    continue
                draft = Draft(self.pointer, head, self._context.objects, self._context.ids, self._context.clock)
                answers = [self._apply(waiting.request, draft) for waiting in batch]
                if draft.made and head.row is None:
                    self._attempt().reserve(self.pointer)
                    head = None
                    continue
                if draft.made:
                    if self._lands(draft):
                        self._held = draft.head
                        return self._landed(batch, answers, draft, contended=tries.lost > 0)
                elif fresh or self._is_newest(head):
                    return self._answer(batch, answers)
                else:
                    head = None
                    continue
                fault = None
            except StoreUnavailable as unavailable:
                fault = unavailable
            except OutcomeUnknown as unknown:
                self._held = None
                return self._unknown(batch, answers, unknown)
            head = None
            if exhausted := tries.wait_or_give_up(self.pointer, fault):
                return self._refuse(batch, exhausted)

    def _apply(self, request: CommitRequest, draft: Draft) -> Answer | HeadwaterError:
        """Append the request to the draft, or say why not."""
        before, untouched = self._recall(request, draft.head), draft.mark()
        if before is not None:
            self.stats.replayed += 1
            return Answer(before, before.entry.seq, before.commit, replayed=True)
        logged: Logged | None = None
        try:
            planned = request.plan(draft)
            for plan in (planned,) if isinstance(planned, Plan) else planned or ():
                logged = draft.add(plan, request.request_id)
        except StoreUnavailable:
            raise
        except HeadwaterError as refusal:
            draft.undo_to(untouched)
            return refusal
        return Answer(logged, draft.head.seq, draft.head.commit)

    def _attempt(self) -> Attempt:
        context = self._context
        return Attempt(context.backend, context.realm, context.objects, context.clock, context.policy, self.stats)

    def _lands(self, draft: Draft) -> bool:
        started = self._context.clock.now_micros()
        row = self._attempt().run(draft)
        self._round_trip_seconds = (self._context.clock.now_micros() - started) / MICROS
        if row is None:
            return False
        draft.head = msgspec.structs.replace(draft.head, row=row)
        return True

    # ── the head ────────────────────────────────────────────────────────────────────────────────────────────

    def _read_head(self) -> Head:
        """Strongly, and remember what others have committed since the head that was held."""
        row = self._context.backend.read_pointer(self._context.realm, self.pointer)
        head = load_head(self._context.objects, row)
        if self._held is not None and head.entry is not None and head.seq > self._held.seq:
            self._remember_back(head, min(head.seq - self._held.seq, self._context.lookback_entries))
        self._held = head
        return head

    def _is_newest(self, head: Head) -> bool:
        row = self._context.backend.read_pointer(self._context.realm, self.pointer)
        return row == head.row

    # ── requests that came before ───────────────────────────────────────────────────────────────────────────

    def _recall(self, request: CommitRequest, head: Head) -> Logged | None:
        if request.request_id_is_callers and not self._looked_back:
            self._looked_back = True
            if head.entry is not None:
                self._remember_back(head, self._context.lookback_entries)
        return self._remembered.get(request.request_id)

    def _remember_back(self, head: Head, count: int) -> None:
        if head.entry is None or head.row is None:
            return
        reachable = min(count, head.seq - max(head.row.floor, 1) + 1)
        found = list(LogWalk(self._context.objects).backward(Logged(head.entry_id, head.entry), reachable))
        for logged in reversed(found):
            self._remember(logged)

    def _remember(self, logged: Logged) -> None:
        self._remembered[logged.entry.request_id] = logged
        while len(self._remembered) > REMEMBERED_REQUESTS_MAX:
            self._remembered.popitem(last=False)

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _landed(self, batch: list[Waiting], answers: Sequence[Answer | HeadwaterError], draft: Draft, contended: bool) -> None:
        self.stats.batches += 1
        self.stats.commits += len(draft.made)
        for logged in draft.made:
            self._remember(logged)
        if self._context.moved is not None:
            self._context.moved(self.pointer, draft)
        self._answer(batch, answers)
        if contended:  # let the others in: who has just won over them waits one round trip
            self._context.clock.sleep(self._round_trip_seconds)

    def _answer(self, batch: list[Waiting], answers: Sequence[Answer | HeadwaterError]) -> None:
        for waiting, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Answer):
                waiting.future.set_result(answer)
            else:
                self.stats.refused += 1
                waiting.future.set_exception(answer)

    def _refuse(self, batch: list[Waiting], error: HeadwaterError) -> None:
        self._answer(batch, [error] * len(batch))

    def _unknown(self, batch: list[Waiting], answers: Sequence[Answer | HeadwaterError], unknown: OutcomeUnknown) -> None:
        """Every answer of the batch rested on a head that nobody knows to be real."""
        self._answer(batch, [_as_unknown(self.pointer, answer, unknown) for answer in answers])


class Tries:
    """How often and how long one batch has tried, against the policy."""

    def __init__(self, context: LaneContext, since: int) -> None:
        self.lost = 0
        self._context = context
        self._since = since

    def wait_or_give_up(self, pointer: str, fault: StoreUnavailable | None) -> HeadwaterError | None:
        """Sleep before the next attempt, or say why there is none."""
        self.lost += 1
        policy = self._context.policy
        waited_seconds = (self._context.clock.now_micros() - self._since) / MICROS
        if not policy.exhausted(self.lost, waited_seconds):
            self._context.clock.sleep(policy.delay_seconds(self.lost, waited_seconds, self._context.chance))
            return None
        return fault or CommitRetriesExhausted(
            f"{pointer}: {self.lost} attempts in {waited_seconds:.1f} s were all overtaken by others; nothing was changed.",
            remedy="Try again, or raise commit_retry_seconds.",
            attempts=self.lost,
            waited_seconds=waited_seconds,
        )


def _as_unknown(pointer: str, answer: Answer | HeadwaterError, unknown: OutcomeUnknown) -> HeadwaterError:
    entry_id = answer.logged.entry_id.hex() if isinstance(answer, Answer) and answer.logged and not answer.replayed else None
    return CommitOutcomeUnknown(
        f"{pointer}: {unknown.message}", remedy="Look for the entry id in the log before committing again.", entry_id=entry_id
    )
