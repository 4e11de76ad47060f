"""Certificates that clients in a test process trust are loaded once: httpx loads them for every client, 25 ms of CPU each."""

from __future__ import annotations

import ssl
from typing import Any

from httpx._transports import default

_make = default.create_ssl_context
_usual: list[ssl.SSLContext] = []


def share_trust() -> None:
    """A client that names no certificate gets the context of the client before it, which httpx has made."""
    default.create_ssl_context = _shared


def _shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
    if verify is not True or cert is not None or not trust_env:
        return _make(verify=verify, cert=cert, trust_env=trust_env)
    if not _usual:
        _usual.append(_make())
    return _usual[0]
