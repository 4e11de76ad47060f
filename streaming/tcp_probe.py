"""Probes whether a server answers at one of several addresses within seconds; its clients may try for minutes."""

from __future__ import annotations

import socket
from collections.abc import Iterable

ANSWER_SECONDS = 5.0


def is_reachable(addresses: Iterable[str], timeout_seconds: float = ANSWER_SECONDS) -> bool:
    """Each `host:port`; what is none of that kind answers nothing."""
    for address in addresses:
        host, _, port = address.strip().rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout_seconds):
                return True
        except (OSError, ValueError):
            continue
    return False
