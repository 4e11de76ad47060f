"""Splits a raw request path into names, each decoded by itself."""

from __future__ import annotations

from urllib.parse import unquote

from headwater.schemas.errors import InvalidInput
from headwater.service.http.responses import Scope


def segments_below(scope: Scope, prefix: str, *, slashes_at_ends: bool) -> list[str]:
    """⚠ From the raw path: a name may hold an encoded slash, which the decoded path cannot tell from a real one.

    With `slashes_at_ends`, those before and behind the names are passed over; else only the one behind the prefix.
    """
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    try:
        path = raw.partition(b"?")[0].decode("ascii").removeprefix(prefix)
        names = path.strip("/") if slashes_at_ends else path.removeprefix("/")
        return [unquote(segment, errors="strict") for segment in names.split("/")]
    except UnicodeDecodeError:
        raise InvalidInput("the path is not percent-encoded UTF-8.", field="path", remedy="Percent-encode it.") from None
