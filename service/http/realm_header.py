"""The realm that a request's header names, for paths that have none."""

from __future__ import annotations

from headwater.schemas.errors import InvalidInput
from headwater.service.http.responses import Scope, header, is_repeated

REALM_HEADER = b"x-headwater-realm"
NAME_BYTES_MAX = 256


def named_realm(scope: Scope) -> str | None:
    given = header(scope, REALM_HEADER)
    if given is not None and is_repeated(scope, REALM_HEADER):
        raise InvalidInput("it comes more than once.", field="X-Headwater-Realm", remedy="Name one realm.")
    return None if not given else given[:NAME_BYTES_MAX].decode("latin-1")
