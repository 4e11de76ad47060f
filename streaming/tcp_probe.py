"""Probes whether a server answers at one of several addresses within seconds; the server's own clients may try for minutes."""

from __future__ import annotations

import socket
from collections.abc import Iterable

ANSWER_SECONDS = 5.0


def is_reachable(addresses: Iterable[str], timeout_seconds: float = ANSWER_SECONDS) -> bool:
    """Each address is `host:port`; a malformed one counts as not answering."""
    for address in addresses:
        host, _, port = address.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout_seconds):
                return True
        except (OSError, ValueError):
            continue
    return False
