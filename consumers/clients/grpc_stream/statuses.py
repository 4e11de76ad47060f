"""gRPC statuses as the problems of the HTTP feed: the server's code, field, remedy and facts are in their details."""

from __future__ import annotations

from typing import Any

import grpc
import httpx
import msgspec
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

from headwater.schemas.errors import HeadwaterError, errors_by_code
from headwater.schemas.http.feed_json import Problem
from headwater.schemas.rpc import common_pb2

STATUS_DETAILS = "grpc-status-details-bin"
HTTP_STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.FAILED_PRECONDITION: 409,
    grpc.StatusCode.OUT_OF_RANGE: 410,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}
"""For statuses without Headwater's details, which an intermediary has sent."""


def problem_of(error: grpc.RpcError) -> Problem:
    """Raises `httpx.TransportError` if no server answered."""
    call: Any = error
    code, said = call.code(), str(call.details() or "")
    raw = next((value for name, value in call.trailing_metadata() or () if name == STATUS_DETAILS), None)
    own, info = common_pb2.Error(), details.ErrorInfo()
    found = {} if raw is None else {one.type_url.rpartition("/")[2]: one for one in Status.FromString(raw).details}
    if not _unpacked(found, own) or not _unpacked(found, info):
        return _foreign(code, said)
    kind = errors_by_code().get(info.reason, HeadwaterError)
    shown = details.LocalizedMessage()
    facts = msgspec.json.decode(own.facts) if own.facts else dict(own.params)
    return Problem(
        type="about:blank",
        title=info.reason,
        status=kind.http_status,
        detail=shown.message if _unpacked(found, shown) else said,
        code=info.reason,
        retriable=kind.retriable,
        field=own.params.get("field"),
        remedy=own.remedy or None,
        facts=facts,
    )


def _unpacked(found: dict[str, Any], message: Any) -> bool:
    packed = found.get(message.DESCRIPTOR.full_name)
    return packed is not None and packed.Unpack(message)


def _foreign(code: grpc.StatusCode, said: str) -> Problem:
    """⚠ Only a connection that was never established proves that the server has not seen the request."""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        raise httpx.ReadTimeout(said)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        is_unmade = "failed to connect" in said.lower()
        raise httpx.ConnectError(said) if is_unmade else httpx.ReadError(said)
    status = HTTP_STATUSES.get(code, 500)
    return Problem(type="about:blank", title=code.name, status=status, detail=said, code=code.name, retriable=False)
