"""A create under a key has one id, that of its first commit: whoever dies, stalls, or changes the table meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import grpc
import pytest

from headwater.schemas.rpc import common_pb2, namespace_pb2, table_pb2, view_pb2
from headwater.service.grpc.contents.iceberg_request import RpcIcebergCall
from headwater.service.iceberg.operations.lake_branch import BranchOutcome, LakeBranch
from headwater.service.idempotency import run_once
from headwater.service.idempotency.run_once import IdempotencyOptions
from headwater.service.manage import namespaces as manage_namespaces
from tests.support.fixtures.grpc_rig import SCHEMA, GrpcRig, bearer, grpc_rig

SECONDS = 60
OPTIONS = IdempotencyOptions(running_seconds=0.3)
"""A runner that does not answer counts as dead after so long."""


class Died(BaseException):
    """In place of a kill: nothing that would follow is done."""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path, idempotency=OPTIONS) as made:
        made.rig.commit("alpha", ("db",)).raise_for_status()
        yield made


def _name(name: str) -> common_pb2.Name:
    return common_pb2.Name(catalog="lake", path=["db", name])


def _key(key: str) -> common_pb2.Idempotency:
    return common_pb2.Idempotency(key=key)


def _create_table(port: GrpcRig, seconds: float = SECONDS) -> Any:
    request = table_pb2.CreateTableRequest(name=_name("t"), schema=SCHEMA, idempotency=_key("t-1"))
    return _sent(port, "TableService", "CreateTable", request, seconds)


def _create_view(port: GrpcRig, seconds: float = SECONDS) -> Any:
    sql = view_pb2.SqlRepresentation(dialect="spark", sql="select 1")
    request = view_pb2.CreateViewRequest(name=_name("t"), schema=SCHEMA, representations=[sql], idempotency=_key("v-1"))
    return _sent(port, "ViewService", "CreateView", request, seconds)


def _create_namespace(port: GrpcRig, seconds: float = SECONDS) -> Any:
    request = namespace_pb2.CreateNamespaceRequest(name=_name("t"), idempotency=_key("n-1"))
    return _sent(port, "NamespaceService", "CreateNamespace", request, seconds)


def _sent(port: GrpcRig, service: str, method: str, request: Any, seconds: float) -> Any:
    return getattr(port.stub(service), method)(request, metadata=[bearer(port.rig.token("alpha"))], timeout=seconds)


CREATES = {"table": _create_table, "view": _create_view, "namespace": _create_namespace}


def _id(kind: str, answer: Any) -> str:
    id: str = getattr(answer, kind).resource_id.id
    return id


def _committed_ids(port: GrpcRig) -> list[str]:
    """Of everything that was ever made at the name, oldest first."""
    page = port.rig.get("/feed/v1/alpha/changes?catalog=lake", port.rig.token("alpha")).raise_for_status().json()
    operations = [one for change in page["changes"] for one in change["operations"]]
    return [one["content_id"] for one in operations if one["key"] == ["db", "t"] and one["op"] == "put"]


@pytest.fixture
def at_the_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], Counter[str]]]:
    """Does something once, behind the commit of an Iceberg operation and before its answer is made."""
    done, fired = RpcIcebergCall._done, Counter[str]()

    def hook(act: Callable[[], None]) -> Counter[str]:
        def first(self: RpcIcebergCall, outcome: BranchOutcome) -> None:
            done(self, outcome)
            if not fired["hook"]:
                fired["hook"] += 1
                act()

        monkeypatch.setattr(RpcIcebergCall, "_done", first)
        return fired

    yield hook


@pytest.mark.parametrize("kind", ["table", "view"])
def test_changes_by_others_meanwhile_are_not_returned_as_the_answer(port: GrpcRig, at_the_answer: Any, kind: str) -> None:
    """It is dropped, and another one is made under its name."""
    token = port.rig.token("alpha")
    path = f"/iceberg/v1/lake/namespaces/db/{kind}s"
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
    version = {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "select 2", "dialect": "spark"}],
        "default-namespace": [],
    }
    body = {"name": "t", "schema": schema, "properties": {}} | ({} if kind == "table" else {"view-version": version})

    def made_anew() -> None:
        port.rig.ask("DELETE", f"{path}/t", token=token).raise_for_status()
        port.rig.ask("POST", path, token=token, json=body).raise_for_status()

    fired = at_the_answer(made_anew)
    answer = CREATES[kind](port)
    first, second = _committed_ids(port)
    assert fired["hook"] and first != second
    assert _id(kind, answer) == first
    again = CREATES[kind](port)
    assert again.meta.replayed and _id(kind, again) == first
    assert len(_committed_ids(port)) == 2


def test_a_namespace_recreated_meanwhile_is_not_returned_as_the_answer(port: GrpcRig, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, fired, token = manage_namespaces._commit, Counter[str](), port.rig.token("alpha")

    def made_anew(*given: Any) -> Any:
        done = commit(*given)
        if not fired["hook"]:
            fired["hook"] += 1
            port.rig.ask("DELETE", "/iceberg/v1/lake/namespaces/db%1Ft", token=token).raise_for_status()
            port.rig.commit("alpha", ("db", "t")).raise_for_status()
        return done

    monkeypatch.setattr(manage_namespaces, "_commit", made_anew)
    answer = _create_namespace(port)
    first, second = _committed_ids(port)
    assert fired["hook"] and first != second and _id("namespace", answer) == first


@pytest.mark.parametrize("kind", CREATES)
def test_a_runner_that_dies_after_its_commit_leaves_one_id(port: GrpcRig, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Its answer was never kept: the next run of the key finds the commit in the log."""
    settle, fired = run_once.settle, Counter[str]()

    def died(*given: Any) -> None:
        fired["died"] += 1
        if fired["died"] == 1:
            raise Died
        settle(*given)

    monkeypatch.setattr(run_once, "settle", died)
    with pytest.raises(grpc.RpcError):
        CREATES[kind](port, 2)
    assert fired["died"] == 1
    answer = CREATES[kind](port)
    assert answer.meta.replayed and [_id(kind, answer)] == _committed_ids(port)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_runner_that_counted_as_dead_and_lives_has_the_same_id(
    port: GrpcRig, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It stalls before its commit; the call is sent again, and runs beside it."""
    stalled, go_on, commit = threading.Event(), threading.Event(), LakeBranch._commit

    def stalling(self: LakeBranch, *given: Any) -> BranchOutcome:
        if not stalled.is_set():
            stalled.set()
            assert go_on.wait(SECONDS)
        return commit(self, *given)

    monkeypatch.setattr(LakeBranch, "_commit", stalling)
    monkeypatch.setattr("headwater.service.iceberg.operations.key_locks.KeyLocks.of", _no_lock)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(CREATES[kind], port)
        assert stalled.wait(SECONDS)
        second = CREATES[kind](port)
        go_on.set()
        answers = {_id(kind, second), _id(kind, first.result(SECONDS))}
    assert answers == set(_committed_ids(port)) and len(_committed_ids(port)) == 1


def test_a_call_that_is_cancelled_in_its_commit_is_answered_at_once_when_it_is_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits until its runner counts as dead."""
    options, began, go_on, commit = (
        IdempotencyOptions(wait_seconds=0.5),
        threading.Event(),
        threading.Event(),
        LakeBranch._commit,
    )

    def waiting(self: LakeBranch, *given: Any) -> BranchOutcome:
        began.set()
        assert go_on.wait(SECONDS)
        return commit(self, *given)

    with grpc_rig(tmp_path, idempotency=options) as port:
        port.rig.commit("alpha", ("db",)).raise_for_status()
        monkeypatch.setattr(LakeBranch, "_commit", waiting)
        request = table_pb2.CreateTableRequest(name=_name("t"), schema=SCHEMA, idempotency=_key("t-1"))
        call = port.stub("TableService").CreateTable.future(request, metadata=[bearer(port.rig.token("alpha"))])
        assert began.wait(SECONDS)
        call.cancel()
        deadline = time.monotonic() + SECONDS
        while not call.done():
            assert time.monotonic() < deadline
        go_on.set()
        answer = _create_table(port)
        assert answer.meta.replayed and [_id("table", answer)] == _committed_ids(port)
        assert (port.rig.gate.budgets.requests, port.rig.gate.budgets.body_bytes) == (0, 0)


def _no_lock(self: Any, *keys: Any) -> Any:
    """As in another worker, which has locks of its own."""
    return nullcontext()
