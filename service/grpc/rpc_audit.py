"""Writes the audit line of a call: with the names of the route that it was bound to, never its message or metadata."""

from __future__ import annotations

from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status

from headwater.service.auth.caller import Caller
from headwater.service.auth.tokens.token_endpoint import peer_of
from headwater.service.gate.request import Request
from headwater.service.grpc.call_context import CallContext
from headwater.service.observability.audit import AuditedCall, write_audit


class SeenCall:
    """What is known of a call so far. Passed on explicitly, like its context."""

    def __init__(self) -> None:
        self.caller: Caller | None = None
        self.request: Request | None = None
        self.status: str | None = None
        """Status of a kept response, if it differs from the one that is counted."""

    def refused_before(self, status: bytes) -> None:
        self.status = Code.Name(Code.ValueType(Status.FromString(status).code))


def audit_rpc(context: CallContext, seen: SeenCall, status: str, seconds: float) -> None:
    full_name, _, method = context.method.rpartition("/")
    caller, request = seen.caller, seen.request
    write_audit(
        AuditedCall(
            service=full_name.rpartition(".")[2],
            method=method,
            route=context.method,
            names={} if request is None else request.names,
            status=seen.status or status,
            seconds=seconds,
            request_id=context.request_id,
            correlation_id=context.correlation_id,
            peer=peer_of(context.scope),
            principal=None if caller is None else caller.name,
            realm=None if caller is None else caller.realm,
        )
    )
