"""Errors as problem+json (RFC 9457), the same for every route. An unknown error is a plain 500."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from headwater.schemas.errors import CursorGone, HeadwaterError
from headwater.schemas.http.feed_json import ParameterProblem, Problem
from headwater.service.errors.translations import ENGLISH, localize

PROBLEM_JSON = b"application/problem+json"
RETRY_AFTER_SECONDS = 1
BEARER = (b"www-authenticate", b'Bearer realm="headwater"')

_encode = msgspec.json.Encoder().encode


def problem_of(
    error: HeadwaterError,
    *,
    request_id: str | None = None,
    realm: str | None = None,
    language: str = ENGLISH,
    messages_dir: str = "",
) -> Problem:
    words = localize(error, language, messages_dir)
    facts = dict(error.facts)
    parameters = facts.pop("parameters", None)
    gone = isinstance(error, CursorGone)
    oldest, head = facts.get("oldest"), facts.get("head")
    return Problem(
        type=f"urn:headwater:problem:{error.code.lower().replace('_', '-')}",
        title=words.title,
        status=error.http_status,
        detail=words.detail,
        code=error.code,
        retriable=error.retriable,
        field=error.field,
        remedy=words.remedy,
        facts=facts,
        parameters=msgspec.convert(parameters or [], list[ParameterProblem]),
        request_id=request_id,
        oldest=oldest if isinstance(oldest, int) else None,
        head=head if isinstance(head, int) else None,
        snapshot_url=_snapshot_url(realm, error) if gone and realm is not None else None,
        message=None if words.language == ENGLISH else error.message,
    )


def internal_problem(request_id: str) -> Problem:
    """Says nothing of the inside: the log has it, under the request id."""
    return Problem(
        type="urn:headwater:problem:internal",
        title="Internal error",
        status=500,
        detail="the server failed at this request; its log says more under the request id.",
        code="INTERNAL",
        retriable=False,
        request_id=request_id,
    )


def problem_body(problem: Problem) -> bytes:
    return _encode(problem)


def problem_headers(problem: Problem, language: str = ENGLISH) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", PROBLEM_JSON), (b"cache-control", b"no-store")]
    if language != ENGLISH:
        headers += [(b"content-language", language.encode()), (b"vary", b"accept-language")]
    if problem.status == 503 or problem.retriable:
        seconds = problem.facts.get("retry_after_seconds", RETRY_AFTER_SECONDS)
        headers.append((b"retry-after", str(seconds).encode()))
    if problem.status == 401:
        headers.append(BEARER)
    return headers


def _snapshot_url(realm: str, error: HeadwaterError) -> str:
    pointer = error.facts.get("pointer")
    query = f"?pointer={quote(pointer, safe='/')}" if isinstance(pointer, str) else ""
    return f"/feed/v1/{quote(realm)}/snapshot{query}"
