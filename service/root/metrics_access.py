"""Allows a request for metrics if it has the configured token or comes from this machine.

Metrics are of all realms: they carry names of realms, pointers and subscriptions, so no token of one realm opens them.
"""

from __future__ import annotations

import hmac

from headwater.schemas.errors import NotAuthenticated
from headwater.service.auth.tokens.token_endpoint import peer_of
from headwater.service.config import ServeConfig
from headwater.service.http.loopback import is_loopback
from headwater.service.http.responses import Scope, one_header

FORWARDED = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"})


def check_metrics_reader(config: ServeConfig, scope: Scope) -> None:
    if config.dev or (not config.metrics_token and is_loopback(peer_of(scope)) and not _was_forwarded(scope)):
        return
    given = one_header(scope, b"authorization", "authorization") or b""
    expected = f"Bearer {config.metrics_token}".encode()
    if not config.metrics_token or not hmac.compare_digest(given, expected):
        raise NotAuthenticated(
            "metrics are not for everyone.",
            field="authorization",
            remedy="Send the token of the setting metrics_token, or ask from the server's own machine.",
        )


def _was_forwarded(scope: Scope) -> bool:
    """⚠ A proxy on this machine makes everyone look as if they were on it."""
    return any(name in FORWARDED for name, _ in scope["headers"])
