"""The embedded backend: one SQLite file, opened on first use.

Read sqlite_schema, sqlite_connections, group_commit, sqlite_moves, sqlite_errors, sqlite_backend.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from headwater.persistence.backends.sqlite.sqlite_backend import SqliteBackend
from headwater.persistence.backends.sqlite.sqlite_connections import SqliteOptions
from headwater.schemas.errors import InvalidStoreUrl

FORM = "Write sqlite:///relative/path.db or sqlite:////absolute/path.db."


def open_sqlite(url: str) -> SqliteBackend:
    """`?synchronous=NORMAL` and `?busy_timeout_seconds=2` change the defaults of `SqliteOptions`."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidStoreUrl(f"{url!r} names no file.", field="store", remedy=FORM) from error
    path = unquote(parts.path.removeprefix("/"))
    if parts.netloc or parts.fragment or not path or "\0" in path:
        raise InvalidStoreUrl(f"{url!r} names no file.", field="store", remedy=FORM)
    if path == ":memory:":
        raise InvalidStoreUrl("SQLite in memory is not offered.", field="store", remedy="Use memory:// for a store in memory.")
    return SqliteBackend(Path(path), _options(url, parts.query))


def _options(url: str, query: str) -> SqliteOptions:
    given: dict[str, str] = dict(parse_qsl(query, keep_blank_values=True))
    try:
        options = msgspec.convert(given, _UrlOptions, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidStoreUrl(
            f"{url!r}: {error}.",
            field="store",
            remedy="The options are synchronous (NORMAL, FULL, EXTRA) and busy_timeout_seconds.",
        ) from error
    if options.synchronous not in ("NORMAL", "FULL", "EXTRA") or not 0 <= options.busy_timeout_seconds <= 3_600:
        raise InvalidStoreUrl(
            f"{url!r}: an option is out of range.",
            field="store",
            remedy="synchronous is NORMAL, FULL or EXTRA; busy_timeout_seconds 0 to 3600.",
        )
    return options


class _UrlOptions(SqliteOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass
