"""The specification's error object: message, type and code, with the status of the response."""

from __future__ import annotations

from typing import Any

from headwater.schemas.errors import (
    AlreadyExists,
    CatalogNotFound,
    CommitConflict,
    Contradiction,
    CursorGone,
    ForeignOrigin,
    HeadwaterError,
    IdempotencyKeyReused,
    InvalidInput,
    MalformedViewVersion,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OutcomeUnknown,
    PlanNotFound,
    RealmNotFound,
    ReferenceNotFound,
    RequestTooLarge,
    RequestTooSlow,
    RequirementFailed,
    TableNotFound,
    TooManyRequests,
    Unsupported,
    ViewNotFound,
)
from headwater.service.gate.request import Request
from headwater.service.http.responses import Response, json_response

TYPES: tuple[tuple[type[HeadwaterError], str, int], ...] = (
    (NamespaceNotFound, "NoSuchNamespaceException", 404),
    (TableNotFound, "NoSuchTableException", 404),
    (ViewNotFound, "NoSuchViewException", 404),
    (PlanNotFound, "NoSuchPlanIdException", 404),
    (CatalogNotFound, "NoSuchWarehouseException", 404),
    (ReferenceNotFound, "NoSuchWarehouseException", 404),
    (RealmNotFound, "NoSuchWarehouseException", 404),
    (NamespaceNotEmpty, "NamespaceNotEmptyException", 409),
    (IdempotencyKeyReused, "UnprocessableEntityException", 422),
    (RequirementFailed, "CommitFailedException", 409),
    (CommitConflict, "CommitFailedException", 409),
    (AlreadyExists, "AlreadyExistsException", 409),
    (NotAuthenticated, "NotAuthorizedException", 401),
    (NotPermitted, "ForbiddenException", 403),
    (ForeignOrigin, "ForbiddenException", 403),
    (TooManyRequests, "TooManyRequestsException", 429),
    (Unsupported, "UnsupportedOperationException", 406),
    (Contradiction, "UnprocessableEntityException", 422),
    (MalformedViewVersion, "IllegalArgumentException", 400),
    (RequestTooLarge, "BadRequestException", 413),
    (RequestTooSlow, "BadRequestException", 408),
    (InvalidInput, "BadRequestException", 400),
    (CursorGone, "GoneException", 410),
    (OutcomeUnknown, "CommitStateUnknownException", 500),
)
"""The first that fits. ⚠ 500 for an unknown outcome: clients take a 503 as "not committed" and would undo their files."""
BEARER = (b"www-authenticate", b'Bearer realm="headwater"')
RETRY_AFTER = (b"retry-after", b"1")


class IcebergErrors:
    media = "application/json"
    schema: dict[str, Any] = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "code"],
                "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "code": {"type": "integer"}},
            }
        },
    }

    def error(self, error: HeadwaterError, request: Request) -> Response:
        return error_response(error)

    def internal(self, request: Request) -> Response:
        return _answer("The server failed at this request; its log says more.", "InternalServerError", 500)


def error_response(error: HeadwaterError) -> Response:
    name, status = _type_of(error)
    headers: tuple[tuple[bytes, bytes], ...] = (RETRY_AFTER,) if status == 503 else ()
    if status == 429:
        headers = ((b"retry-after", str(error.facts.get("retry_after_seconds", 1)).encode()),)
    if status == 401:
        headers = (BEARER,)
    return _answer(_told(error), name, status, *headers)


def _type_of(error: HeadwaterError) -> tuple[str, int]:
    for kind, name, status in TYPES:
        if isinstance(error, kind):
            return name, status
    if isinstance(error, NotFound):
        return "NotFoundException", error.http_status
    if error.http_status == 503:
        return "ServiceUnavailableException", 503
    return "InternalServerError" if error.http_status >= 500 else "BadRequestException", error.http_status


def _told(error: HeadwaterError) -> str:
    field = f"{error.field}: " if error.field and isinstance(error, InvalidInput) else ""
    return f"{field}{error.message}" + (f" {error.remedy}" if error.remedy else "")


def _answer(message: str, type: str, status: int, *headers: tuple[bytes, bytes]) -> Response:
    return json_response({"error": {"message": message, "type": type, "code": status}}, status, *headers)
