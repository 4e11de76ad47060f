"""The connection is cut after a conditional write was sent, before or after it reached the server: unknown, never a guess."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import pytest

from headwater.persistence.backend import Backend
from headwater.persistence.backends.cassandra import open_cassandra
from headwater.persistence.rows import PointerRow
from headwater.schemas.errors import OutcomeUnknown, StoreUnavailable
from tests.support.faults.tcp_proxy import Fault, Outcome, TcpProxy
from tests.support.fixtures.contract_rows import an_object, cas_resolved, mutable, pointer


@pytest.fixture(scope="module")
def direct(cassandra_url: str) -> Iterator[Backend]:
    """A look at the same rows that no fault disturbs."""
    backend = open_cassandra(cassandra_url)
    backend.create_schema()
    yield backend
    backend.close()


@pytest.fixture(scope="module")
def direct_url(cassandra_url: str, direct: Backend) -> str:
    """With its schema."""
    return cassandra_url


def through(proxy: TcpProxy, url: str, options: str = "") -> str:
    return urlunsplit(urlsplit(url)._replace(netloc=f"{proxy.host}:{proxy.port}", query=options))


@pytest.fixture
def proxy(direct_url: str) -> Iterator[TcpProxy]:
    server = urlsplit(direct_url)
    assert server.hostname is not None
    assert server.port is not None
    with TcpProxy(server.hostname, server.port) as proxy:
        yield proxy


@pytest.fixture
def proxied(proxy: TcpProxy, direct_url: str) -> Iterator[Backend]:
    backend = open_cassandra(through(proxy, direct_url))
    yield backend
    backend.close()


@pytest.fixture
def realm() -> str:
    return f"realm-{secrets.token_hex(6)}@1"


class Write(NamedTuple):
    """One conditional write: what must be there before, how it is sent, by what bytes the proxy knows it, whether it landed."""

    prepare: Callable[[Backend, str], object]
    send: Callable[[Backend, str], bool]
    marker: bytes
    landed: Callable[[Backend, str], bool]


HEAD = b"\x07head-of-the-write-to-be-lost\x07\x07\x07"
LOST = b"payload-of-the-write-to-be-lost"
KEY = "key-of-the-row-to-be-deleted"

WRITES = {
    "reserve a pointer": Write(
        lambda backend, realm: backend.add_name(realm, "main"),
        lambda backend, realm: backend.reserve_pointer(realm, "main", pointer(1, HEAD)),
        HEAD,
        lambda backend, realm: backend.read_pointer(realm, "main", decide=True) == pointer(1, HEAD),
    ),
    "move a pointer": Write(
        lambda backend, realm: backend.reserve_pointer(realm, "main", pointer(1)),
        lambda backend, realm: backend.cas_pointer(realm, "main", pointer(1), pointer(2, HEAD)),
        HEAD,
        lambda backend, realm: backend.read_pointer(realm, "main", decide=True) == pointer(2, HEAD),
    ),
    "commit": Write(
        lambda backend, realm: backend.reserve_pointer(realm, "main", pointer(1)),
        lambda backend, realm: backend.commit(realm, "main", pointer(1), pointer(2, HEAD), [an_object(1)]),
        HEAD,
        lambda backend, realm: backend.read_pointer(realm, "main", decide=True) == pointer(2, HEAD),
    ),
    "delete a pointer": Write(
        lambda backend, realm: backend.reserve_pointer(realm, KEY, pointer(1)),
        lambda backend, realm: backend.delete_pointer(realm, KEY, pointer(1)),
        KEY.encode(),
        lambda backend, realm: backend.read_pointer(realm, KEY) is None,
    ),
    "insert a mutable row": Write(
        lambda backend, realm: None,
        lambda backend, realm: backend.insert_mutable(realm, mutable("k", payload=LOST)),
        LOST,
        lambda backend, realm: backend.read_mutable(realm, "lease", "k") == mutable("k", payload=LOST),
    ),
    "update a mutable row": Write(
        lambda backend, realm: backend.insert_mutable(realm, mutable("k")),
        lambda backend, realm: backend.update_mutable(realm, mutable("k"), mutable("k", 2, payload=LOST)),
        LOST,
        lambda backend, realm: backend.read_mutable(realm, "lease", "k") == mutable("k", 2, payload=LOST),
    ),
    "delete a mutable row": Write(
        lambda backend, realm: backend.insert_mutable(realm, mutable(KEY)),
        lambda backend, realm: backend.delete_mutable(realm, mutable(KEY)),
        KEY.encode(),
        lambda backend, realm: backend.read_mutable(realm, "lease", KEY) is None,
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("outcome", Outcome)
def test_a_conditional_write_whose_answer_is_lost_is_unknown(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, write: Write, outcome: Outcome
) -> None:
    write.prepare(proxied, realm)
    fault = proxy.arm(Fault(write.marker, outcome))
    with pytest.raises(OutcomeUnknown):
        write.send(proxied, realm)
    assert fault.fired
    assert fault.wait_settled()
    assert write.landed(direct, realm) is (outcome is Outcome.LANDED)


@pytest.mark.parametrize("outcome", Outcome)
def test_silence_until_the_client_gives_up_is_unknown_too(
    proxy: TcpProxy, direct_url: str, direct: Backend, realm: str, outcome: Outcome
) -> None:
    hasty = open_cassandra(through(proxy, direct_url, "timeout=1"))
    hasty.reserve_pointer(realm, "main", pointer(1))
    fault = proxy.arm(Fault(HEAD, outcome, hold_open=True))
    with pytest.raises(OutcomeUnknown, match="OperationTimedOut"):
        hasty.cas_pointer(realm, "main", pointer(1), pointer(2, HEAD))
    assert fault.fired
    assert fault.wait_settled()
    landed = direct.read_pointer(realm, "main", decide=True)
    assert landed == (pointer(2, HEAD) if outcome is Outcome.LANDED else pointer(1))
    hasty.close()


@pytest.mark.parametrize("outcome", Outcome)
def test_the_identical_write_sent_again_resolves_it(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome
) -> None:
    """Also shows that the backend finds its way back to the server."""
    proxied.reserve_pointer(realm, "main", pointer(1))
    fault = proxy.arm(Fault(HEAD, outcome))
    ours = pointer(2, HEAD)
    assert cas_resolved(proxied, realm, "main", pointer(1), ours) is True
    assert fault.fired
    assert direct.read_pointer(realm, "main") == ours


def test_a_write_that_landed_and_was_overtaken_is_not_reported_as_lost(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str
) -> None:
    """`not applied` to the second sending proves nothing: the row has moved on from what the first one wrote."""
    proxied.reserve_pointer(realm, "main", pointer(1))
    fault = proxy.arm(Fault(HEAD, Outcome.LANDED))
    ours: PointerRow = pointer(2, HEAD)
    with pytest.raises(OutcomeUnknown):
        proxied.cas_pointer(realm, "main", pointer(1), ours)
    assert fault.fired
    assert direct.read_pointer(realm, "main") == ours
    assert direct.cas_pointer(realm, "main", ours, pointer(3))
    assert direct.cas_pointer(realm, "main", pointer(1), ours) is False
    assert direct.read_pointer(realm, "main", decide=True) == pointer(3)


@pytest.mark.parametrize("outcome", Outcome)
def test_a_plain_write_whose_answer_is_lost_is_sent_again_and_done(
    proxy: TcpProxy, proxied: Backend, direct: Backend, realm: str, outcome: Outcome
) -> None:
    proxied.write_objects(realm, [an_object(1)])
    fault = proxy.arm(Fault(LOST, outcome))
    rows = [an_object(id, LOST) for id in range(2, 60)]
    proxied.write_objects(realm, rows)
    assert fault.fired
    assert direct.fetch_objects(realm, range(1, 100)) == {1: [an_object(1)]} | {row.id: [row] for row in rows}


def test_a_read_whose_answer_is_lost_is_sent_again(proxy: TcpProxy, proxied: Backend, realm: str) -> None:
    proxied.reserve_pointer(realm, KEY, pointer(1))
    fault = proxy.arm(Fault(KEY.encode(), Outcome.LANDED))
    assert proxied.read_pointer(realm, KEY) == pointer(1)
    assert fault.fired


def test_a_server_that_ended_before_the_write_was_sent_leaves_no_unknown_outcome(
    proxy: TcpProxy, proxied: Backend, realm: str
) -> None:
    proxied.reserve_pointer(realm, "main", pointer(1))
    proxy.close()
    answers: list[type[Exception]] = []
    for _ in range(2):
        with pytest.raises((StoreUnavailable, OutcomeUnknown)) as refused:
            proxied.cas_pointer(realm, "main", pointer(1), pointer(2))
        answers.append(refused.type)
    assert answers[-1] is StoreUnavailable, "the driver knows by now that nobody is there, so nothing was sent"
