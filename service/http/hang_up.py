"""Closes the connection to a client, whatever the answer was.

⚠ The server below closes one only when its buffers are written, and a client that reads nothing keeps them as long as it likes.
It gives out no handle either: so the connection is found among the open files of the process, by the client's address.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

from headwater.service.http.responses import Scope


def hang_up(scope: Scope) -> bool:
    """Whether the connection was still there. ⚠ Nothing is duplicated or closed here: closing a copy of a database file would
    end the locks that the process has on it."""
    client = scope.get("client")
    if client is None:
        return False
    address = (str(client[0]), int(client[1]))  # the server below gives the port as text
    return any(_shut(int(file.name), address) for file in Path("/dev/fd").iterdir())


def _shut(number: int, address: tuple[str, int]) -> bool:
    with suppress(OSError):  # no socket, not connected, or gone by now
        connection = socket.socket(fileno=number)
        try:
            if connection.getpeername()[:2] == address:
                connection.shutdown(socket.SHUT_RDWR)
                return True
        finally:
            connection.detach()
    return False
