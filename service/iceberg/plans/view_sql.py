"""The relations that the SQL of a view reads, as it names them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from headwater.schemas.change import KeyPath
from headwater.schemas.errors import Unsupported
from headwater.schemas.extras import needs_extra

SQL_BYTES_MAX = 64 * 1024
"""⚠ A kilobyte takes up to 10 ms of CPU to parse."""
RELATIONS_MAX = 1_000


class NamedInSql(msgspec.Struct, frozen=True):
    parts: KeyPath
    """From the outermost level, as written: a catalog may be among them."""
    snapshot_id: int | None = None
    """From `VERSION AS OF`."""


@lru_cache(maxsize=4_096)
def relations_in(dialect: str, sql: str) -> tuple[NamedInSql, ...]:
    """Each once, in the order of the text's scopes; `Unsupported` if it is not a query that can be read.

    Names of common table expressions and table functions are none.
    """
    with needs_extra("planning views", "service"):
        from sqlglot import exp, parse_one
        from sqlglot.dialects.dialect import Dialects
        from sqlglot.errors import SqlglotError
        from sqlglot.optimizer.scope import traverse_scope
    if len(sql) > SQL_BYTES_MAX:
        raise unreadable("its SQL is too long")
    known = dialect.lower() if dialect.lower() in {one.value for one in Dialects} else None
    try:
        parsed: Any = parse_one(sql, dialect=known)
        if not isinstance(parsed, exp.Query | exp.Values):
            raise unreadable("its SQL is no query")
        found = {
            NamedInSql(tuple(part.name for part in source.parts), _snapshot(source))
            for scope in traverse_scope(parsed)
            for source in scope.sources.values()
            if isinstance(source, exp.Table) and not isinstance(source.this, exp.Func)
        }
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError):  # of whatever a client has stored
        raise unreadable("its SQL cannot be read") from None
    if len(found) > RELATIONS_MAX:
        raise unreadable("it reads too many relations")
    return tuple(sorted(found, key=lambda one: (one.parts, one.snapshot_id or 0)))


def unreadable(why: str) -> Unsupported:
    return Unsupported(
        f"what the view reads is not known: {why}.",
        field="inputs",
        remedy="Declare the view's base relations.",
    )


def _snapshot(table: Any) -> int | None:
    version = table.args.get("version")
    if version is None:
        return None
    wanted = str(version.expression.this) if version.expression is not None else ""
    if version.name.upper() != "VERSION" or not (wanted.isascii() and wanted.isdigit() and len(wanted) < 20):
        raise unreadable("it reads a table as of a time or a branch")
    return int(wanted)
