"""Parses If-Match into the expected version; 412 if the newest version differs."""

from __future__ import annotations

from headwater.schemas.errors import InvalidInput, PreconditionFailed
from headwater.service.http.responses import Scope, header

ETAG_CHARACTERS_MAX = 200


def expected_version(scope: Scope) -> str | None:
    """None where none is expected: no header, or `*`, for what a write needs to be there is looked at anyway."""
    raw = header(scope, b"if-match")
    if raw is None or raw.strip() == b"*":
        return None
    text = raw.decode("latin-1").strip()
    if len(text) < 2 or len(text) > ETAG_CHARACTERS_MAX or not (text[0] == text[-1] == '"') or '"' in text[1:-1]:
        raise InvalidInput("it is not one ETag in quotes.", field="If-Match", remedy='Send the ETag exactly as received: "…".')
    return text[1:-1]


def check_version(scope: Scope, newest: str) -> None:
    expected = expected_version(scope)
    if expected is not None and expected != newest:
        raise precondition_failed(f"the newest version is {newest}, not {expected}.", newest)


def precondition_failed(message: str, newest: str | None = None) -> PreconditionFailed:
    return PreconditionFailed(
        message, field="If-Match", remedy="Read it, and send the request with its new ETag.", version=newest
    )
