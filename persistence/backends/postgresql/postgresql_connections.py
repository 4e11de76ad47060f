"""Connections to PostgreSQL, each used by one thread at a time, with every wait bounded.

The pool is SQLAlchemy's: it connects in the thread that asks, so a wrong password or a missing database reaches the caller at
once and in full, where a pool with workers of its own would try on in the background and report a timeout.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import msgspec
import psycopg
from psycopg.abc import PQGen
from psycopg.types.numeric import Int8BinaryDumper
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from headwater.persistence.backends.postgresql.postgresql_errors import connect_error, keeps_session, statement_error
from headwater.persistence.backends.postgresql.postgresql_statements import DATA_IDENTITY
from headwater.schemas.errors import StoreRestored, StoreUnavailable

RV = TypeVar("RV")
ConnectionParameters = dict[str, Any]

STALE_READS_MAX = 8


class PostgresqlOptions(msgspec.Struct, frozen=True, kw_only=True):
    pool_size: int = 16
    """How many connections this process opens at most."""
    pool_timeout_seconds: float = 10.0
    """How long a call waits for a free connection."""
    connect_timeout_seconds: int = 10
    lock_timeout_seconds: float = 10.0
    statement_timeout_seconds: float = 30.0
    answer_timeout_seconds: float = 40.0
    """How long the client waits: longer than the server's own limits, so that silence means a lost server or network."""


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """psycopg waits for an answer for as long as the network stays silent; this one gives up."""

    answer_timeout_seconds: float | None = None
    data_identity: str = ""
    """Identity of the data that the connection was opened to."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        return super().wait(gen, interval, self.answer_timeout_seconds if timeout is None else timeout)


_abandoned_after_fork: list[object] = []
"""A child process must neither talk over its parent's connections nor end them: they are kept here, untouched, forever."""


class PostgresqlConnections:
    def __init__(self, parameters: ConnectionParameters, options: PostgresqlOptions) -> None:
        self._options = options
        self._parameters = _with_limits(parameters, options)
        self.where = _where(parameters)
        self._pool = QueuePool(
            self._connect_checked,  # type: ignore[arg-type]
            pool_size=options.pool_size,
            max_overflow=0,
            timeout=options.pool_timeout_seconds,
            use_lifo=True,
            reset_on_return=None,
        )
        self._process = os.getpid()
        self._closed = False
        self._data_identity = ""

    @contextmanager
    def connection(self, *, writing: bool) -> Iterator[BoundedConnection]:
        """In autocommit: each statement is a transaction. Errors leave as ours; a connection in doubt is thrown away."""
        pooled = self._checked_out()
        connection = cast(BoundedConnection, pooled.driver_connection)
        healthy = False
        try:
            yield connection
            healthy = True
        except (psycopg.Error, OverflowError, UnicodeError) as error:
            healthy = keeps_session(error, connection)
            raise statement_error(error, self.where, writing=writing) from error
        finally:
            if not healthy:
                connection.close()
                pooled.invalidate()
            pooled.close()

    def data_identity(self) -> str:
        """As the server says now. Connections that were opened before the tables were made learn it here."""
        with self.connection(writing=False) as connection:
            connection.data_identity = _read_data_identity(connection)
        self._data_identity = self._data_identity or connection.data_identity
        return connection.data_identity

    def require_data(self, connection: BoundedConnection, identity: str, *, asking: bool = False) -> None:
        """`StoreRestored` if `identity` is that of other data than this session's, whoever has noticed. A session stays with
        its database for as long as it lasts; a standby that it was opened to may have been promoted, and tables be made
        anew."""
        if not identity or (connection.data_identity == identity and not asking):
            return
        connection.data_identity = _read_data_identity(connection)
        if connection.data_identity != identity:
            raise self.restored()

    def restored(self) -> StoreRestored:
        return StoreRestored(f"PostgreSQL at {self.where} holds other data than before; nothing was changed.", field="store")

    def connect_alone(self) -> BoundedConnection:
        """A connection outside the pool, for a caller that keeps it; the caller closes it."""
        return self._connect()

    def close(self) -> None:
        self._closed = True
        if self._process == os.getpid():
            self._pool.dispose()

    def _checked_out(self) -> Any:
        if self._closed:
            raise StoreUnavailable(f"the store at {self.where} has been closed.")
        if self._process != os.getpid():
            _abandoned_after_fork.append(self._pool)
            self._process, self._pool = os.getpid(), self._pool.recreate()
        try:
            pooled = self._pool.connect()
            while self._is_spent(cast(BoundedConnection, pooled.driver_connection)):
                pooled.invalidate()
                pooled.close()
                pooled = self._pool.connect()
        except (psycopg.Error, PoolTimeout) as error:
            raise connect_error(error, self.where) from None
        return pooled

    def _connect_checked(self) -> BoundedConnection:
        """For the pool. ⚠ A database that is another than before (a standby took over, a dump was restored) is noticed before
        anything is sent to it: what was prepared for the old data is not written into the new."""
        connection = self._connect()
        try:
            connection.data_identity = _read_data_identity(connection)
            if self._is_of_old_data(connection):
                self._data_identity = connection.data_identity
                raise self.restored()
        except BaseException:
            connection.close()
            raise
        self._data_identity = connection.data_identity or self._data_identity
        return connection

    def _is_spent(self, connection: BoundedConnection) -> bool:
        return self._is_of_old_data(connection) or _is_stale(connection)

    def _is_of_old_data(self, connection: BoundedConnection) -> bool:
        known = self._data_identity
        return bool(known and connection.data_identity) and known != connection.data_identity

    def _connect(self) -> BoundedConnection:
        connection = BoundedConnection.connect(autocommit=True, **self._parameters)
        connection.answer_timeout_seconds = self._options.answer_timeout_seconds
        # One type for every int, so that a statement is prepared once and not once for each size of its numbers.
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        return connection


def _read_data_identity(connection: BoundedConnection) -> str:
    """Empty if the server does not have these functions: not every service that speaks PostgreSQL's protocol does."""
    try:
        row = connection.execute(DATA_IDENTITY.encode()).fetchone()
    except psycopg.DatabaseError:
        if connection.broken:
            raise
        return ""
    return str(row[0]) if row else ""


def _is_stale(connection: BoundedConnection) -> bool:
    """Has the server ended this idle connection? Found out before anything is sent, a restart of the server costs no
    unknown outcome. Takes no round trip."""
    if connection.closed:
        return True
    watch = select.poll()
    watch.register(connection.fileno(), select.POLLIN)
    for _ in range(STALE_READS_MAX):
        if not watch.poll(0):
            return False
        try:
            connection.pgconn.consume_input()
        except psycopg.Error:
            return True
    return True


def _with_limits(parameters: ConnectionParameters, options: PostgresqlOptions) -> ConnectionParameters:
    limits = {
        "statement_timeout": round(options.statement_timeout_seconds * 1_000),
        "lock_timeout": round(options.lock_timeout_seconds * 1_000),
        "idle_in_transaction_session_timeout": 60_000,
    }
    settings = " ".join(f"-c {name}={milliseconds}" for name, milliseconds in limits.items())
    # Every statement of ours finds its rows by key: no plan through a whole table is ever right, whatever statistics say.
    planning = r"-c default_transaction_isolation=read\ committed -c enable_seqscan=off"
    return {
        "application_name": "headwater",
        "connect_timeout": options.connect_timeout_seconds,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **parameters,
        "client_encoding": "utf8",
        # What the URL says comes last and wins.
        "options": f"{settings} {planning} {parameters.get('options', '')}".strip(),
    }


def _where(parameters: ConnectionParameters) -> str:
    host = parameters.get("host", "the local socket")
    port = parameters.get("port", 5432)
    return f"{host}:{port}/{parameters.get('dbname', parameters.get('user', ''))}"
