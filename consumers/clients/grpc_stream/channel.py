"""Opens channels to grpc:// and grpcs:// addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from headwater.schemas.errors import InvalidInput

DEFAULT_PORT = 8182
OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 15_000),
)
"""Receives more than a server sends by default, so that a server with a larger `grpc_message_bytes_max` works too. A server
that does not answer pings while a call is open is dead."""


def address_of(server: str) -> str:
    parts = urlsplit(server)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or DEFAULT_PORT}"


def open_channel(server: str, ca: str, *, for_loop: bool) -> Any:
    """A channel of `grpc`, or of `grpc.aio`."""
    kind: Any = grpc.aio if for_loop else grpc
    if urlsplit(server).scheme == "grpc":
        return kind.insecure_channel(address_of(server), options=OPTIONS)
    return kind.secure_channel(address_of(server), grpc.ssl_channel_credentials(_trusted(ca)), options=OPTIONS)


def _trusted(ca: str) -> bytes | None:
    """The certificates of a PEM file; without one, those of gRPC."""
    if not ca:
        return None
    try:
        return Path(ca).read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{ca} holds no certificates: {error}.", field="ca", remedy="Name a PEM file with the certificates to trust."
        ) from error
