"""kill -9 of a server between the commits of keyed requests and their answers: sent again, each is answered, and done once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.persistence.realms.realm_records import REALMS_POINTER
from headwater.persistence.realms.realms import Realms
from headwater.persistence.records.principal_records import PRINCIPALS_POINTER, ROLES_POINTER, has_secret
from headwater.persistence.records.records import head_records
from headwater.persistence.store import RealmKernel, Store, open_store
from headwater.producer.access.principals import Principals
from headwater.producer.access.roles import principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import Namespace
from headwater.producer.pointer_names import CATALOGS
from headwater.service.dev_realm import ensure_dev_realm
from tests.support.servers.served import ServedStore, served

# Waits until all requests have committed and none is answered, then dies: within the server's own process, by its own hand.
KILLER = """
import os, signal, sys, threading
if "serve" in sys.argv and os.environ.get("KILL_BEFORE_ANSWERS"):
    import headwater.persistence.records.idempotency_rows as rows
    arrived, lock, wanted = [], threading.Lock(), int(os.environ["KILL_BEFORE_ANSWERS"])
    def finish(self, claim, answer):
        with lock:
            arrived.append(answer.status)
            with open(os.environ["KILLED_FILE"], "a") as file:
                file.write(f"{answer.status}\\n")
            if len(arrived) == wanted:
                os.kill(os.getpid(), signal.SIGKILL)
        threading.Event().wait(30)
    rows.IdempotencyRows.finish = finish
"""

OTHERS = 1_010
MANAGE = "/manage/v1/default"
CONFLICTS = "/feed/v1/default/subscriptions/reader"


def requests(subscription: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any] | None]]:
    """By key: what is asked, each of another kind."""
    acknowledged = {"version": subscription["version"], "positions": {"catalogs": {"seq": 3}}}
    return {
        "make-catalog": ("POST", f"{MANAGE}/catalogs", {"name": "made"}),
        "drop-catalog": ("DELETE", f"{MANAGE}/catalogs/old", None),
        "make-principal": ("POST", f"{MANAGE}/principals", {"name": "ann"}),
        "rotate": ("POST", f"{MANAGE}/principals/bob/rotate", {"overlap_seconds": 600}),
        "delete-role": ("DELETE", f"{MANAGE}/principal-roles/old", None),
        "make-realm": ("POST", "/manage/v1/realms", {"name": "second"}),
        "make-namespace": ("POST", f"{MANAGE}/catalogs/lake/namespaces", {"path": ["sales"]}),
        "acknowledge": ("POST", f"{CONFLICTS}/acknowledge", acknowledged),
    }


@pytest.fixture
def store_url(tmp_path: Path) -> Iterator[str]:
    url = f"sqlite:///{tmp_path}/lake.db"
    with open_store(url, create=True) as store:
        ensure_dev_realm(store, url)
        kernel = default_kernel(store)
        Catalogs(kernel).create("old", meta=CommitMeta("test"))
        Principals(kernel).create("bob", meta=WriteMeta("test"))
        principal_roles(kernel).create("old", meta=WriteMeta("test"))
    yield url


def default_kernel(store: Store) -> RealmKernel:
    return Realms(store).require_active("default")


def ask(server: ServedStore, key: str, request: tuple[str, str, dict[str, Any] | None]) -> httpx.Response | None:
    """None where no answer came."""
    method, path, body = request
    try:
        return httpx.request(method, server.url + path, json=body, headers={"Idempotency-Key": key}, timeout=40)
    except httpx.TransportError:
        return None


def times_in_log(kernel: RealmKernel, pointer: str, request_id: str) -> int:
    from headwater.persistence.reading.pointer_log import PointerLog

    return sum(logged.entry.request_id == request_id for logged in PointerLog(kernel, pointer).forward(0))


def test_requests_whose_answers_a_kill_lost_are_answered_and_done_once(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(KILLER)
    killed = tmp_path / "killed"
    monkeypatch.setenv("HEADWATER_IDEMPOTENCY_RUNNING_SECONDS", "2")
    with served(store_url) as server:
        body = {"pointers": ["catalogs"], "after": "earliest"}
        subscription = httpx.put(server.url + CONFLICTS, json=body, timeout=30).json()
        asked = requests(subscription)
        server.stop()
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/hook{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        monkeypatch.setenv("KILL_BEFORE_ANSWERS", str(len(asked)))
        monkeypatch.setenv("KILLED_FILE", str(killed))
        server.start()
        with ThreadPoolExecutor(len(asked)) as threads:
            lost = list(threads.map(lambda item: ask(server, *item), asked.items()))
        assert lost == [None] * len(asked), "no answer came through"
        statuses = killed.read_text().split()
        assert len(statuses) == len(asked) and set(statuses) <= {"200", "201"}, "all had done their work when the server died"
        server.kill9()
        monkeypatch.delenv("KILL_BEFORE_ANSWERS")
        server.start()
        with ThreadPoolExecutor(len(asked)) as threads:
            answers = dict(zip(asked, threads.map(lambda item: ask(server, *item), asked.items()), strict=True))
        told = {key: answer.json() for key, answer in answers.items() if answer is not None and answer.is_success}
        assert told.keys() == asked.keys(), {key: answer and answer.text for key, answer in answers.items()}
        again = {key: ask(server, key, request) for key, request in asked.items()}
        assert all(one is not None and one.headers["idempotency-replayed"] == "true" for one in again.values())
        changed = ask(server, "make-catalog", ("POST", f"{MANAGE}/catalogs", {"name": "other"}))
        assert changed is not None and changed.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    with open_store(store_url) as store:
        kernel = default_kernel(store)
        places = {"make-catalog": CATALOGS, "drop-catalog": CATALOGS, "make-principal": PRINCIPALS_POINTER}
        places |= {"rotate": PRINCIPALS_POINTER, "delete-role": ROLES_POINTER, "make-namespace": "cat/1/heads/main"}
        assert {key: times_in_log(kernel, pointer, key) for key, pointer in places.items()} == dict.fromkeys(places, 1)
        assert times_in_log(store.system, REALMS_POINTER, "make-realm") == 1
        check_secrets(kernel, told)
        assert [one.name for one in Catalogs(kernel).list()] == ["lake", "made"]
    assert told["acknowledge"]["positions"]["catalogs"]["seq"] == 3


def check_secrets(kernel: RealmKernel, told: dict[str, Any]) -> None:
    """⚠ What the second answer shows counts: the first one's secret nobody has seen."""
    records = head_records(kernel, PRINCIPALS_POINTER)
    for key, name in (("make-principal", "ann"), ("rotate", "bob")):
        record = records.get((name,))
        assert record is not None and has_secret(kernel, record.value, told[key]["credentials"]["client_secret"])
    bob = Principals(kernel).get("bob")
    assert len(bob.secrets) == 2 and min(bob.secrets, key=lambda one: one.created_at).expires_at > 0, "the old one overlaps"


def test_the_key_of_a_commit_is_found_after_many_others_and_after_a_restart(store_url: str) -> None:
    body = {"catalog": "lake", "operations": [{"op": "put", "key": ["a"], "type": "NAMESPACE", "content": {}}]}
    request = ("POST", "/feed/v1/default/commit", body)
    with served(store_url) as server:
        first = ask(server, "old", request)
        server.stop()
        with open_store(store_url) as store:
            kernel = default_kernel(store)
            for number in range(OTHERS):
                operation = Put(("a",), Namespace({"n": str(number)}))
                kernel.committer.submit("cat/1/heads/main", CatalogCommit(kernel, [operation], CommitMeta("test")))
            last = CatalogCommit(kernel, [Put(("b",), Namespace())], CommitMeta("test"))
            assert kernel.committer.commit("cat/1/heads/main", last).head_seq > OTHERS
        server.start()
        again = ask(server, "old", request)
        other = ask(server, "old", ("POST", "/feed/v1/default/commit", {**body, "message": "another"}))
    assert first is not None and again is not None and first.status_code == again.status_code == 200
    assert again.json() == {**first.json(), "replayed": True}
    assert other is not None and (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    with open_store(store_url) as store:
        assert times_in_log(default_kernel(store), "cat/1/heads/main", "old") == 1
