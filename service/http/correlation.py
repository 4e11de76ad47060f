"""Carries a request's correlation id and trace to its response, the log, and the headers of commits."""

from __future__ import annotations

import re

from headwater.service.http.responses import Headers, Scope, header

CORRELATION_ID = b"x-correlation-id"
TRACEPARENT = b"traceparent"
COMMIT_HEADERS = ((CORRELATION_ID, "x-correlation-id"), (TRACEPARENT, "traceparent"))

_SAFE = {
    CORRELATION_ID: re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}"),
    TRACEPARENT: re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"),
}


def correlation_id(scope: Scope) -> bytes | None:
    """The caller's, if it is one that may be repeated in headers and logs."""
    return _given(scope, CORRELATION_ID)


def correlation_headers(scope: Scope) -> dict[str, str]:
    """For the headers of a commit: from a Change one finds the request that made it."""
    found = ((name, _given(scope, raw)) for raw, name in COMMIT_HEADERS)
    return {name: value.decode() for name, value in found if value is not None}


def with_correlation(headers: Headers, scope: Scope) -> Headers:
    """The answer's headers, and the correlation id that came."""
    given = correlation_id(scope)
    return headers if given is None else [*headers, (CORRELATION_ID, given)]


def _given(scope: Scope, name: bytes) -> bytes | None:
    given = header(scope, name)
    return given if given is not None and _SAFE[name].fullmatch(given) else None
