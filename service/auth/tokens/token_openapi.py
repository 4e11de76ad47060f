"""The OpenAPI of tokens: how they are requested and sent."""

from __future__ import annotations

from typing import Any

TOKENS_ROUTE = "/manage/v1/{realm}/oauth/tokens"

_ERROR = {
    "type": "object",
    "required": ["error", "error_description"],
    "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
}
_TOKEN = {
    "type": "object",
    "required": ["access_token", "token_type", "expires_in"],
    "properties": {
        "access_token": {"type": "string"},
        "token_type": {"type": "string", "const": "bearer"},
        "expires_in": {"type": "integer"},
        "issued_token_type": {"type": "string"},
    },
}
_FORM = {
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

SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "Asked for by every route under /feed, /manage, /iceberg and /api, unless the server runs with --dev.",
    }
}


def token_operation(realm: dict[str, Any]) -> dict[str, Any]:
    """`POST` of the token route; errors are those of OAuth 2, but for a body that is too large."""
    refusals = {400: "The form cannot be meant.", 401: "The client's id or secret is wrong.", 429: "Too many wrong tries."}
    return {
        "summary": "Give a token out for a client's id and secret, or for a token that still counts.",
        "operationId": "post_oauth_tokens",
        "parameters": [realm],
        "requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": _FORM}}},
        "responses": {
            "200": {"description": "A token.", "content": {"application/json": {"schema": _TOKEN}}},
            **{
                str(status): {"description": said, "content": {"application/json": {"schema": _ERROR}}}
                for status, said in refusals.items()
            },
        },
    }
