"""Resolves a webhook's URL to the address to call, and refuses private networks with `AddressForbidden`.

⚠ Every address of the name is checked, and the call goes to a checked address and not to the name: a name that resolves
differently the second time leads nowhere else. `CheckedTransport` carries such calls.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Collection
from urllib.parse import urlsplit, urlunsplit

import httpx
import msgspec

from headwater.schemas.errors import AddressForbidden, FeedUnreachable, InvalidInput

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], list[str]]

HTTP_SCHEMES = frozenset({"http", "https"})
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}
_NOT_PUBLIC = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20", "5f00::/16", "fec0::/10"))
)
"""For special purposes, though this or an earlier `ipaddress` calls them global; metadata of clouds is served at some."""


class CheckedUrl(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """With the address in place of the name."""
    host: str
    """The name, for the certificate; in ASCII."""
    host_header: str


def resolve(host: str, port: int) -> list[str]:
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except (OSError, UnicodeError) as error:
        raise FeedUnreachable(f"{host} has no address: {error}.", field="url", remedy="Check the name.") from error


def checked_url(
    url: str,
    *,
    allow_private: bool = False,
    schemes: Collection[str] = HTTP_SCHEMES,
    resolve: Resolve = resolve,
) -> CheckedUrl:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()  # as the resolver reads it
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise _no_url(url) from error
    if not host or not port or parts.username is not None or parts.scheme not in schemes:
        raise _no_url(url)
    if not host.isprintable() or " " in host:  # it would tear the Host header apart
        raise _no_url(url)
    addresses = resolve(host, port)
    for address in addresses:
        if not allow_private and is_forbidden(address):
            raise AddressForbidden(
                f"{host} is {address}, which is not a public address.",
                field="url",
                remedy="Name a public address, or allow private ones.",
            )
    to = urlunsplit(parts._replace(netloc=f"{_bracketed(addresses[0])}:{port}"))
    try:
        httpx.URL(to)
    except httpx.InvalidURL as error:
        raise _no_url(url) from error
    named = _bracketed(host)
    return CheckedUrl(url=to, host=host, host_header=named if parts.port is None else f"{named}:{parts.port}")


class CheckedTransport(httpx.BaseTransport):
    """Sends what names a checked address in its URL and a host in `sni_hostname`.

    ⚠ Each host has connections of its own: httpx takes an open connection to the same address for any host, though its
    certificate was checked for another one. Proxies of the environment are not used, because they connect to what they like.
    """

    def __init__(self, verify: ssl.SSLContext | None = None) -> None:
        self._verify: ssl.SSLContext | bool = True if verify is None else verify
        self._by_host: dict[str, httpx.HTTPTransport] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host = str(request.extensions["sni_hostname"])
        with self._lock:
            pool = self._by_host.get(host)
            if pool is None:
                pool = self._by_host[host] = httpx.HTTPTransport(verify=self._verify)
        return pool.handle_request(request)

    def close(self) -> None:
        with self._lock:
            for pool in self._by_host.values():
                pool.close()


def is_forbidden(text: str) -> bool:
    """Loopback, private, link-local, shared, reserved, multicast, and addresses that only wrap one of those."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return True
    return any(
        not one.is_global or one.is_multicast or one.is_reserved or any(one in network for network in _NOT_PUBLIC)
        for one in _meant(address)
    )


def _meant(address: Address) -> list[Address]:
    """The address, and the IPv4 addresses that it leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    wrapped: list[Address] = [address]
    if address.sixtofour is not None:
        wrapped.append(address.sixtofour)
    if address.teredo is not None:
        wrapped += address.teredo
    return wrapped


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _no_url(url: str) -> InvalidInput:
    return InvalidInput(
        f"{url[:200]!r} is not an address for a webhook.",
        field="url",
        remedy="Use https://host/path, without a password in it.",
    )
