"""The realm that a request's header names, for paths that have none."""

from __future__ import annotations

from headwater.service.http.responses import Scope, one_header

REALM_HEADER = b"x-headwater-realm"
NAME_BYTES_MAX = 256


def named_realm(scope: Scope) -> str | None:
    given = one_header(scope, REALM_HEADER, "X-Headwater-Realm")
    return None if not given else given[:NAME_BYTES_MAX].decode("latin-1")
