"""How a server is reached: its address, the caller's credentials, and the certificates to trust."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from headwater.consumers.clients.client_credentials import ClientCredentials, Token
from headwater.consumers.clients.feed_http import FeedTarget, unreachable
from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra

GRPC_SCHEMES = ("grpc", "grpcs")
POOL = httpx.Limits(max_connections=64, max_keepalive_connections=16)


class Connection:
    """Makes clients that authenticate, renew their token in time, and trust the right certificates."""

    def __init__(self, url: str, *, token: str = "", client_id: str = "", client_secret: str = "", ca: str = "") -> None:
        self.server = check_server_url(url)
        if bool(client_id) != bool(client_secret) or (token and client_id):
            raise InvalidInput(
                "a client has an id and a secret, and needs no token.",
                field="client_id",
                remedy="Give a token, or an id and a secret.",
            )
        self._token = token
        self._ca = ca
        self._verify = trust(ca)
        self.credentials = ClientCredentials(self.server, client_id, client_secret) if client_id else None

    def target(self, realm: str) -> FeedTarget:
        return FeedTarget(server=self.server, realm=realm, token=self._token)

    def token(self, realm: str) -> Token:
        """A new token of the realm, for programs that send it themselves."""
        if self.credentials is None:
            raise InvalidInput(
                "a token is issued for a client's id and secret.",
                field="server_client_id",
                remedy="Set HEADWATER_SERVER_CLIENT_ID and HEADWATER_SERVER_CLIENT_SECRET.",
            )
        asking = self.credentials.fetch(realm)
        with httpx.Client(verify=self._verify) as client:
            try:
                response = client.send(next(asking))
            except httpx.TransportError as error:
                raise unreachable(self.server, error) from error
            try:
                asking.send(response)
            except StopIteration as done:
                found: Token = done.value
                return found
        raise AssertionError("one request fetches a token")

    @property
    def is_grpc(self) -> bool:
        return urlsplit(self.server).scheme in GRPC_SCHEMES

    def client(self) -> httpx.Client:
        if not self.is_grpc:
            return httpx.Client(limits=POOL, auth=self.credentials, verify=self._verify)
        with needs_extra("a server over gRPC", "grpc"):
            from headwater.consumers.clients.grpc_stream.grpc_transport import GrpcTransport
        return httpx.Client(auth=self.credentials, transport=GrpcTransport(self.server, self._ca))

    def async_client(self) -> httpx.AsyncClient:
        if not self.is_grpc:
            return httpx.AsyncClient(limits=POOL, auth=self.credentials, verify=self._verify)
        with needs_extra("a server over gRPC", "grpc"):
            from headwater.consumers.clients.grpc_stream.grpc_transport import AsyncGrpcTransport
        return httpx.AsyncClient(auth=self.credentials, transport=AsyncGrpcTransport(self.server, self._ca))


def check_server_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https", *GRPC_SCHEMES) or not parts.hostname:
        raise InvalidInput(f"{url!r} is not the address of a server.", field="url", remedy="Use e.g. http://127.0.0.1:8181.")
    return url.rstrip("/")


def trust(ca: str) -> ssl.SSLContext:
    """The certificates of a PEM file; without one, the system's and those of SSL_CERT_FILE."""
    if not ca:
        return _usual_trust()
    try:
        return ssl.create_default_context(cafile=str(Path(ca)))
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"{ca} holds no certificates: {error}.", field="ca", remedy="Name a PEM file with the certificates to trust."
        ) from error


@cache
def _usual_trust() -> ssl.SSLContext:
    """Once for a process: it takes 25 ms of CPU, which every client would take again."""
    return httpx.create_ssl_context()
