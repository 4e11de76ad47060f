"""Errors as gRPC statuses with details; the table of codes is the one that docs/grpc.md shows.

⚠ Texts have at most 512 characters and trailers 6 KiB: larger ones reset the stream and hide the cause.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import grpc
import msgspec
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from headwater.schemas import errors
from headwater.schemas.errors import HeadwaterError
from headwater.schemas.rpc import common_pb2
from headwater.service.errors.translations import localize

if TYPE_CHECKING:
    from headwater.service.grpc.call_context import CallContext

DOMAIN = "headwater"
TEXT_CHARACTERS_MAX = 512
STATUS_BYTES_MAX = 4 * 1024
"""In the trailers it is base64: a third more."""
VIOLATIONS_MAX = 20
RETRY_SECONDS = 1.0
STATUS_DETAILS = "grpc-status-details-bin"
FIELDS = {
    "If-Match": "precondition.expected_version",
    "Idempotency-Key": "idempotency.key",
    "wait": "wait_seconds",
    "heartbeat": "heartbeat_seconds",
    "page_token": "page.token",
    "pageToken": "page.token",
    "pageSize": "page.size",
    "body": "message",
    "X-Headwater-Realm": "x-headwater-realm",
}
"""What messages and metadata call that which an operation names after HTTP."""

MC_CODES: tuple[tuple[type[HeadwaterError], str], ...] = (
    (errors.NotAuthenticated, "MC_UNAUTHENTICATED"),
    (errors.NotPermitted, "MC_PERMISSION_DENIED"),
    (errors.ForeignOrigin, "MC_PERMISSION_DENIED"),
    (errors.RequestTooSlow, "MC_TIMEOUT"),
    (errors.RequestTooLarge, "MC_RATE_LIMITED"),
    (errors.Unsupported, "MC_UNIMPLEMENTED"),
    (errors.MethodNotAllowed, "MC_UNIMPLEMENTED"),
    (errors.InvalidInput, "MC_INVALID_ARGUMENT"),
    (errors.NotFound, "MC_NOT_FOUND"),
    (errors.PreconditionFailed, "MC_PRECONDITION_FAILED"),
    (errors.IdempotencyKeyBusy, "MC_ABORT_RETRYABLE"),
    (errors.CommitRetriesExhausted, "MC_ABORT_RETRYABLE"),
    (errors.ShardLost, "MC_ABORT_RETRYABLE"),
    (errors.Conflict, "MC_CONFLICT"),
    (errors.MaintenanceRefused, "MC_CONFLICT"),
    (errors.CursorGone, "MC_SNAPSHOT_EXPIRED"),
    (errors.TooManyRequests, "MC_RATE_LIMITED"),
    (errors.TooManyPlans, "MC_RATE_LIMITED"),
    (errors.LaneFull, "MC_RATE_LIMITED"),
    (errors.NotServing, "MC_UNAVAILABLE"),
    (errors.StoreUnavailable, "MC_UNAVAILABLE"),
    (errors.CursorAhead, "MC_UNAVAILABLE"),
    (errors.FeedUnreachable, "MC_UNAVAILABLE"),
    (errors.IdGenerationStopped, "MC_UNAVAILABLE"),
    (errors.KafkaUnavailable, "MC_UNAVAILABLE"),
    (errors.RemovalUnderWay, "MC_UNAVAILABLE"),
    (errors.SourceUnreachable, "MC_UNAVAILABLE"),
    (errors.SourceRefused, "MC_PRECONDITION_FAILED"),
)
"""The first class that an error is of decides; all else is MC_INTERNAL."""


def mc_code(error: HeadwaterError) -> str:
    return next((code for kind, code in MC_CODES if isinstance(error, kind)), "MC_INTERNAL")


def status_code(error: HeadwaterError) -> grpc.StatusCode:
    return grpc.StatusCode[error.grpc_status]


def status_of(error: HeadwaterError, context: CallContext, messages_dir: str = "") -> Status:
    words = localize(error, context.locale, messages_dir)
    code = mc_code(error)
    status = Status(code=status_code(error).value[0], message=_short(str(error)))
    info = details.ErrorInfo(reason=error.code, domain=DOMAIN, metadata=_params(error))
    own = common_pb2.Error(
        code=code,
        message_key=error.code.lower(),
        params=_params(error),
        correlation_id=context.correlation_id,
        remedy=_short(words.remedy or ""),
    )
    _add(status, info)
    _add(status, own)
    _add(status, details.RequestInfo(request_id=context.request_id))
    _add(status, details.LocalizedMessage(locale=words.language, message=_short(words.detail)))
    for more in _further(error):
        _add(status, more)
    return _with_facts(status, own, error)


def _with_facts(status: Status, own: common_pb2.Error, error: HeadwaterError) -> Status:
    """With all facts as JSON where there is room for them, for clients that make the error again of its parts."""
    facts = {name: value[:VIOLATIONS_MAX] if isinstance(value, list) else value for name, value in error.facts.items()}
    if not facts:
        return status
    own.facts = msgspec.json.encode(facts).decode()
    packed = AnyMessage()
    packed.Pack(own)
    place = next(at for at, one in enumerate(status.details) if one.Is(common_pb2.Error.DESCRIPTOR))
    if status.ByteSize() - status.details[place].ByteSize() + packed.ByteSize() <= STATUS_BYTES_MAX:
        status.details[place].CopyFrom(packed)
    return status


def internal_status(context: CallContext) -> Status:
    """Says nothing of the inside: the log has it, under the request id."""
    status = Status(code=grpc.StatusCode.INTERNAL.value[0], message="the server failed at this call.")
    _add(status, details.ErrorInfo(reason="INTERNAL", domain=DOMAIN))
    own = common_pb2.Error(code="MC_INTERNAL", message_key="internal", correlation_id=context.correlation_id)
    _add(status, own)
    _add(status, details.RequestInfo(request_id=context.request_id))
    return status


def late_error() -> HeadwaterError:
    return errors.RequestTooSlow("the deadline of the call is over.", field="deadline", remedy="Allow more time.")


def _further(error: HeadwaterError) -> list[details.BadRequest | details.PreconditionFailure | details.RetryInfo]:
    found: list[details.BadRequest | details.PreconditionFailure | details.RetryInfo] = []
    if isinstance(error, errors.InvalidInput):
        found.append(_bad_request(error))
    elif isinstance(error, errors.Conflict) and not error.retriable and not isinstance(error, errors.AlreadyExists):
        found.append(_precondition_failure(error))
    if error.retriable:
        seconds = error.facts.get("retry_after_seconds", RETRY_SECONDS)
        found.append(details.RetryInfo(retry_delay=_duration(seconds)))
    return found


def _duration(seconds: object) -> Duration:
    whole = float(seconds) if isinstance(seconds, (int, float)) else RETRY_SECONDS
    return Duration(seconds=math.floor(whole), nanos=int((whole - math.floor(whole)) * 1e9))


def _bad_request(error: HeadwaterError) -> details.BadRequest:
    faults = error.facts.get("parameters")
    violation = details.BadRequest.FieldViolation
    if not isinstance(faults, list) or not faults:
        return details.BadRequest(
            field_violations=[violation(field=_field(error.field or ""), description=_short(error.message))]
        )
    named = [fault for fault in faults[:VIOLATIONS_MAX] if isinstance(fault, dict)]
    return details.BadRequest(
        field_violations=[
            violation(field=_field(str(one.get("name"))), description=_short(str(one.get("detail")))) for one in named
        ]
    )


def _precondition_failure(error: HeadwaterError) -> details.PreconditionFailure:
    violation = details.PreconditionFailure.Violation
    conflicts = error.facts.get("conflicts")
    if not isinstance(conflicts, list) or not conflicts:
        return details.PreconditionFailure(
            violations=[violation(type=error.code, subject=_field(error.field or ""), description=_short(error.message))]
        )
    named = [one for one in conflicts[:VIOLATIONS_MAX] if isinstance(one, dict)]
    return details.PreconditionFailure(
        violations=[
            violation(
                type=str(one.get("kind", error.code)),
                subject=_short(_text(one.get("key")), 128),
                description=_short(str(one.get("message", "")), 128),
            )
            for one in named
        ]
    )


def _params(error: HeadwaterError) -> dict[str, str]:
    """Facts of the error as text. Lists are left out: violations carry them, and their count says how many there are."""
    params = {} if error.field is None else {"field": _short(error.field, 128)}
    for name, value in error.facts.items():
        if isinstance(value, list):
            params[f"{name}_count"] = str(len(value))
        elif value is not None and not isinstance(value, dict):
            params[name] = _short(_text(value), 128)
    return params


def _field(name: str) -> str:
    return _short(FIELDS.get(name, name))


def _text(value: object) -> str:
    if isinstance(value, list):
        return ".".join(str(one) for one in value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _short(text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    return text if len(text) <= characters_max else f"{text[: characters_max - 1]}…"


def _add(
    status: Status,
    detail: details.ErrorInfo
    | details.RequestInfo
    | details.LocalizedMessage
    | details.BadRequest
    | details.PreconditionFailure
    | details.RetryInfo
    | common_pb2.Error,
) -> None:
    """A detail that would make the trailers too large is left out."""
    packed = AnyMessage()
    packed.Pack(detail)
    if status.ByteSize() + packed.ByteSize() <= STATUS_BYTES_MAX:
        status.details.append(packed)
