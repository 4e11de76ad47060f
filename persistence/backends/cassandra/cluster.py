"""Connects to a cluster, with fixed consistency, no retries and no speculation."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from cassandra import ConsistencyLevel
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile, Session
from cassandra.policies import (
    DCAwareRoundRobinPolicy,
    ExponentialReconnectionPolicy,
    FallthroughRetryPolicy,
    NoSpeculativeExecutionPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.query import tuple_factory
from cassandra.timestamps import MonotonicTimestampGenerator

from headwater.persistence.backends.cassandra.cassandra_errors import connect_fault
from headwater.persistence.backends.cassandra.url import CassandraOptions
from headwater.schemas.errors import InvalidStoreUrl

PLAIN = EXEC_PROFILE_DEFAULT
"""(LOCAL_)QUORUM; a conditional write's Paxos round runs at the serial level and commits at this one."""
SERIAL = "serial"
"""Reads that decide: they finish or overtake every Paxos round in progress on the row."""

PROTOCOL_VERSION = 5
CONNECT_TIMEOUT_SECONDS = 5.0
RECONNECT_SECONDS = (0.2, 5.0)

TIMESTAMPS = MonotonicTimestampGenerator()
"""One for the whole process: of two writes, the later has the larger writetime, whichever backend sends it."""


def connect(options: CassandraOptions) -> tuple[Cluster, Session]:
    cluster = Cluster(
        options.hosts,
        auth_provider=_credentials(options),
        ssl_context=_ssl_context(options),
        protocol_version=PROTOCOL_VERSION,
        compression=False,
        # The driver sends each request by itself: with Nagle's algorithm the second of a burst would wait for the first's ACK.
        sockopts=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        control_connection_timeout=options.timeout_seconds,  # it reads the schema of every keyspace
        reconnection_policy=ExponentialReconnectionPolicy(*RECONNECT_SECONDS),
        timestamp_generator=TIMESTAMPS,
        execution_profiles=_profiles(options),
    )
    try:
        return cluster, cluster.connect()
    except Exception as error:
        cluster.shutdown()
        raise connect_fault(error, options.where) from error


def _ssl_context(options: CassandraOptions) -> ssl.SSLContext | None:
    """With the server's name checked against its certificate. `InvalidStoreUrl` where a file is not what it should be."""
    tls = options.tls
    if tls is None:
        return None
    try:
        context = ssl.create_default_context(cafile=tls.ca)
    except (OSError, ssl.SSLError) as error:
        raise _unreadable("tls_ca", str(tls.ca), error) from error
    if tls.certificate:
        try:
            context.load_cert_chain(tls.certificate, tls.key, lambda: tls.key_password or "")
        except (OSError, ssl.SSLError) as error:
            raise _unreadable("tls_key", f"{tls.certificate} with {tls.key}", error) from error
    return context


def _unreadable(option: str, file: str, error: OSError) -> InvalidStoreUrl:
    reason = str(error) if isinstance(error, ssl.SSLError) else error.strerror
    return InvalidStoreUrl(f"{option}: {file} cannot be read as PEM: {reason}.", field="store", remedy="Name PEM files.")


def _profiles(options: CassandraOptions) -> dict[Any, ExecutionProfile]:
    quorum = ConsistencyLevel.LOCAL_QUORUM if options.local else ConsistencyLevel.QUORUM
    serial = ConsistencyLevel.LOCAL_SERIAL if options.local else ConsistencyLevel.SERIAL
    balancing = TokenAwarePolicy(DCAwareRoundRobinPolicy(options.datacenter) if options.datacenter else RoundRobinPolicy())

    def profile(consistency: int) -> ExecutionProfile:
        return ExecutionProfile(
            load_balancing_policy=balancing,
            # A conditional write that the driver sends a second time on its own may meet its first self: no retries below us.
            retry_policy=FallthroughRetryPolicy(),
            speculative_execution_policy=NoSpeculativeExecutionPolicy(),
            consistency_level=consistency,
            serial_consistency_level=serial,
            request_timeout=options.timeout_seconds,
            row_factory=tuple_factory,
        )

    return {PLAIN: profile(quorum), SERIAL: profile(serial)}


def _credentials(options: CassandraOptions) -> PlainTextAuthProvider | None:
    return PlainTextAuthProvider(options.user, options.password or "") if options.user else None
