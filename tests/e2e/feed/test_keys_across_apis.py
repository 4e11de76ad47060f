"""One Idempotency-Key, several APIs: another request under a used key is refused, and never answered as if it were done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.persistence.records.idempotency_rows import IDEMPOTENCY_TYPE, IdempotencyRows
from headwater.persistence.store import RealmKernel, Store, StoreOptions
from headwater.producer.commits.catalog_commit import CatalogCommit
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.schemas.errors import IdempotencyKeyReused
from headwater.service.app import close_service, open_service
from headwater.service.config import ServeConfig
from headwater.service.idempotency.run_once import IdempotencyOptions
from headwater.service.routes import build_gate

KEY = {"Idempotency-Key": "order-42"}
FEED, NESSIE = "/feed/v1/default/commit", "/api/v2/trees/main/history/commit"
NAMESPACES, ROLES = "/iceberg/v1/lake/namespaces", "/manage/v1/default/principal-roles"
OTHERS = 1_010


class Worker:
    """One of several servers on one store, in this process."""

    def __init__(self, url: str) -> None:
        options = IdempotencyOptions(running_seconds=0.001)
        self.service, self.store = open_service(
            ServeConfig(store=url, store_options=StoreOptions(), dev=True, idempotency=options)
        )
        self._app = build_gate(self.service)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self._app, client=("127.0.0.1", 1))
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8181", timeout=60)

    @property
    def kernel(self) -> RealmKernel:
        return kernel_of(self.store)

    def close(self) -> None:
        close_service(self.service, self.store)


def kernel_of(store: Store) -> RealmKernel:
    return next(kernel for kernel in store.kernels if kernel.realm.startswith("default"))


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[tuple[Worker, Worker]]:
    url = f"sqlite:///{tmp_path}/store.db"
    both = Worker(url), Worker(url)
    yield both
    for worker in both:
        worker.close()


def run(talk: Callable[[httpx.AsyncClient, httpx.AsyncClient], Awaitable[None]], workers: tuple[Worker, Worker]) -> None:
    async def talking() -> None:
        async with workers[0].client() as first, workers[1].client() as second:
            await talk(first, second)

    asyncio.run(talking())


def forget_keys(worker: Worker) -> None:
    """As when `idempotency_hours` are over."""
    backend, realm = worker.store.backend, worker.kernel.realm
    kept = backend.list_mutable(realm, IDEMPOTENCY_TYPE)
    assert kept, "there was no key to forget"
    for row in kept:
        assert backend.delete_mutable(realm, row)


def feed_commit(table: str) -> dict[str, Any]:
    content = {"metadata_location": f"s3://{table}/1"}
    return {"catalog": "lake", "operations": [{"op": "put", "key": [table], "type": "ICEBERG_TABLE", "content": content}]}


def nessie_commit(table: str) -> dict[str, Any]:
    content = {"type": "ICEBERG_TABLE", "metadataLocation": f"s3://{table}/1"}
    numbers = {"snapshotId": 1, "schemaId": 0, "specId": 0, "sortOrderId": 0}
    operation = {"type": "PUT", "key": {"elements": [table]}, "content": {**content, **numbers}}
    return {"commitMeta": {"message": "step"}, "operations": [operation]}


async def entries(client: httpx.AsyncClient) -> list[list[str]]:
    listed = (await client.get("/api/v2/trees/main/entries")).json()["entries"]
    return [entry["name"]["elements"] for entry in listed]


def test_a_key_of_one_api_is_refused_at_another(workers: tuple[Worker, Worker]) -> None:
    async def talk(first: httpx.AsyncClient, second: httpx.AsyncClient) -> None:
        assert (await first.post(FEED, headers=KEY, json=feed_commit("a"))).status_code == 200
        for client in (first, second):
            refused = await client.post(NESSIE, headers=KEY, json=nessie_commit("b"))
            assert refused.status_code == 400 and "another request" in refused.text
            refused = await client.post(NAMESPACES, headers=KEY, json={"namespace": ["n"]})
            assert refused.status_code == 422
            refused = await client.post(FEED, headers=KEY, json=feed_commit("c"))
            assert (refused.status_code, refused.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
            forget_keys(workers[0])
        assert (await second.post(FEED, headers=KEY, json=feed_commit("a"))).json()["replayed"]
        assert await entries(first) == [["a"]]

    run(talk, workers)


def test_a_key_whose_row_has_expired_is_refused_for_another_commit_and_replayed_for_its_own(
    workers: tuple[Worker, Worker],
) -> None:
    async def talk(first: httpx.AsyncClient, second: httpx.AsyncClient) -> None:
        done = await first.post(NESSIE, headers=KEY, json=nessie_commit("a"))
        assert done.status_code == 200
        forget_keys(workers[0])
        assert (await second.post(NESSIE, headers=KEY, json=nessie_commit("b"))).status_code == 400
        forget_keys(workers[0])
        again = await second.post(NESSIE, headers=KEY, json=nessie_commit("a"))
        assert again.status_code == 200 and again.json() == done.json()
        assert await entries(first) == [["a"]]

    run(talk, workers)


def test_a_revoke_under_the_key_of_its_grant_is_never_answered_as_done(workers: tuple[Worker, Worker]) -> None:
    async def talk(first: httpx.AsyncClient, second: httpx.AsyncClient) -> None:
        grant = f"{ROLES}/r1/grants/realm.manage"
        assert (await first.post(ROLES, json={"name": "r1"})).status_code < 300
        assert (await first.put(grant, headers=KEY)).status_code == 200
        forget_keys(workers[0])
        refused = await second.delete(grant, headers=KEY)
        assert (refused.status_code, refused.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
        assert (await second.delete(grant)).status_code == 200
        assert (await first.get(f"{ROLES}/r1/grants")).json()["grants"] == []

    run(talk, workers)


def test_a_request_whose_answer_was_lost_is_answered_after_any_number_of_others(
    workers: tuple[Worker, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(first: httpx.AsyncClient, second: httpx.AsyncClient) -> None:
        body = {"namespace": ["ns"], "properties": {"x": "1"}}
        with monkeypatch.context() as dying:
            dying.setattr(IdempotencyRows, "finish", lambda *_: False)  # the worker dies between commit and answer
            assert (await first.post(NAMESPACES, headers=KEY, json=body)).status_code == 200
        kernel = workers[0].kernel
        puts = ([Put((f"k{n % 9}",), IcebergTable(f"s3://k/{n}"))] for n in range(OTHERS))
        requests = [CatalogCommit(kernel, put, CommitMeta("others")) for put in puts]
        await asyncio.gather(*(kernel.committer.commit_async("cat/1/heads/main", request) for request in requests))
        again = await second.post(NAMESPACES, headers=KEY, json=body)
        assert (again.status_code, again.json()) == (200, body)

    run(talk, workers)


def test_a_request_id_of_the_embedded_engine_is_refused_with_other_operations(tmp_path: Path) -> None:
    with headwater.open(f"sqlite:///{tmp_path}/store.db", create=True) as engine:
        main = engine.ensure_realm().ensure_catalog("lake").branch()
        done = main.commit([Put(("a",), IcebergTable("s3://a/1"))], message="one", request_id="mine")
        assert main.commit([Put(("a",), IcebergTable("s3://a/1"))], message="one", request_id="mine").seq == done.seq
        for location, message in (("s3://a/2", "one"), ("s3://a/1", "two")):
            with pytest.raises(IdempotencyKeyReused):
                main.commit([Put(("a",), IcebergTable(location))], message=message, request_id="mine")
