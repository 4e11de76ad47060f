"""A request enters; the realm that its header names leaves, for paths that have none."""

from __future__ import annotations

from headwater.service.http.answers import Scope, header

REALM_HEADER = b"x-headwater-realm"
NAME_BYTES_MAX = 256


def named_realm(scope: Scope) -> str | None:
    given = header(scope, REALM_HEADER)
    return None if not given else given[:NAME_BYTES_MAX].decode("latin-1")
