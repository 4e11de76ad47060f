"""Translates an exception of psycopg into the error that says what was, was not, or may have been done.

Only an answer of severity ERROR proves that a statement was rolled back. A FATAL answer, a cut connection and silence prove
nothing: the server may have committed before. And no message of ours repeats a connection string: it may hold a password.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import errors
from sqlalchemy.exc import TimeoutError as PoolTimeout

from headwater.schemas.errors import (
    Corruption,
    HeadwaterError,
    InvalidInput,
    OutcomeUnknown,
    StoreAccessDenied,
    StoreNotCreated,
    StoreRefused,
    StoreUnavailable,
)

CREATE_REMEDY = "Run `headwater store create`."

NOT_SENT = (OverflowError, UnicodeError, psycopg.DataError)
"""What psycopg raises for a value that it cannot write down, before anything is sent (DataError also comes as an answer)."""

_DENIED = (
    "password authentication failed",
    "no password supplied",
    "authentication failed",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "permission denied",
)
_PASSES = (
    "starting up",
    "shutting down",
    "in recovery mode",
    "accepting connections",
    "too many connections",
    "remaining connection slots",
    "terminating connection",
    "administrator command",
)
"""Words of a server that is not ready, or full: some of them come after the password was taken."""

_SESSION_STAYS_GOOD = frozenset({"40P01", "42501", "42P01", "55P03", "57014"})
"""Deadlock, no right, no table, lock timeout, statement timeout: about one statement, as are the classes below."""
_SESSION_STAYS_GOOD_CLASSES = frozenset({"22", "23", "54"})

_OF_THE_SESSION = frozenset({"26000", "42P05"})
"""Prepared statements that are gone, or there already: another session has none of it."""


def connect_error(error: Exception, where: str) -> HeadwaterError:
    """A connection that did not come about has changed nothing. libpq hands over no code here, only the server's words."""
    if isinstance(error, PoolTimeout):
        return StoreUnavailable(
            f"all connections to {where} are busy.", field="store", remedy="Try again, or raise `pool_size` in the URL."
        )
    words = _one_line(error)
    if any(sign in words for sign in _PASSES):
        return StoreUnavailable(f"PostgreSQL at {where} takes no connections now: {words}.", field="store", remedy="Try again.")
    if any(sign in words for sign in _DENIED) or ("role " in words and "does not exist" in words):
        return StoreAccessDenied(
            f"PostgreSQL at {where} refused the login: {words}.", field="store", remedy="Check user and password in the URL."
        )
    if "database " in words and "does not exist" in words:
        return StoreRefused(
            f"PostgreSQL at {where} has no such database: {words}.", field="store", remedy="Create it, or correct the URL."
        )
    if getattr(error, "pgconn", None) is not None and error.pgconn.used_password and "FATAL" in words:  # type: ignore[attr-defined]
        return StoreAccessDenied(
            f"PostgreSQL at {where} refused the connection: {words}.", field="store", remedy="Check the URL."
        )
    return StoreUnavailable(
        f"PostgreSQL at {where} cannot be reached: {words}.", field="store", remedy="Check that it runs, and the URL."
    )


def keeps_session(error: Exception, connection: psycopg.Connection[Any]) -> bool:
    """Whether the session is as good as before. ⚠ Only where the error is known to be about one statement: a session that was
    opened while the server was read-only refuses every write, though a new one would take it."""
    if connection.broken or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return False
    if not isinstance(error, psycopg.Error) or error.sqlstate is None:
        return isinstance(error, NOT_SENT)
    return error.sqlstate in _SESSION_STAYS_GOOD or error.sqlstate[:2] in _SESSION_STAYS_GOOD_CLASSES


def statement_error(error: Exception, where: str, *, writing: bool) -> HeadwaterError:
    """For a statement that may have reached the server. Without `writing` nothing can have been changed."""
    if isinstance(error, psycopg.Error) and error.sqlstate and error.diag.severity_nonlocalized == "ERROR":
        return _answered(error, error.sqlstate, where)
    if isinstance(error, NOT_SENT):
        return InvalidInput(f"PostgreSQL cannot keep one of the values: {_one_line(error)}.")
    silent = isinstance(error, errors._WaitTimeout)
    what = "no answer came in time" if silent else f"the connection was lost ({_one_line(error)})"
    if writing:
        return OutcomeUnknown(f"PostgreSQL at {where}: {what}; the write may or may not have been applied.", field="store")
    return StoreUnavailable(f"PostgreSQL at {where}: {what}.", field="store", remedy="Try again.")


def _answered(error: psycopg.Error, sqlstate: str, where: str) -> HeadwaterError:
    """The server rolled the statement back and says why."""
    words = _one_line(error)
    group = sqlstate[:2]
    if sqlstate == "42P01":
        return StoreNotCreated(f"the database at {where} has no schema yet.", field="store", remedy=CREATE_REMEDY)
    if sqlstate == "42501":
        return StoreAccessDenied(
            f"PostgreSQL at {where}: {words}.", field="store", remedy="Grant the user rights on the headwater_* tables."
        )
    if group in ("22", "23", "54"):
        return InvalidInput(f"PostgreSQL cannot keep one of the values: {words}.", sqlstate=sqlstate)
    if group in ("08", "40", "53", "55", "57", "58"):
        # Deadlock or serialization, resources, lock or statement timeout, shutdown, I/O: rolled back, and may pass.
        return StoreUnavailable(f"PostgreSQL at {where}: {words}.", field="store", remedy="Try again.", sqlstate=sqlstate)
    if sqlstate in ("XX001", "XX002"):
        return Corruption(f"PostgreSQL at {where}: {words}.", remedy="Restore it from a backup.", sqlstate=sqlstate)
    if sqlstate == "25006":
        return StoreUnavailable(
            f"PostgreSQL at {where} is read-only.",
            field="store",
            remedy="Try again when it takes writes, or name the primary server in the URL.",
            sqlstate=sqlstate,
        )
    if sqlstate in _OF_THE_SESSION or "cached plan" in words:
        return StoreUnavailable(f"PostgreSQL at {where}: {words}.", field="store", remedy="Try again.", sqlstate=sqlstate)
    return StoreRefused(f"PostgreSQL at {where}: {words}.", field="store", remedy="Check the schema.", sqlstate=sqlstate)


def _one_line(error: Exception) -> str:
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error)).split()).rstrip(".")
