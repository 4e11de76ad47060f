"""Runs a keyed request once: now, by waiting for the one that runs it, or by returning its stored response.

The gate calls `once` around the handler of every mutating route:

    response = await once(rows, keyed_request(scope, body, principal, route), run, refused=problem_response, options=options)

`run` gets the request key that its commits carry, and whether an earlier run may have started it: an operation that finds
that id in the log answers from there. `refused` renders an error as its API does. Final answers are stored: successes, and
refusals that would be the same again (4xx, except for `NEVER_KEPT` and retriable errors). Everything else releases the key, and
the next request with it runs again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from headwater.persistence.log.committed_requests import RequestKey
from headwater.persistence.records.idempotency_rows import Claim, ClaimResult, IdempotencyRows, KeyedRequest, StoredResponse
from headwater.schemas.errors import HeadwaterError, IdempotencyKeyBusy, IdempotencyKeyReused
from headwater.service.http.responses import Response
from headwater.service.idempotency.request_key import request_id_of

REPLAYED = (b"idempotency-replayed", b"true")
NEVER_KEPT = frozenset({401, 403, 408, 412, 425, 429})
"""What another caller, another time or another version answers differently."""
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.02, 0.25


class IdempotentRun(NamedTuple):
    """What a keyed request runs under."""

    request: RequestKey
    """What its commits carry: the id of the key, and all that the request asks for."""
    again: bool
    """An earlier run has ended without an answer: what it asks for may be done already."""


Refused = Callable[[HeadwaterError], Response]
Kept = Callable[[Response], Response]


class IdempotencyOptions(msgspec.Struct, frozen=True, kw_only=True):
    kept_seconds: float = 24 * 3600.0
    running_seconds: float = 30.0
    """After so long without a response its runner counts as dead, and the next request takes over."""
    wait_seconds: float = 10.0
    """How long the second of two that run at once waits for the first."""


async def once(
    rows: IdempotencyRows,
    asked: KeyedRequest | None,
    run: Callable[[IdempotentRun | None], Awaitable[Response]],
    *,
    refused: Refused,
    options: IdempotencyOptions,
    development: bool = False,
    kept: Kept | None = None,
) -> Response:
    """`kept` is what is stored of an answer that holds a secret."""
    if asked is None:
        return await run(None)
    begun = await _begin(rows, asked, options, development=development)
    if isinstance(begun, Response):
        return begun
    try:
        # ⚠ A caller that hangs up cancels us while the work continues: then the claim stays until its time is over.
        answer = await run(_under(begun, asked.commit_fingerprint))
    except HeadwaterError as error:
        answer = refused(error)
        if not is_final(answer, error):
            await asyncio.to_thread(rows.let_go, begun)
            raise
        await asyncio.to_thread(settle, rows, begun, answer, kept)
        raise
    except Exception:
        await asyncio.to_thread(rows.let_go, begun)
        raise
    await asyncio.to_thread(settle, rows, begun, answer, kept)
    return answer


async def _begin(
    rows: IdempotencyRows, asked: KeyedRequest, options: IdempotencyOptions, *, development: bool
) -> Claim | Response:
    """The claim to run under, or the stored answer. Waits for a request that runs under the same key.

    ⚠ No thread waits: the one that is waited for may need it.
    """
    trying = _ClaimLoop(rows, asked, options, development=development)
    while (found := await asyncio.to_thread(trying.once)) is None:
        await asyncio.sleep(trying.pause_seconds())
    return found


class _ClaimLoop:
    """To claim a key, again and again until it is clear who runs the request."""

    def __init__(self, rows: IdempotencyRows, asked: KeyedRequest, options: IdempotencyOptions, *, development: bool) -> None:
        self._rows = rows
        self._asked = asked
        self._options = options
        self._owner, self._request_id = secrets.token_hex(8), request_id_of(asked, development=development)
        self._deadline = time.monotonic() + options.wait_seconds
        self._pause_seconds = PAUSE_SECONDS

    def once(self) -> Claim | Response | None:
        """None while another one is at it."""
        options = self._options
        verdict, claim = self._rows.claim(
            self._asked,
            self._request_id,
            self._owner,
            running_seconds=options.running_seconds,
            kept_seconds=options.kept_seconds,
        )
        if verdict is ClaimResult.RUN:
            return claim
        if verdict is ClaimResult.OTHER:
            raise key_reused()
        if verdict is ClaimResult.DONE and claim.record.answer is not None:
            return _again(claim, claim.record.answer)
        if time.monotonic() >= self._deadline:
            raise IdempotencyKeyBusy(
                "the first request of this key is still at work.",
                field="Idempotency-Key",
                remedy="Send it again in a moment, with the same key.",
            )
        return None

    def pause_seconds(self) -> float:
        """Longer each time."""
        pause, self._pause_seconds = self._pause_seconds, min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)
        return pause


def settle(rows: IdempotencyRows, begun: Claim, answer: Response, kept: Kept | None) -> None:
    if is_final(answer):
        shown = answer if kept is None else kept(answer)
        rows.finish(begun, StoredResponse(shown.status, list(shown.headers), shown.body))
    else:
        rows.let_go(begun)


def is_final(answer: Response, error: HeadwaterError | None = None) -> bool:
    retriable = error is not None and error.retriable
    return answer.status < 500 and answer.status not in NEVER_KEPT and not retriable


def key_reused() -> IdempotencyKeyReused:
    return IdempotencyKeyReused(
        "the same key came before with another request.",
        field="Idempotency-Key",
        remedy="Use a new key for every request.",
    )


def _under(claim: Claim, fingerprint: bytes) -> IdempotentRun:
    return IdempotentRun(RequestKey(claim.record.request_id, fingerprint), claim.row.version > 1)


def _again(claim: Claim, answer: StoredResponse) -> Response | Claim:
    """⚠ What was too large to keep is re-created, under the request id that is in the log."""
    return claim if answer.body is None else Response(answer.status, [*answer.headers, REPLAYED], answer.body)
