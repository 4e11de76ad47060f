"""Refuses requests that a browser sends for a page of another origin; `--dev` asks for no token.

Under `--dev` nobody is asked for a token, so the loopback address is the only guard, and a browser carries any page's requests
past it: by a form to this port (then `Origin` names the page) or by a name that resolves to 127.0.0.1 (then `Host` does).
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

from headwater.schemas.errors import ForeignOrigin
from headwater.service.http.loopback import is_loopback
from headwater.service.http.responses import Scope

KEPT_HOSTS_MAX = 256


def check_origin(scope: Scope) -> None:
    for name, value in scope["headers"]:
        if (name == b"host" and not _is_local_host(value)) or (name == b"origin" and not _is_local_origin(value)):
            raise ForeignOrigin(
                f"{name.decode()} {value[:100].decode('latin-1')!r} is not this machine.",
                field=name.decode(),
                remedy="Call it as 127.0.0.1 or localhost, from pages of this machine alone.",
            )


@lru_cache(maxsize=KEPT_HOSTS_MAX)
def _is_local_host(value: bytes) -> bool:
    return _is_local(f"//{value.decode('latin-1')}")


@lru_cache(maxsize=KEPT_HOSTS_MAX)
def _is_local_origin(value: bytes) -> bool:
    return _is_local(value.decode("latin-1"))


def _is_local(url: str) -> bool:
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)
