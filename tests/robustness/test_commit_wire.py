"""Answers to commits get lost between a real server and us, also where others come on top: nothing is lost, nothing twice."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.rows import ObjectRow, PointerRow
from headwater.persistence.store import RealmKernel
from tests.support.faults.faulty_backend import FaultyBackend, first, twice
from tests.support.faults.tcp_proxy import Fault, Outcome, TcpProxy
from tests.support.fixtures.contract_stores import fresh_url
from tests.support.models.commit_harness import (
    MAIN,
    PATIENT,
    Bump,
    Lanes,
    checked_log,
    new_store,
    request_ids,
    store_on,
    vector_of,
)


class WireBackend(FaultyBackend):
    """Goes through the proxy; `lose_next` hides the fate of the next commit by cutting its connection."""

    def __init__(self, url: str, proxy: TcpProxy) -> None:
        super().__init__(open_backend(urlunsplit(urlsplit(url)._replace(netloc=proxied(url, proxy)))))
        self.proxy = proxy
        self.faults: list[Fault] = []
        self._outcome: Outcome | None = None

    def lose_next(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def commit(
        self, realm: str, name: str, expected: PointerRow, row: PointerRow, objects: Sequence[ObjectRow], *, of: str = ""
    ) -> bool:
        if self._outcome is not None:
            # The new head is in no request but the one that moves the pointer.
            self.faults.append(self.proxy.arm(Fault(row.head, self._outcome, settle_seconds=0.02)))
            self._outcome = None
        return super().commit(realm, name, expected, row, objects, of=of)


def proxied(url: str, proxy: TcpProxy) -> str:
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    return f"{user}{at}{proxy.host}:{proxy.port}"


class Wire:
    """Our writer behind the proxy, another one past it, on one fresh realm."""

    def __init__(self, url: str, proxy: TcpProxy) -> None:
        self.url = url
        self.backend = WireBackend(url, proxy)
        self.direct = open_backend(url)
        realm = f"wire-{secrets.token_hex(6)}@1"
        self.ours = Lanes(store_on(self.backend, retries=PATIENT).kernel(realm))
        self.others = Lanes(store_on(self.direct, retries=PATIENT).kernel(realm))
        self.others_commits = 0

    @property
    def reader(self) -> RealmKernel:
        return store_on(self.direct).kernel(self.ours.kernel.realm)

    def others_commit(self, count: int) -> None:
        for _ in range(count):
            self.others.landed(MAIN, Bump(writer="others"))
            self.others_commits += 1

    def check(self, *acknowledged: str) -> None:
        entries = checked_log(self.reader)
        slots = vector_of(entries)
        assert slots == {"ours": len(acknowledged)} | ({"others": self.others_commits} if self.others_commits else {})
        ours = request_ids(logged for logged in entries if logged.entry.author == "ours")
        assert ours == list(acknowledged)


@pytest.fixture(scope="module", params=["postgresql", "cassandra"])
def server_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("wire")
    url = fresh_url(request.param, request, folder)
    new_store(url).close()
    return url


@pytest.fixture(scope="module")
def shared_wire(server_url: str) -> Iterator[tuple[str, TcpProxy]]:
    server = urlsplit(server_url)
    assert server.hostname and server.port
    with TcpProxy(server.hostname, server.port) as proxy:
        yield server_url, proxy


@pytest.fixture
def wire(shared_wire: tuple[str, TcpProxy]) -> Iterator[Wire]:
    made = Wire(*shared_wire)
    made.others_commit(2)
    yield made
    made.backend.close()
    made.direct.close()


@pytest.mark.parametrize("outcome", list(Outcome), ids=lambda outcome: outcome.name.lower())
@pytest.mark.parametrize("burying", [0, 30], ids=["alone", "thirty on top"])
def test_a_commit_whose_answer_was_lost_on_the_wire_is_in_the_log_once(wire: Wire, outcome: Outcome, burying: int) -> None:
    burial = wire.backend.arm(first("decide_pointer", lambda: wire.others_commit(burying)))
    before, lost, after = Bump(writer="ours"), Bump(writer="ours"), Bump(writer="ours")
    wire.ours.commit(MAIN, before)
    wire.backend.lose_next(outcome)
    seq = wire.ours.landed(MAIN, lost).entry.seq
    wire.ours.commit(MAIN, after)
    (fault,) = wire.backend.faults
    assert fault.fired and burial.fired
    assert seq == (4 if outcome is Outcome.LANDED else 4 + burying)
    wire.check(before.request_id, lost.request_id, after.request_id)


@pytest.mark.parametrize("burying", [0, 30], ids=["alone", "thirty on top"])
def test_a_commit_that_was_sent_twice_over_the_wire_is_in_the_log_once(wire: Wire, burying: int) -> None:
    fault = wire.backend.arm(twice("commit", between=lambda: wire.others_commit(burying)))
    doubled = Bump(writer="ours")
    wire.ours.commit(MAIN, doubled)
    assert fault.fired
    wire.check(doubled.request_id)


def test_many_lost_answers_under_contention_lose_and_duplicate_nothing(wire: Wire) -> None:
    chance, commits = random.Random(11), 40 if wire.backend.name == "postgresql" else 12
    contender = threading.Thread(target=wire.others_commit, args=(commits,))
    contender.start()
    acknowledged = []
    for _ in range(commits):
        if chance.random() < 0.4:
            wire.backend.lose_next(chance.choice(list(Outcome)))
        bump = Bump(writer="ours")
        wire.ours.landed(MAIN, bump)
        acknowledged.append(bump.request_id)
    contender.join()
    assert sum(fault.fired for fault in wire.backend.faults) >= commits // 5
    wire.check(*acknowledged)
