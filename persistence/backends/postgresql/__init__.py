"""The backend for PostgreSQL: each call is one statement, one round trip and one transaction. It connects on first use.

Read postgresql_connections, postgresql_statements, postgresql_errors, postgresql_hints, postgresql_backend.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from headwater.persistence.backend import Backend
from headwater.schemas.errors import InvalidStoreUrl
from headwater.schemas.extras import needs_extra

FORM = "Write postgresql://user:password@host:5432/database, with special characters percent-encoded."


def open_postgresql(url: str) -> Backend:
    """Parameters that libpq understands are passed on; the URL may also set the fields of `PostgresqlOptions`."""
    with needs_extra("a PostgreSQL store", "postgres"):
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        from headwater.persistence.backends.postgresql.postgresql_backend import PostgresqlBackend
        from headwater.persistence.backends.postgresql.postgresql_connections import PostgresqlOptions
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        own = {name: value for name, value in query if name in PostgresqlOptions.__struct_fields__}
        rest = urlencode([(name, value) for name, value in query if name not in own])
        parameters = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
        options = msgspec.convert(own, PostgresqlOptions, strict=False)
    except (ProgrammingError, ValueError):
        # Their messages quote the URL, and with it the password.
        raise InvalidStoreUrl("the PostgreSQL URL cannot be read.", field="store", remedy=FORM) from None
    return PostgresqlBackend(parameters, options)
