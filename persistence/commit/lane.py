"""Commits the requests for one pointer, from any thread: all that wait together land with a single CAS.

A lane takes everything that waits, applies request after request to the head that it holds in memory, writes the new objects
in one batch and moves the pointer once. A request that the head refuses fails alone.
⚠ A negative answer is given only against a head that this batch's CAS confirmed or that was read strongly after the request
came. ⚠ A request whose id was supplied by its caller is looked up before it is planned. ⚠ So is one that another process may
have landed, because it was handed over.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from headwater.persistence.backend import Backend
from headwater.persistence.clock import Clock
from headwater.persistence.commit.attempt import Attempt, AttemptStats, closed
from headwater.persistence.commit.commit_outcome import CommitOutcome, as_unknown, outcome_of
from headwater.persistence.commit.commit_request import CommitRequest, PendingRequest
from headwater.persistence.commit.contention import ContentionControl
from headwater.persistence.commit.draft import Draft, IdAllocator, Plan
from headwater.persistence.commit.landed_elsewhere import HandedOver, OwnEntries, landed_since
from headwater.persistence.commit.linger import Linger
from headwater.persistence.commit.prefetch import Prefetch
from headwater.persistence.commit.replies import Reply
from headwater.persistence.commit.request_search import RequestSearch, check_same
from headwater.persistence.commit.retries import RetryBudget, RetryPolicy
from headwater.persistence.coordination.restore_watch import RestoreWatch
from headwater.persistence.log.committed_requests import KEPT_SECONDS, CommittedRequest
from headwater.persistence.log.head import Head, load_head
from headwater.persistence.log.log_entry import LogRecord
from headwater.persistence.log.log_walk import LogWalk, has_entry
from headwater.persistence.objects.realm_objects import RealmObjects
from headwater.persistence.rows import FENCE_CLOSED
from headwater.schemas.errors import (
    CommitOutcomeUnknown,
    HeadwaterError,
    IdempotencyKeyReused,
    InvalidInput,
    LaneFull,
    ObjectNotFound,
    OutcomeUnknown,
    StoreRestored,
    StoreUnavailable,
)

BATCH_REQUESTS_MAX = 256
WAITING_REQUESTS_MAX = 10_000
BATCHES_IN_A_ROW_MAX = 8
"""After this many batches another lane gets the thread, so that busy lanes do not starve the others."""

_log = logging.getLogger(__name__)


class LaneStats(AttemptStats):
    commits: int = 0
    batches: int = 0
    refused: int = 0
    replayed: int = 0
    retries: int = 0
    """Attempts that were repeated, because another process was faster or the store was not reached."""
    batch_requests_max: int = 0


class LaneContext(msgspec.Struct, frozen=True):
    """What all lanes of a realm share."""

    backend: Backend
    realm: str
    objects: RealmObjects
    ids: IdAllocator
    clock: Clock
    policy: RetryPolicy
    chance: random.Random
    restores: RestoreWatch
    moved: Callable[[str, Draft], None] | None = None
    """Called with every batch that landed, before any caller is answered."""
    answered: Callable[[], None] | None = None
    """Called after all requests of a batch have been given their outcome."""
    request_ids_kept_seconds: float = KEPT_SECONDS
    """How long a request id that a caller supplied is found."""


class Lane:
    def __init__(self, pointer: str, context: LaneContext, stats: LaneStats) -> None:
        self.pointer = pointer
        self.stats = stats
        self._context = context
        self._waiting: deque[PendingRequest] = deque()
        self._lock = threading.Lock()
        self._running = False
        self._held: Head | None = None
        self._search = RequestSearch(context.objects, pointer)
        self._epoch = context.restores.epoch
        self._stored_seq, self._stored_id = 0, b""
        """The newest entry that was read from the store or has landed there."""
        self._own = OwnEntries()
        self._landed_elsewhere: dict[int, LogRecord | Exception] = {}
        """By pending request: its entry, or why it is unknown whether there is one."""
        self._contention = ContentionControl()
        self._linger = Linger(context.clock)
        self._prefetch = Prefetch(context.objects)
        self._attempt = Attempt(
            context.backend,
            context.realm,
            context.objects,
            context.clock,
            context.policy,
            stats,
            context.request_ids_kept_seconds,
        )

    @property
    def is_idle(self) -> bool:
        with self._lock:
            return not self._running

    def submit(self, request: CommitRequest, reply: Reply[CommitOutcome], handed_over: HandedOver | None = None) -> bool:
        """Returns whether the lane must be started: the caller then has `run` called on some thread."""
        if not request.request_id:
            raise InvalidInput("a commit has no request id.", field="request_id", remedy="Leave it out, or give it a name.")
        waiting = PendingRequest(request, reply, self._context.clock.now_micros(), handed_over)
        with self._lock:
            if len(self._waiting) >= WAITING_REQUESTS_MAX:
                raise LaneFull(
                    f"{len(self._waiting)} commits wait for {self.pointer!r}.", field="pointer", remedy="Try again later."
                )
            self._waiting.append(waiting)
            must_start, self._running = not self._running, True
        return must_start

    def run(self) -> bool:
        """Commit some of the waiting requests; returns whether there may be more, so that `run` must be called again."""
        for _ in range(BATCHES_IN_A_ROW_MAX):
            self._linger.wait(self._waiting.__len__)
            batch = self._take()
            if batch is None:
                self._linger.rest()
                return False
            try:
                if batch:
                    self._commit(batch)
            except BaseException as error:  # whatever fails, every caller gets an answer and the lane continues
                self._held = None
                for waiting in batch:
                    if not waiting.reply.is_given():
                        waiting.reply.give(error)
                if self._context.answered is not None:
                    self._context.answered()
        return True

    def _take(self) -> list[PendingRequest] | None:
        """The waiting requests whose callers are still there; None to rest. From here on none can be cancelled."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_REQUESTS_MAX))]
            self._running = bool(taken)
            self.stats.batch_requests_max = max(self.stats.batch_requests_max, len(taken))
        return [waiting for waiting in taken if waiting.reply.is_wanted()] if taken else None

    # ── one batch ───────────────────────────────────────────────────────────────────────────────────────────

    def _commit(self, batch: list[PendingRequest]) -> None:
        self._context.restores.check_if_due()
        tries = RetryBudget(self._context.policy, self._context.clock, self._context.chance, since=batch[0].since)
        callers_ids = [waiting.request.request_id for waiting in batch if waiting.request.request_id_is_callers]
        handed_over = [one for one in batch if one.handed_over is not None and not one.request.request_id_is_callers]
        head, fresh, reserved = None if self._contention.stepped_back else self._held, False, False
        while True:
            fault: StoreUnavailable | None = None
            try:
                copy = self._context.restores.copy  # ⚠ before anything is read that the draft rests on
                if self._forgets():
                    head = None
                if head is None:
                    head, fresh = self._read_head(), True
                if head.row is not None and head.row.fence == FENCE_CLOSED:
                    if fresh:
                        return self._refuse(batch, closed(self._context.realm, self.pointer))
                    head = None
                    continue
                if handed_over and not self._looked_back(handed_over, head, fresh):
                    head = None
                    continue
                if callers_ids and not self._looked_up(callers_ids, head, fresh):
                    head = None
                    continue
                began = self._context.clock.now_micros()
                draft = Draft(self.pointer, head, self._context.objects, self._context.ids, self._context.clock)
                if len(batch) > 1:  # a single request reads its own keys
                    self._prefetch.prepare([waiting.request for waiting in batch], draft)
                answers = self._apply_all(batch, draft)
                if not draft.entries:
                    if fresh or self._is_newest(head):
                        return self._answer(batch, answers)
                    head = None
                    continue
                if head.row is None and not reserved:
                    self._attempt.reserve(self.pointer)
                    head, reserved = None, True
                    continue
                if head.row is not None and self._lands(batch, answers, draft, copy, began):
                    return None
            except StoreUnavailable as unavailable:
                fault = unavailable
                if isinstance(unavailable, StoreRestored):
                    self._context.restores.replaced()
            except OutcomeUnknown as unclear:  # of a step before the one that commits: nothing has landed
                fault = StoreUnavailable(f"{self.pointer}: nothing was committed: {unclear.message}")
            head, reserved = None, False
            if exhausted := tries.wait_or_give_up(self.pointer, fault, self._contention):
                return self._refuse(batch, exhausted)
            self.stats.retries += 1

    def _looked_up(self, callers_ids: list[str], head: Head, fresh: bool) -> bool:
        """False if the head that is held must be read again: history below it was swept since."""
        try:
            self._search.look_up(callers_ids, head)
        except ObjectNotFound:
            if fresh:
                raise
            return False
        return True

    def _looked_back(self, handed_over: list[PendingRequest], head: Head, fresh: bool) -> bool:
        """False if the head that is held is older than what a request was handed over after."""
        self._landed_elsewhere.clear()
        for waiting in handed_over:
            after = None if waiting.handed_over is None else waiting.handed_over.after
            if after is None or self._own.cover(after, head):
                continue
            if head.seq < after.seq and not fresh:
                return False
            found = landed_since(LogWalk(self._context.objects), head, after, waiting.request.request_id)
            if found is not None:
                self._landed_elsewhere[id(waiting)] = found
        return True

    def _apply_all(self, batch: list[PendingRequest], draft: Draft) -> list[CommitOutcome | Exception]:
        """⚠ A request that waits twice in one batch is applied once: the log does not know it yet, but the draft does."""
        appended: dict[str, CommitOutcome] = {}
        answers: list[CommitOutcome | Exception] = []
        for waiting in batch:
            request_id = waiting.request.request_id
            if waiting.handed_over is not None and (elsewhere := self._landed_elsewhere.get(id(waiting))) is not None:
                answers.append(elsewhere if isinstance(elsewhere, Exception) else outcome_of(elsewhere))
                continue
            if request_id in appended:
                answers.append(self._doubled(waiting.request, appended[request_id], draft))
                continue
            answer = self._apply(waiting, draft)
            if isinstance(answer, CommitOutcome) and answer.logged is not None:
                appended[request_id] = answer
            answers.append(answer)
        return answers

    def _doubled(self, request: CommitRequest, first: CommitOutcome, draft: Draft) -> CommitOutcome | Exception:
        for drafted in draft.requests:
            if drafted.request_id == request.request_id:
                try:
                    check_same(drafted, request.fingerprint)
                except IdempotencyKeyReused as reused:
                    return reused
        self.stats.replayed += 1
        return msgspec.structs.replace(first, replayed=True)

    def _apply(self, waiting: PendingRequest, draft: Draft) -> CommitOutcome | Exception:
        """Append the request to the draft, or say why not."""
        request, untouched = waiting.request, draft.savepoint()
        token = b"" if waiting.handed_over is None else waiting.handed_over.token
        logged: LogRecord | None = None
        try:
            if request.request_id_is_callers:
                before = self._search.committed(request.request_id, request.fingerprint)
                if before is not None:
                    return self._committed_before(before, token)
            planned = request.plan(draft)
            for plan in (planned,) if isinstance(planned, Plan) else planned or ():
                logged = draft.add(plan, request.request_id)
        except CommitOutcomeUnknown as unknown:  # of the same request, sent before
            return unknown
        except (StoreUnavailable, OutcomeUnknown):
            raise
        except Exception as refusal:  # whatever is wrong with a request, it fails alone
            draft.rollback_to(untouched)
            return refusal
        if logged is not None and request.request_id_is_callers:
            entry_id, seq, commit = logged.entry_id, logged.entry.seq, logged.commit
            draft.requests.append(
                CommittedRequest(self.pointer, request.request_id, request.fingerprint, entry_id, seq, commit, token)
            )
        return CommitOutcome(self.pointer, logged, draft.head.seq, draft.head.commit)

    def _committed_before(self, before: CommittedRequest, token: bytes) -> CommitOutcome:
        try:
            logged = LogWalk(self._context.objects).load(before.entry_id)
        except ObjectNotFound:  # its history has expired, and what it did is still known
            logged = None
        if logged is not None and token and token == before.token:
            return outcome_of(logged)
        self.stats.replayed += 1
        return CommitOutcome(self.pointer, logged, before.seq, before.commit, replayed=True)

    def _lands(
        self, batch: list[PendingRequest], answers: Sequence[CommitOutcome | Exception], draft: Draft, copy: str, began: int
    ) -> bool:
        """Whether everybody has been answered: as landed, or as unknown. ⚠ What was planned before a restore was noticed may
        rest on objects that are gone."""
        if self._context.restores.epoch != self._epoch:
            return False
        started = self._context.clock.now_micros()
        try:
            row = self._attempt.run(draft, copy)
        except OutcomeUnknown as unknown:
            self._held = None
            self._unknown(batch, answers, draft, unknown)
            return True
        if row is None:
            self._contention.met_others(self._context.clock.now_micros())
            return False
        landed = self._context.clock.now_micros()
        step_back_seconds = self._contention.landed(started, landed)
        self._linger.landed(len(batch) + len(self._waiting), started - began, landed - started)
        draft.head = msgspec.structs.replace(draft.head, row=row)
        self._landed(batch, answers, draft)
        if step_back_seconds and self._context.backend.abilities.shared_between_processes:
            self._context.clock.sleep(step_back_seconds)
        return True

    # ── the head ────────────────────────────────────────────────────────────────────────────────────────────

    def _read_head(self) -> Head:
        """Read the head strongly."""
        head = self._load_head()
        if not self._goes_on(head):
            self._context.restores.went_back(f"{self.pointer} lacks entry {self._stored_seq}, which had landed")
            self._forgets()
            head = self._load_head()
        if self._stored_seq and head.seq > self._stored_seq:
            self._contention.met_others(self._context.clock.now_micros())
        if (head.seq, head.entry_id) != (self._stored_seq, self._stored_id):
            self._own.begin(head)
        self._stored_seq, self._stored_id = head.seq, head.entry_id
        self._held = head
        return head

    def _load_head(self) -> Head:
        context = self._context
        return load_head(context.objects, context.backend.read_pointer(context.realm, self.pointer))

    def _goes_on(self, head: Head) -> bool:
        """Whether the newest entry that this lane knows to be stored is in the log that ends in `head`."""
        if head.seq <= self._stored_seq:
            return head.seq == self._stored_seq and head.entry_id == self._stored_id
        if head.row is None or not self._stored_seq:
            return True
        return has_entry(LogWalk(self._context.objects), head.row, self._stored_seq, self._stored_id)

    def _forgets(self) -> bool:
        """Whether the store was restored since this lane looked last: then nothing that it holds counts any more."""
        epoch = self._context.restores.epoch
        if self._epoch == epoch:
            return False
        self._epoch, self._held = epoch, None
        self._stored_seq, self._stored_id = 0, b""
        self._own = OwnEntries()
        self._search.forget()
        return True

    def _is_newest(self, head: Head) -> bool:
        row = self._context.backend.read_pointer(self._context.realm, self.pointer)
        return row == head.row

    # ── answers ─────────────────────────────────────────────────────────────────────────────────────────────

    def _landed(self, batch: list[PendingRequest], answers: Sequence[CommitOutcome | Exception], draft: Draft) -> None:
        self._held = draft.head
        self._stored_seq, self._stored_id = draft.head.seq, draft.head.entry_id
        self.stats.batches += 1
        self.stats.commits += len(draft.entries)
        for request in draft.requests:
            self._search.remember(request)
        try:
            if self._context.moved is not None:
                self._context.moved(self.pointer, draft)
        except Exception:  # a commit that landed is answered as landed, even if a listener fails
            _log.exception("a listener of %s failed", self.pointer)
        self._answer(batch, answers)

    def _answer(self, batch: list[PendingRequest], answers: Sequence[CommitOutcome | Exception]) -> None:
        for waiting, answer in zip(batch, answers, strict=True):
            if not isinstance(answer, CommitOutcome):
                self.stats.refused += 1
            waiting.reply.give(answer)
        if self._context.answered is not None:
            self._context.answered()

    def _refuse(self, batch: list[PendingRequest], error: HeadwaterError) -> None:
        self._answer(batch, [error] * len(batch))

    def _unknown(
        self, batch: list[PendingRequest], answers: Sequence[CommitOutcome | Exception], draft: Draft, unknown: OutcomeUnknown
    ) -> None:
        """Every outcome of the batch rests on a head that may not exist, except for entries that were there before."""
        drafted = {logged.entry_id for logged in draft.entries}
        self._answer(batch, [as_unknown(self.pointer, answer, drafted, unknown) for answer in answers])
