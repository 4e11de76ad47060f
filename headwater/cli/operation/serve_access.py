"""The server's options for identities, rights and TLS, from settings and flags."""

from __future__ import annotations

from typing import Any

from headwater.settings import Settings

NAMES = (
    "default_realm",
    "principal_provider",
    "authorizer",
    "token_seconds",
    "token_key_days",
    "oidc_config",
    "rate_limit_per_second",
    "rate_limit_burst",
    "tls_certificate",
    "tls_key",
    "tls_key_password",
    "allow_plaintext",
    "metrics_token",
    "grpc_port",
    "grpc_message_bytes_max",
    "grpc_reflection",
    "grpc_connection_seconds",
    "grpc_client_ca",
    "directory_bytes",
)


def access_settings(settings: Settings, **flags: object) -> dict[str, Any]:
    """Under the same names; a flag that was given wins."""
    peers = frozenset(settings.grpc_trusted_peers.split())
    return {name: getattr(settings, name) for name in NAMES} | {
        **{name: value for name, value in flags.items() if value is not None},
        "grpc_trusted_peers": peers,
    }
