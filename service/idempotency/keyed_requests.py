"""Runs a request with a key once, with the API's own handler and errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from headwater.persistence.records.idempotency_rows import IdempotencyRows
from headwater.persistence.store import RealmKernel
from headwater.schemas.errors import HeadwaterError
from headwater.service.auth.caller import CALLER_IN_SCOPE, DEV_PRINCIPAL, Caller
from headwater.service.errors.languages import language_of
from headwater.service.errors.problems import problem_body, problem_headers, problem_of
from headwater.service.http.bodies import read_body
from headwater.service.http.responses import Message, Receive, Response, Scope, header
from headwater.service.idempotency.request_key import keyed_request
from headwater.service.idempotency.run_once import IdempotencyOptions, IdempotentRun, Kept, Refused, once_async

READING = frozenset({"GET", "HEAD", "OPTIONS"})
IDEMPOTENT_RUN_IN_SCOPE = "headwater.under"


class EndpointOptions:
    """What a door says of itself."""

    def __init__(self, options: IdempotencyOptions, request_bytes_max: int, messages_dir: str = "") -> None:
        self.options = options
        self.request_bytes_max = request_bytes_max
        self.messages_dir = messages_dir


async def answer_once(
    door: EndpointOptions,
    kernel: RealmKernel,
    scope: Scope,
    receive: Receive,
    route: str,
    handle: Callable[[Receive], Awaitable[Response]],
    *,
    kept: Kept | None = None,
    refused: Refused | None = None,
) -> Response:
    """`handle` reads its body from the `receive` that it gets; `idempotent_run(scope)` tells it what it runs under."""
    if scope["method"] in READING or header(scope, b"idempotency-key") is None:
        return await handle(receive)
    body = await read_body(scope, receive, door.request_bytes_max)
    caller: Caller | None = scope.get(CALLER_IN_SCOPE)
    asked = keyed_request(scope, body, DEV_PRINCIPAL if caller is None else caller.owner_id, route)

    async def run(run_under: IdempotentRun | None) -> Response:
        scope[IDEMPOTENT_RUN_IN_SCOPE] = run_under
        return await handle(_received(body))

    def as_problem(error: HeadwaterError) -> Response:
        language = language_of(scope, door.messages_dir)
        problem = problem_of(error, language=language, messages_dir=door.messages_dir)
        return Response(problem.status, problem_headers(problem, language), problem_body(problem))

    return await once_async(
        IdempotencyRows(kernel),
        asked,
        run,
        refused=refused or as_problem,
        options=door.options,
        development=caller is None or caller.development,
        kept=kept,
    )


def idempotent_run(scope: Scope) -> IdempotentRun | None:
    """None for a request without a key."""
    found: IdempotentRun | None = scope.get(IDEMPOTENT_RUN_IN_SCOPE)
    return found


def _received(body: bytes) -> Receive:
    """The body once more, for a handler that reads it by itself."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
