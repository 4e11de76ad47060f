"""Determines the caller: from its token, from what a trusted mTLS peer names, or under `--dev` from what the call names."""

from __future__ import annotations

import msgspec

from headwater.persistence.rows import SYSTEM_REALM
from headwater.schemas.errors import NotAuthenticated
from headwater.schemas.rpc import common_pb2
from headwater.service.auth.caller import Caller
from headwater.service.feed.service import Service
from headwater.service.grpc.call_context import PRINCIPAL, CallContext
from headwater.service.grpc.rpc import parsed
from headwater.service.http.responses import header


async def caller_of(service: Service, context: CallContext, *, is_system: bool) -> Caller:
    access, realm = service.access, SYSTEM_REALM if is_system else None
    if context.principal is None:
        return await access.caller(context.scope, realm)
    if not service.config.dev:
        peer = _trusted_peer(service, context)
        principal, named_realm = _named(context.principal, service.config.default_realm)
        return await access.caller_of_peer(context.scope, realm, peer=peer, named=(named_realm, principal))
    named = parsed(common_pb2.PrincipalContext, context.principal, PRINCIPAL)
    caller = await access.caller(context.scope, realm or named.realm or None)
    return msgspec.structs.replace(caller, name=named.principal or caller.name)


def refuse_principal(context: CallContext) -> None:
    """⚠ `x-principal-bin` proves nothing: where it is not accepted, a call with it is refused, even with a valid token."""
    if context.principal is not None:
        raise NotAuthenticated(
            "x-principal-bin is not proof of a principal here.",
            field=PRINCIPAL,
            remedy="Send `authorization: Bearer …` alone.",
        )


def _trusted_peer(service: Service, context: CallContext) -> str:
    """⚠ The certificate is the only proof: with a token as well, it would be unclear for whom the call acts."""
    peer = min(context.peer_names & service.config.grpc_trusted_peers, default=None)
    if peer is None or header(context.scope, b"authorization") is not None:
        refuse_principal(context)
    return peer or ""


def _named(principal: bytes, default_realm: str) -> tuple[str, str]:
    named = parsed(common_pb2.PrincipalContext, principal, PRINCIPAL)
    return named.principal, named.realm or default_realm
