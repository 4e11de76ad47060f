"""Each way in which a request can fail, and what it means for a read, a plain write and a conditional write."""

from __future__ import annotations

import sys

import pytest
from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    InvalidRequest,
    OperationTimedOut,
    ReadTimeout,
    Unauthorized,
    Unavailable,
    UnresolvableContactPoints,
    WriteFailure,
    WriteTimeout,
    WriteType,
)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException, ConnectionShutdown
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import ErrorMessage, IsBootstrappingErrorMessage, OverloadedErrorMessage

from headwater.persistence.backends.cassandra import open_cassandra
from headwater.persistence.backends.cassandra.cassandra_errors import RequestKind, connect_fault, fault_of
from headwater.schemas.errors import (
    HeadwaterError,
    MissingDependency,
    OutcomeUnknown,
    StoreAccessDenied,
    StoreNotCreated,
    StoreRefused,
    StoreUnavailable,
)

WHERE = "cassandra://db:9042/lake"
SERIAL = ConsistencyLevel.SERIAL
QUORUM = ConsistencyLevel.QUORUM

NOT_APPLIED = [
    Unavailable("too few", consistency=SERIAL, required_replicas=2, alive_replicas=1),
    Unavailable("too few", consistency=ConsistencyLevel.LOCAL_SERIAL, required_replicas=2, alive_replicas=1),
    IsBootstrappingErrorMessage(0x1002, "joining", None),
]
MAYBE_APPLIED = [
    WriteTimeout("late", consistency=SERIAL, write_type=WriteType.CAS),
    WriteTimeout("late", consistency=QUORUM, write_type=WriteType.SIMPLE),
    ErrorMessage(0x1700, "CAS operation result is unknown", None),
    WriteFailure("broken", consistency=QUORUM, write_type=WriteType.CAS),
    ReadTimeout("late", consistency=SERIAL),
    OperationTimedOut(),
    ConnectionShutdown("connection cut"),
    ConnectionException("connection broken"),
    OverloadedErrorMessage(0x1001, "too much", None),
    # raised at the commit level, this comes after the proposal was accepted
    Unavailable("too few", consistency=QUORUM, required_replicas=2, alive_replicas=1),
    OSError("broken pipe"),
]


@pytest.mark.parametrize("error", NOT_APPLIED, ids=repr)
@pytest.mark.parametrize("kind", RequestKind)
def test_what_was_surely_not_applied_may_be_tried_again(error: Exception, kind: RequestKind) -> None:
    assert type(fault_of(error, kind, WHERE)) is StoreUnavailable


@pytest.mark.parametrize("error", MAYBE_APPLIED, ids=repr)
def test_a_conditional_write_that_may_have_been_applied_has_an_unknown_outcome(error: Exception) -> None:
    fault = fault_of(error, RequestKind.LWT, WHERE)
    assert type(fault) is OutcomeUnknown
    assert fault.facts["cause"] == type(error).__name__
    assert not fault.retriable


@pytest.mark.parametrize("error", MAYBE_APPLIED, ids=repr)
@pytest.mark.parametrize("kind", [RequestKind.READ, RequestKind.IDEMPOTENT_WRITE])
def test_reads_and_plain_writes_may_be_tried_again_after_the_same_failures(error: Exception, kind: RequestKind) -> None:
    assert type(fault_of(error, kind, WHERE)) is StoreUnavailable


DOWN = ConnectionException("Host has been marked down or removed")


@pytest.mark.parametrize(
    ("errors", "attempted", "expected"),
    [
        ({}, False, StoreUnavailable),
        ({"a": DOWN, "b": NoConnectionsAvailable()}, False, StoreUnavailable),
        ({"a": ConnectionShutdown("is closed")}, False, StoreUnavailable),
        ({"a": DOWN}, True, OutcomeUnknown),
        ({"a": DOWN, "b": OSError("while it was sent")}, False, OutcomeUnknown),
    ],
)
def test_no_host_is_certain_only_if_the_request_never_left(
    errors: dict[str, Exception], attempted: bool, expected: type[HeadwaterError]
) -> None:
    fault = fault_of(NoHostAvailable("none", errors), RequestKind.LWT, WHERE, attempted=attempted)
    assert type(fault) is expected


@pytest.mark.parametrize("kind", RequestKind)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unauthorized("no SELECT permission"), StoreAccessDenied),
        (InvalidRequest("unconfigured table pointers"), StoreNotCreated),
        (InvalidRequest("Keyspace 'lake' does not exist"), StoreNotCreated),
        (InvalidRequest("Unexpected 33 byte value"), StoreRefused),
    ],
)
def test_a_refusal_is_not_tried_again(kind: RequestKind, error: Exception, expected: type[HeadwaterError]) -> None:
    fault = fault_of(error, kind, WHERE)
    assert type(fault) is expected
    assert not fault.retriable


def test_a_bug_in_a_read_is_not_a_failure_of_the_store() -> None:
    assert fault_of(KeyError("column"), RequestKind.READ, WHERE) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            NoHostAvailable("none", {"a": AuthenticationFailed("Provided username and/or password are incorrect")}),
            StoreAccessDenied,
        ),
        (NoHostAvailable("none", {"a": ConnectionRefusedError(111, "Connection refused")}), StoreUnavailable),
        (UnresolvableContactPoints(), StoreUnavailable),
        (OperationTimedOut(), StoreUnavailable),
    ],
)
def test_a_failed_connection_gives_the_reason_in_one_line(error: Exception, expected: type[HeadwaterError]) -> None:
    fault = connect_fault(error, WHERE)
    assert type(fault) is expected
    assert WHERE in str(fault)
    assert "\n" not in str(fault)


def test_a_missing_driver_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cassandra.cluster", None)
    with pytest.raises(MissingDependency, match=r"headwater\[cassandra\]"):
        open_cassandra("cassandra://127.0.0.1/lake")
