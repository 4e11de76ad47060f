"""A connection to the server that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.schemas.extras import needs_extra
from headwater.settings import Settings

if TYPE_CHECKING:
    from headwater.client.remote import RemoteHeadwater
    from headwater.consumers.clients.connection import Connection


def server_connection(settings: Settings) -> Connection:
    """Uses the client's id and secret if there are any, because they outlive a token."""
    with needs_extra("reading a server"):
        from headwater.consumers.clients.connection import Connection
    has_client = bool(settings.server_client_id)
    return Connection(
        settings.server,
        token="" if has_client else settings.server_token,
        client_id=settings.server_client_id,
        client_secret=settings.server_client_secret,
        ca=settings.server_ca,
    )


def connected(settings: Settings) -> RemoteHeadwater:
    with needs_extra("reading a server"):
        from headwater.client.remote import RemoteHeadwater
    return RemoteHeadwater(server_connection(settings))
