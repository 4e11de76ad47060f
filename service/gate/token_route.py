"""The route that gives out tokens, under whichever path an API expects it."""

from __future__ import annotations

from typing import Any

from headwater.service.auth.tokens.token_endpoint import dev_token
from headwater.service.gate.request import Request
from headwater.service.gate.route import FORM, Route, public
from headwater.service.http.realm_header import named_realm
from headwater.service.http.responses import Response

_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["grant_type"],
    "properties": {
        "grant_type": {
            "type": "string",
            "enum": ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"],
        },
        "client_id": {"type": "string"},
        "client_secret": {"type": "string"},
        "subject_token": {"type": "string"},
        "subject_token_type": {"type": "string"},
        "scope": {"type": "string"},
    },
}


async def give_token(request: Request) -> Response:
    """Issues a token of the realm that the path or a header names, or of the default one."""
    endpoint = request.access.tokens
    if endpoint is None:
        return dev_token(request.body)
    realm = request.names.get("realm") or named_realm(request.scope) or request.service.config.default_realm
    return await endpoint.answer(request.scope, request.body, realm)


def token_route(path: str) -> Route:
    return Route(
        "POST",
        path,
        "Issue a token for a client's id and secret, or for a valid token.",
        give_token,
        public("a client's id and secret, or a valid token"),
        FORM,
        form=_FORM,
        also=(408, 413),
        is_keyed=False,
    )
