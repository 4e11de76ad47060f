"""TokenService, on the operation of `/manage/v1/{realm}/oauth/tokens`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from headwater.schemas.errors import InvalidInput, NotAuthenticated, TooManyRequests
from headwater.schemas.rpc import tenant_pb2
from headwater.service.auth.tokens.token_endpoint import ACCESS_TOKEN, CLIENT_CREDENTIALS, TOKEN_EXCHANGE, dev_token
from headwater.service.feed.service import Service
from headwater.service.grpc.call_context import CallContext
from headwater.service.grpc.rpc import Bound, Rpc, sibling
from headwater.service.http.realm_header import named_realm
from headwater.service.http.responses import Response
from headwater.service.manage.route import IN_REALM

_TOKENS = sibling("POST", f"{IN_REALM}/oauth/tokens")


async def _create(service: Service, context: CallContext, message: Any) -> tenant_pb2.CreateTokenResponse:
    if message.subject_token and (message.client_id or message.client_secret):
        raise InvalidInput("a token, and a client too.", field="subject_token", remedy="Send one of them.")
    form = (
        {"grant_type": TOKEN_EXCHANGE, "subject_token": message.subject_token, "subject_token_type": ACCESS_TOKEN}
        if message.subject_token
        else {"grant_type": CLIENT_CREDENTIALS, "client_id": message.client_id, "client_secret": message.client_secret}
    )
    body, endpoint = urlencode(form).encode(), service.access.tokens
    if endpoint is None:
        return _token(dev_token(body))
    # A token in the metadata proves nothing here: the message says who calls.
    scope = {**context.scope, "headers": [one for one in context.scope["headers"] if one[0] != b"authorization"]}
    return _token(await endpoint.answer(scope, body, named_realm(scope) or service.config.default_realm))


def _token(response: Response) -> tenant_pb2.CreateTokenResponse:
    fields = msgspec.json.decode(response.body)
    if response.status == 200:
        return tenant_pb2.CreateTokenResponse(access_token=fields["access_token"], expires_in_seconds=fields["expires_in"])
    description = fields["error_description"]
    if response.status == 429:
        seconds = next((int(value) for name, value in response.headers if name == b"retry-after"), 1)
        raise TooManyRequests(description, field="client_secret", retry_after_seconds=seconds)
    if response.status == 401:
        raise NotAuthenticated(description, field="client_secret", remedy="Check the client's id and secret.")
    raise InvalidInput(description, field="client_id", remedy="Send client_id and client_secret.")


def _unbound(call: Any) -> Bound:
    raise LookupError("a method for everybody is bound to nothing")


ROWS = (
    Rpc(
        method="io.headwater.tenant.v1.TokenService/CreateToken",
        routes=(_TOKENS,),
        bind=_unbound,
        public=_create,
    ),
)
