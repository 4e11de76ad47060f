"""Decides whether a request under a caller's key is to be run, waited for, or answered with its stored response.

A keyed request is a mutable row of its realm instance. It is claimed before anything is done, with the request id under which
its commits are logged, and finished with its answer. ⚠ A process that dies in between leaves the claim: the next one with the
key takes it over under the same request id, so that what is in the log already is found there and not done again.
"""

from __future__ import annotations

import enum
import hashlib

import msgspec

from headwater.persistence.clock import MICROS
from headwater.persistence.coordination.cas_rows import cas_row, delete_row
from headwater.persistence.objects.object_types import OBJECT_TYPES, Life, ObjectType
from headwater.persistence.rows import MutableRow
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import OutcomeUnknown

IDEMPOTENCY_TYPE = "idempotency"
BODY_BYTES_MAX = 250_000
"""A larger answer is not kept: it is rebuilt from the log, under the same request id."""
CLAIM_TRIES_MAX = 8


class KeyedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two requests the same."""

    principal: str
    key: str
    route: str
    fingerprint: bytes

    @property
    def row_key(self) -> str:
        """The row key for one caller's key: callers never share one, and the key itself cannot be read from the store."""
        digest = hashlib.sha256(f"{len(self.principal)}:{self.principal}:{self.key}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    @property
    def commit_fingerprint(self) -> bytes:
        """A short digest of the API, the method, the path and the body, which the commits of the request keep."""
        return hashlib.sha256(self.route.encode() + b"\0" + self.fingerprint).digest()[:16]


class StoredResponse(msgspec.Struct, frozen=True, array_like=True):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes | None
    """None if it was too large."""


class RequestRecord(msgspec.Struct, frozen=True, array_like=True):
    """The row's payload. Append new fields, never move one."""

    principal: str
    route: str
    fingerprint: bytes
    request_id: str
    running_until: int
    """Microseconds: its runner has died if there is no response by then; 0 once the claim was released."""
    owner: str
    answer: StoredResponse | None = None


OBJECT_TYPES.register(ObjectType(IDEMPOTENCY_TYPE, RequestRecord, Life.MUTABLE))


class Claim(msgspec.Struct, frozen=True):
    """A row as it was read or written."""

    row: MutableRow
    record: RequestRecord


class ClaimResult(enum.Enum):
    RUN = "run"
    """The claim is ours, for the first time or after its previous holder died."""
    WAIT = "wait"
    DONE = "done"
    OTHER = "other"
    """The key came before with another request."""


class IdempotencyRows:
    """The rows of one realm instance. Every call reads the current row."""

    def __init__(self, kernel: RealmKernel) -> None:
        self._realm = kernel.realm
        self._backend = kernel.store.backend
        self._clock = kernel.store.clock

    def claim(
        self, request: KeyedRequest, request_id: str, owner: str, *, running_seconds: float, kept_seconds: float
    ) -> tuple[ClaimResult, Claim]:
        """`owner` is new with every call of a caller, so that a write whose answer is lost is known again by reading."""
        for _ in range(CLAIM_TRIES_MAX):
            now = self._clock.now_micros()
            until = now + round(running_seconds * MICROS)
            found = self._read(request)
            if found is None:
                record = RequestRecord(request.principal, request.route, request.fingerprint, request_id, until, owner)
                row = MutableRow(
                    type=IDEMPOTENCY_TYPE, key=request.row_key, created_at=now, expires_at=now + round(kept_seconds * MICROS)
                )
                if made := self._write(None, _with(row, record)):
                    return ClaimResult.RUN, made
                continue
            if found.record.owner == owner and found.record.answer is None:
                return ClaimResult.RUN, found  # ⚠ a driver that sent our write twice reported only the second
            verdict = _claim_result(found, request, now)
            if verdict is not ClaimResult.RUN:
                return verdict, found
            mine = _taken_over(found, request, request_id, owner, now, until, round(kept_seconds * MICROS))
            if taken := self._write(found.row, mine):
                return ClaimResult.RUN, taken
        return ClaimResult.WAIT, found if found is not None else made_up(request)

    def finish(self, claim: Claim, answer: StoredResponse) -> bool:
        """False if another process has taken the claim over: its response will be the same, found in the log."""
        if answer.body is not None and len(answer.body) > BODY_BYTES_MAX:
            answer = msgspec.structs.replace(answer, body=None)
        record = msgspec.structs.replace(claim.record, running_until=0, answer=answer)
        return self._write(claim.row, _with(_next(claim.row), record)) is not None

    def let_go(self, claim: Claim) -> bool:
        """Release the claim without a final answer: the next request with the key runs it, under the same request id."""
        record = msgspec.structs.replace(claim.record, running_until=0)
        return self._write(claim.row, _with(_next(claim.row), record)) is not None

    def delete_expired(self, *, after: str, page: int, batch_max: int) -> tuple[int, str]:
        """Delete ended rows of one page after `after`; returns how many, and where the next page begins: empty at the end."""
        rows = self._backend.list_mutable(self._realm, IDEMPOTENCY_TYPE, after=after, limit=page)
        now, deleted = self._clock.now_micros(), 0
        for row in rows:
            if deleted >= batch_max:
                return deleted, after
            if row.expires_at <= now:
                deleted += self._delete(row)
            after = row.key
        return deleted, after if len(rows) == page else ""

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, request: KeyedRequest) -> Claim | None:
        row = self._backend.read_mutable(self._realm, IDEMPOTENCY_TYPE, request.row_key)
        return None if row is None else _claim(row)

    def _write(self, before: MutableRow | None, row: MutableRow) -> Claim | None:
        return _claim(row) if cas_row(self._backend, self._realm, before, row, self._clock) else None

    def _delete(self, row: MutableRow) -> bool:
        try:
            return delete_row(self._backend, self._realm, row, self._clock)
        except OutcomeUnknown:
            return False  # seen again in the next round


def _claim_result(found: Claim, request: KeyedRequest, now: int) -> ClaimResult:
    record = found.record
    if found.row.expires_at <= now:
        return ClaimResult.RUN
    if (record.route, record.fingerprint) != (request.route, request.fingerprint):
        return ClaimResult.OTHER
    if record.answer is not None:
        return ClaimResult.DONE
    return ClaimResult.WAIT if record.running_until > now else ClaimResult.RUN


def _taken_over(
    found: Claim, request: KeyedRequest, request_id: str, owner: str, now: int, until: int, kept_micros: int
) -> MutableRow:
    """⚠ Under the request id of the first one, unless that one's time is over."""
    if found.row.expires_at <= now:
        record = RequestRecord(request.principal, request.route, request.fingerprint, request_id, until, owner)
        return _with(msgspec.structs.replace(_next(found.row), expires_at=now + kept_micros), record)
    return _with(_next(found.row), msgspec.structs.replace(found.record, running_until=until, owner=owner))


def made_up(request: KeyedRequest) -> Claim:
    """For a caller that kept losing races for the row: another process is working on it."""
    record = RequestRecord(request.principal, request.route, request.fingerprint, "", 0, "")
    return Claim(MutableRow(type=IDEMPOTENCY_TYPE, key=request.row_key, created_at=0), record)


def _next(row: MutableRow) -> MutableRow:
    return msgspec.structs.replace(row, version=row.version + 1)


def _with(row: MutableRow, record: RequestRecord) -> MutableRow:
    return msgspec.structs.replace(row, payload=msgspec.msgpack.encode(record))


def _claim(row: MutableRow) -> Claim:
    return Claim(row, msgspec.msgpack.decode(row.payload, type=RequestRecord))
