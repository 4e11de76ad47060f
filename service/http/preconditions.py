"""Parses If-Match into the expected version; 412 if the newest version differs."""

from __future__ import annotations

from headwater.schemas.errors import (
    CommitConflict,
    HeadwaterError,
    InvalidInput,
    PreconditionFailed,
    RecordChanged,
    SubscriptionMoved,
)
from headwater.service.http.responses import Scope, one_header

ETAG_CHARACTERS_MAX = 200
VERSION_FIELDS = ("version", "expected_head")
"""What an operation calls an ETag that cannot be any version of its record."""
UNEXPECTED_HASH = "UNEXPECTED_HASH"


def expected_version(scope: Scope) -> str | None:
    """None where none is expected: no header, or `*`, for what a write needs to be there is looked at anyway."""
    raw = one_header(scope, b"if-match", "If-Match")
    if raw is None or raw.strip() == b"*":
        return None
    text = raw.decode("latin-1").strip()
    if len(text) < 2 or len(text) > ETAG_CHARACTERS_MAX or not (text[0] == text[-1] == '"') or '"' in text[1:-1]:
        raise InvalidInput("it is not one ETag in quotes.", field="If-Match", remedy='Send the ETag exactly as received: "…".')
    return text[1:-1]


def as_precondition(scope: Scope, error: HeadwaterError) -> HeadwaterError:
    """412 if the request sent If-Match and nothing but the version differs, else the error as it is."""
    if not _is_about_the_version(error) or expected_version(scope) is None:
        return error
    return PreconditionFailed(error.message, field="If-Match", remedy="Read it, and send the request with its new ETag.")


def _is_about_the_version(error: HeadwaterError) -> bool:
    if isinstance(error, CommitConflict):
        conflicts = error.facts.get("conflicts")
        return isinstance(conflicts, list) and all(
            isinstance(one, dict) and one.get("kind") == UNEXPECTED_HASH for one in conflicts
        )
    if isinstance(error, InvalidInput):
        return error.field in VERSION_FIELDS
    return isinstance(error, (RecordChanged, SubscriptionMoved))
