"""The error object that Nessie's clients read: status, reason, message, errorCode and details."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from headwater.schemas.errors import (
    CommitConflict,
    Conflict,
    ContentNotFound,
    CursorGone,
    ForeignOrigin,
    HeadwaterError,
    IdempotencyKeyReused,
    InvalidInput,
    MethodNotAllowed,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    ReferenceExists,
    ReferenceProtected,
    RequestTooLarge,
    RequestTooSlow,
    RouteNotFound,
    TooManyRequests,
)
from headwater.service.errors.problems import BEARER
from headwater.service.gate.request import Request
from headwater.service.http.responses import Headers, Response, Scope, header, json_response

CODES: tuple[tuple[type[HeadwaterError], str, int], ...] = (
    (ContentNotFound, "CONTENT_NOT_FOUND", 404),
    (RouteNotFound, "UNKNOWN", 404),
    (MethodNotAllowed, "UNKNOWN", 405),
    (NotFound, "REFERENCE_NOT_FOUND", 404),
    (CursorGone, "REFERENCE_NOT_FOUND", 404),
    (ReferenceExists, "REFERENCE_ALREADY_EXISTS", 409),
    (CommitConflict, "REFERENCE_CONFLICT", 409),
    (ReferenceProtected, "BAD_REQUEST", 400),
    (IdempotencyKeyReused, "BAD_REQUEST", 400),
    (Conflict, "REFERENCE_CONFLICT", 409),
    (RequestTooLarge, "BAD_REQUEST", 413),
    (RequestTooSlow, "BAD_REQUEST", 408),
    (InvalidInput, "BAD_REQUEST", 400),
    (NotAuthenticated, "UNKNOWN", 401),
    (NotPermitted, "FORBIDDEN", 403),
    (ForeignOrigin, "FORBIDDEN", 403),
    (TooManyRequests, "TOO_MANY_REQUESTS", 429),
    (OutcomeUnknown, "UNKNOWN", 500),
)
"""The first that fits. ⚠ 500 for an unknown outcome: a 503 reads as "not committed"."""
RETRY_AFTER_SECONDS = 1


class NessieErrors:
    media = "application/json"
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["status", "reason", "message", "errorCode"],
        "properties": {
            "status": {"type": "integer"},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "errorCode": {"type": "string"},
            "errorDetails": {"type": "object"},
        },
    }

    def error(self, error: HeadwaterError, request: Request) -> Response:
        return error_response(error, request.scope)

    def internal(self, request: Request) -> Response:
        return _answer("The server failed at this request; its log says more.", "UNKNOWN", 500, None)


def error_response(error: HeadwaterError, scope: Scope) -> Response:
    code, status = _code_of(error)
    return _answer(_told(error), code, status, _details(error) if _knows_details(scope) else None, *_headers(error, status))


def _headers(error: HeadwaterError, status: int) -> Headers:
    if status in (429, 503):
        return [(b"retry-after", str(error.facts.get("retry_after_seconds", RETRY_AFTER_SECONDS)).encode())]
    if isinstance(error, NotAuthenticated):
        return [BEARER]
    return [(b"allow", str(error.facts.get("allowed", "")).encode())] if isinstance(error, MethodNotAllowed) else []


def _code_of(error: HeadwaterError) -> tuple[str, int]:
    for kind, code, status in CODES:
        if isinstance(error, kind):
            return code, status
    return ("SERVICE_UNAVAILABLE", 503) if error.http_status == 503 else ("UNKNOWN", error.http_status)


def _told(error: HeadwaterError) -> str:
    field = f"{error.field}: " if error.field and isinstance(error, InvalidInput) else ""
    return f"{field}{error.message}" + (f" {error.remedy}" if error.remedy else "")


def _details(error: HeadwaterError) -> dict[str, Any] | None:
    if isinstance(error, ContentNotFound):
        return {"type": "CONTENT_KEY", "contentKey": {"elements": error.facts.get("key", [])}}
    conflicts = error.facts.get("conflicts")
    if isinstance(error, CommitConflict) and isinstance(conflicts, list):
        return {"type": "REFERENCE_CONFLICTS", "conflicts": [_conflict(one) for one in conflicts if isinstance(one, dict)]}
    return None


def _conflict(one: dict[str, Any]) -> dict[str, Any]:
    return conflict_json(one["kind"], one["key"], one["message"])


def conflict_json(kind: str, key: Any, message: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"conflictType": str(kind), "message": message}
    return {**fields, "key": {"elements": list(key)}} if key else fields


def _knows_details(scope: Scope) -> bool:
    """Clients before specification 2 fail at fields that they do not know."""
    stated = (header(scope, b"nessie-client-spec") or b"").partition(b".")[0]
    return stated.isdigit() and len(stated) < 5 and int(stated) >= 2


def _answer(message: str, code: str, status: int, details: object, *headers: tuple[bytes, bytes]) -> Response:
    fields: dict[str, Any] = {"status": status, "reason": HTTPStatus(status).phrase, "message": message, "errorCode": code}
    if details is not None:
        fields["errorDetails"] = details
    return json_response(fields, status, *headers)
