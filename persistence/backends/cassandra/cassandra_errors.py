"""Translates an exception of the driver into the error that says what is known of the request.

What is known of a conditional write (LWT) that failed:
- not applied: no node took the request, or the node refused it before Paxos began (`Unavailable` at the serial level,
  bootstrapping, invalid, unauthorized);
- unknown: all else. WriteTimeout (CAS), code 0x1700 (the driver has no class for it), write failure, client timeout, a
  connection that broke after the request left, and also `Unavailable` at the commit level: with paxos_variant v1 that is
  raised after the proposal was accepted.
"""

from __future__ import annotations

import enum

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    InvalidRequest,
    RequestValidationException,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException, ConnectionShutdown
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import ErrorMessage, IsBootstrappingErrorMessage

from headwater.schemas.errors import (
    HeadwaterError,
    OutcomeUnknown,
    StoreAccessDenied,
    StoreNotCreated,
    StoreRefused,
    StoreUnavailable,
)

_SERIAL_LEVELS = (ConsistencyLevel.SERIAL, ConsistencyLevel.LOCAL_SERIAL)
_MISSING = ("unconfigured table", "does not exist", "keyspace not found")
_NEVER_SENT = (ConnectionShutdown, ConnectionBusy, NoConnectionsAvailable)
_TRANSIENT = (DriverException, ErrorMessage, ConnectionException, NoHostAvailable, OSError, *_NEVER_SENT)


class RequestKind(enum.Enum):
    READ = "read"
    IDEMPOTENT_WRITE = "write"
    """A write of immutable rows: it is idempotent, so a lost answer is only a reason to send it again."""
    LWT = "conditional write"


def fault_of(error: Exception, kind: RequestKind, where: str, *, attempted: bool = True) -> HeadwaterError | None:
    """What the failure of one request means; None for an exception that is a bug and not a failure of the store.

    `attempted` says whether any node was handed the request.
    """
    refused = _refusal(error, where)
    if refused is not None:
        return refused
    if kind is RequestKind.LWT and not _surely_not_applied(error, attempted):
        return OutcomeUnknown(
            f"{where} did not say whether the conditional write was applied: {_line(error)}",
            remedy="Read the row to decide; never send another write instead.",
            cause=type(error).__name__,
        )
    if isinstance(error, _TRANSIENT):
        return StoreUnavailable(f"{where} did not do the {kind.value}: {_line(error)}", cause=type(error).__name__)
    return None


def connect_fault(error: Exception, where: str) -> HeadwaterError:
    """What a failed connect means; nothing has been sent yet."""
    for inner in _inner_errors(error):
        if isinstance(inner, AuthenticationFailed):
            return StoreAccessDenied(
                f"{where} refused the user or password.",
                field="store",
                remedy="Give user and password in the URL, or the password in HEADWATER_CASSANDRA_PASSWORD.",
            )
    if isinstance(error, UnresolvableContactPoints):
        return StoreUnavailable(f"the host of {where} has no address.", field="store", remedy="Check its name.")
    if isinstance(error, DriverException) and "protocol" in str(error).lower():
        return StoreRefused(f"{where} does not speak protocol version 5.", field="store", remedy="Use Cassandra 4.0 or newer.")
    return StoreUnavailable(
        f"{where} cannot be reached: {_line(error)}", field="store", remedy="Check that it runs and that the port is right."
    )


def _refusal(error: Exception, where: str) -> HeadwaterError | None:
    """Refusals that trying again won't cure; the server gives them before it touches a row."""
    if isinstance(error, (Unauthorized, AuthenticationFailed)):
        return StoreAccessDenied(f"{where} does not allow this: {_line(error)}", field="store")
    if isinstance(error, InvalidRequest) and any(text in str(error).lower() for text in _MISSING):
        return StoreNotCreated(
            f"{where} has no Headwater store.", field="store", remedy="Create it first, or check the keyspace in the URL."
        )
    if isinstance(error, RequestValidationException):
        return StoreRefused(f"{where} refused a request: {_line(error)}", field="store")
    return None


def _surely_not_applied(error: Exception, attempted: bool) -> bool:
    if isinstance(error, Unavailable):
        return error.consistency in _SERIAL_LEVELS
    if isinstance(error, NoHostAvailable):
        return not attempted and all(_is_before_send(inner) for inner in _inner_errors(error))
    return isinstance(error, IsBootstrappingErrorMessage)


def _is_before_send(error: Exception) -> bool:
    """The driver found no connection to put the request on: exactly ConnectionException is its "host is down"."""
    return isinstance(error, _NEVER_SENT) or type(error) is ConnectionException


def _inner_errors(error: Exception) -> list[Exception]:
    errors = getattr(error, "errors", None) if isinstance(error, NoHostAvailable) else None
    return [inner for inner in errors.values() if isinstance(inner, Exception)] if isinstance(errors, dict) else [error]


def _line(error: Exception) -> str:
    text = " ".join(str(inner) for inner in _inner_errors(error)) or type(error).__name__
    return " ".join(f"{type(error).__name__}: {text}".split())[:300]
