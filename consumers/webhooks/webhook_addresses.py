"""Resolves a webhook's URL to the address to call, and refuses private networks with `AddressForbidden`.

⚠ Every address of the name is checked, and the call goes to a checked address and not to the name: a name that resolves
differently the second time leads nowhere else.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import msgspec

from headwater.schemas.errors import AddressForbidden, FeedUnreachable, InvalidInput

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], list[str]]

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_PORTS = {"http": 80, "https": 443}


class CheckedUrl(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """With the address in place of the name."""
    host: str
    """The name, for the Host header and the certificate."""
    host_header: str


def resolve(host: str, port: int) -> list[str]:
    try:
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except (OSError, UnicodeError) as error:
        raise FeedUnreachable(f"{host} has no address: {error}.", field="url", remedy="Check the name.") from error


def checked_url(url: str, *, allow_private: bool = False, resolve: Resolve = resolve) -> CheckedUrl:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise _no_url(url) from error
    if not host or not port or parts.username is not None:
        raise _no_url(url)
    addresses = resolve(host, port)
    for address in addresses:
        if not allow_private and is_forbidden(address):
            raise AddressForbidden(
                f"{host} is {address}, which is not a public address.",
                field="url",
                remedy="Name a public address, or allow private ones.",
            )
    chosen = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
    return CheckedUrl(url=urlunsplit(parts._replace(netloc=f"{chosen}:{port}")), host=host, host_header=parts.netloc)


def is_forbidden(text: str) -> bool:
    """Loopback, private, link-local, shared, reserved, multicast, and addresses that only wrap one of those."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return True
    return any(not one.is_global or one.is_multicast or one.is_reserved for one in _meant(address))


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


def _no_url(url: str) -> InvalidInput:
    return InvalidInput(
        f"{url[:200]!r} is not an address for a webhook.",
        field="url",
        remedy="Use https://host/path, without a password in it.",
    )
