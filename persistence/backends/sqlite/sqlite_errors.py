"""Translates an exception of sqlite3 into the error that says what was, was not, or may have been done."""

from __future__ import annotations

import sqlite3

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

_PRIMARY_CODE = 0xFF
"""SQLite puts the details of an error above the lowest byte of its code."""

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _BUSY


def is_read_only(error: BaseException) -> bool:
    """⚠ A connection that was opened while the file could not be written, or whose file was moved, stays read-only forever:
    only a new one shows whether that is over."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE == sqlite3.SQLITE_READONLY


def sqlite_error(error: Exception, path: str, *, committing: bool = False) -> Exception:
    """While `committing`, only "busy" is known to have changed nothing: a commit that failed to reach the disk may be found
    there by the next process that recovers the log."""
    if isinstance(error, HeadwaterError):
        return error
    if isinstance(error, OverflowError | UnicodeError | sqlite3.DataError | sqlite3.InterfaceError | sqlite3.IntegrityError):
        return InvalidInput(f"SQLite cannot keep one of the values: {error}.")
    if not isinstance(error, sqlite3.Error):
        return error
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
    if committing and code not in _BUSY:
        return OutcomeUnknown(f"{path}: the commit failed ({error}); it may or may not be on disk.")
    return _of_code(code, error, path)


def _of_code(code: int, error: sqlite3.Error, path: str) -> Exception:
    if code in _BUSY:
        return StoreUnavailable(
            f"{path} is locked by another writer ({error}).", field="store", remedy="Try again, or find who holds it."
        )
    if code == sqlite3.SQLITE_NOTADB:
        return StoreRefused(f"{path} is not a SQLite database.", field="store", remedy="Name another file.")
    if code == sqlite3.SQLITE_CORRUPT:
        return Corruption(f"{path} is damaged: {error}.", remedy="Restore it from a backup.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return StoreAccessDenied(
            f"{path} cannot be written: {error}.", field="store", remedy="Check the rights of the file and its folder."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreAccessDenied(
            f"{path} cannot be opened: {error}.", field="store", remedy="Check the rights of the file and its folder."
        )
    if code == sqlite3.SQLITE_ERROR and str(error).startswith("no such table"):
        return StoreNotCreated(f"{path} has no schema yet.", field="store", remedy=CREATE_REMEDY)
    if code in (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH):
        return InvalidInput(f"SQLite cannot keep one of the values: {error}.")
    return StoreUnavailable(f"{path}: {error}.", field="store", remedy="Check the disk and its free space.")
