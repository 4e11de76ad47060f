"""Management over HTTP and through `connect`, with tokens: what is made, changed, kept from being deleted, and refused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

import headwater
from headwater.persistence.store import open_store
from headwater.producer.access.administrators import make_administrator
from headwater.producer.access.writing import WriteMeta
from headwater.producer.commits.operations import Put
from headwater.producer.content.content_types import Namespace
from headwater.schemas.errors import CommitConflict, InvalidInput, NotAuthenticated, NotPermitted, PreconditionFailed
from tests.support.servers.feed_server import FeedServer, feed_server


class Managed(NamedTuple):
    server: FeedServer
    root: dict[str, str]
    admin: dict[str, str]

    def client(self, realm: str, credentials: dict[str, str]) -> httpx.Client:
        token = httpx.post(
            f"{self.server.url}/manage/v1/{realm}/oauth/tokens",
            data={"grant_type": "client_credentials", **credentials},
            timeout=30,
        ).json()["access_token"]
        base = f"{self.server.url}/manage/v1"
        return httpx.Client(base_url=base, headers={"authorization": f"Bearer {token}"}, timeout=30)


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    url = f"sqlite:///{tmp_path_factory.mktemp('managed')}/lake.db"
    with headwater.open(url, create=True) as engine:
        made = engine.create_realm("default")
        engine.realm().create_catalog("lake")
    with open_store(url) as store:
        admin = make_administrator(store.system, "admin", WriteMeta("test"))
    assert admin.credentials is not None
    root = {"client_id": made.client_id, "client_secret": made.client_secret}
    boss = {"client_id": admin.credentials.client_id, "client_secret": admin.credentials.client_secret}
    with feed_server(url, dev=False, settings={"usage_seconds": 1}) as server:
        yield Managed(server, root, boss)


@pytest.fixture(scope="module")
def root(managed: Managed) -> Iterator[httpx.Client]:
    with managed.client("default", managed.root) as client:
        yield client


def ok(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), answer.text
    return problem


def test_a_catalog_is_created_changed_at_its_version_and_dropped_when_empty(root: httpx.Client) -> None:
    made = root.post("/default/catalogs", json={"name": "c1", "properties": {"a": "1"}})
    assert made.status_code == 201
    meta = ok(made)["meta"]
    assert meta["pointer"] == "catalogs" and meta["etag"] == made.headers["etag"] and meta["time"] and meta["seq"] > 0
    changed = root.patch("/default/catalogs/c1", json={"properties": {"a": "2"}}, headers={"If-Match": meta["etag"]})
    assert ok(changed)["catalog"]["properties"] == {"a": "2"}
    stale = root.patch("/default/catalogs/c1", json={"properties": {}}, headers={"If-Match": meta["etag"]})
    refused(stale, 412, "PRECONDITION_FAILED")
    refused(root.delete("/default/catalogs/c1", headers={"If-Match": meta["etag"]}), 412, "PRECONDITION_FAILED")
    for path in ("catalogs/c1", "principals/root", "principal-roles/realm-admin"):
        refused(root.delete(f"/default/{path}", headers={"If-Match": '"no version"'}), 412, "PRECONDITION_FAILED")
    for path in (["db"], ["db", "sales"], ["db", "sales", "eu"]):
        assert root.post("/default/catalogs/c1/namespaces", json={"path": path}).status_code == 201
    listed = ok(root.get("/default/catalogs/c1/namespaces", params={"recursive": "true", "limit": 2}))
    rest = ok(root.get("/default/catalogs/c1/namespaces", params={"recursive": "true", "token": listed["next_token"]}))
    paths = [one["path"] for one in (*listed["namespaces"], *rest["namespaces"])]
    assert paths == [["db"], ["db", "sales"], ["db", "sales", "eu"]]
    assert len(ok(root.get("/default/catalogs/c1/namespaces"))["namespaces"]) == 1
    refused(root.delete("/default/catalogs/c1/namespaces/db%1Fsales"), 409, "NAMESPACE_NOT_EMPTY")
    problem = refused(root.delete("/default/catalogs/c1"), 409, "CATALOG_NOT_EMPTY")
    assert problem["facts"] == {"reference": "main", "key": ["db"]}
    refused(root.patch("/default/catalogs/c1", json={"storage_root": "s3://x"}), 409, "CATALOG_NOT_EMPTY")
    ok(root.delete("/default/catalogs/c1/namespaces/db", params={"require_empty": "false"}))
    ok(root.delete("/default/catalogs/c1"))
    refused(root.get("/default/catalogs/c1"), 404, "CATALOG_NOT_FOUND")


def test_a_secret_is_shown_once_and_is_nowhere_else(root: httpx.Client, managed: Managed) -> None:
    made = root.post("/default/principals", json={"name": "ann"}, headers={"Idempotency-Key": "make-ann"})
    secret = ok(made)["credentials"]["client_secret"]
    again = root.post("/default/principals", json={"name": "ann"}, headers={"Idempotency-Key": "make-ann"})
    assert again.headers["idempotency-replayed"] == "true" and ok(again)["credentials"]["client_secret"] is None
    assert ok(again)["meta"] == ok(made)["meta"]
    told = root.get("/default/principals/ann").text + root.get("/default/principals").text
    assert secret not in told and "hash" not in told
    other = {"client_id": ok(made)["credentials"]["client_id"], "client_secret": secret}
    with managed.client("default", other) as ann:
        refused(ann.get("/default/principals"), 403, "NOT_PERMITTED")
    rotated = ok(root.post("/default/principals/ann/rotate", json={"overlap_seconds": 600}))
    managed.client("default", other).close()
    reset = ok(root.post("/default/principals/ann/reset"))
    with pytest.raises(KeyError):
        managed.client("default", other)
    with pytest.raises(KeyError):
        managed.client("default", {**other, "client_secret": rotated["credentials"]["client_secret"]})
    managed.client("default", {**other, "client_secret": reset["credentials"]["client_secret"]}).close()


def test_rights_come_by_roles_end_with_them_and_denials_are_listed(root: httpx.Client, managed: Managed) -> None:
    made = ok(root.post("/default/principals", json={"name": "bob"}))["credentials"]
    ok(root.post("/default/principal-roles", json={"name": "eng"}))
    ok(root.put("/default/principal-roles/eng/members/bob"))
    ok(root.post("/default/catalogs/lake/roles", json={"name": "keeper"}))
    ok(root.put("/default/catalogs/lake/roles/keeper/members/eng"))
    ok(root.put("/default/catalogs/lake/roles/keeper/grants/namespace.create", params={"path": "bob"}))
    assert ok(root.get("/default/principals/bob/rights"))["catalogs"]["lake"]["namespace.create"] == [["bob"]]
    secret = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
    ok(root.post("/default/catalogs/lake/namespaces", json={"path": ["bob"]}))
    with managed.client("default", secret) as bob:
        ok(bob.post("/default/catalogs/lake/namespaces", json={"path": ["bob", "one"]}))
        refused(bob.post("/default/catalogs/lake/namespaces", json={"path": ["other"]}), 403, "NOT_PERMITTED")
        refused(bob.get("/default/denials"), 403, "NOT_PERMITTED")
        refused(bob.get("/realms"), 403, "NOT_PERMITTED")
        ok(root.delete("/default/catalogs/lake/roles/keeper/grants/namespace.create", params={"path": "bob"}))
        refused(bob.post("/default/catalogs/lake/namespaces", json={"path": ["bob", "two"]}), 403, "NOT_PERMITTED")
    denied = [(one["principal"], one["right"]) for one in ok(root.get("/default/denials"))["denials"]]
    assert ("bob", "namespace.create") in denied and ("bob", "access.manage") in denied
    assert httpx.get(f"{managed.server.url}/manage/v1/default/catalogs", timeout=30).status_code == 401


def test_realms_are_the_system_administrators(root: httpx.Client, managed: Managed) -> None:
    refused(root.get("/realms"), 403, "NOT_PERMITTED")
    with managed.client("::system::", managed.admin) as admin:
        made = ok(admin.post("/realms", json={"name": "second"}))
        assert made["realm"]["status"] == "ACTIVE" and made["credentials"]["client_secret"]
        assert {"default", "second"} <= {one["name"] for one in ok(admin.get("/realms"))["realms"]}
        refused(admin.get("/default/catalogs"), 403, "NOT_PERMITTED")
        refused(admin.get("/::system::/catalogs"), 404, "ROUTE_NOT_FOUND")
        assert [one["name"] for one in ok(admin.get("/::system::/principals"))["principals"]] == ["admin"]
        version = made["realm"]["version"]
        closed = admin.post("/realms/second/deactivate", headers={"If-Match": f'"{version}"'})
        assert ok(closed)["realm"]["status"] == "INACTIVE" and ok(closed)["meta"]["seq"] > made["meta"]["seq"]
        refused(admin.post("/realms/second/activate", headers={"If-Match": f'"{version}"'}), 412, "PRECONDITION_FAILED")
        _described(admin)
        assert ok(admin.post("/realms/second/purge"))["realm"]["status"] == "PURGING"
        refused(admin.post("/realms", json={"name": "realms"}), 400, "INVALID_NAME")


def _described(admin: httpx.Client) -> None:
    """Of `second`, which is INACTIVE."""
    one = "/realms/second"
    said = admin.patch(one, json={"description": "Sales of Europe"})
    assert ok(said)["realm"]["description"] == "Sales of Europe" and ok(said)["realm"]["status"] == "INACTIVE"
    assert said.headers["etag"] == admin.get(one).headers["etag"] == ok(said)["meta"]["etag"]
    both = admin.patch(one, json={"description": "open", "status": "ACTIVE"}, headers={"If-Match": said.headers["etag"]})
    assert (ok(both)["realm"]["description"], ok(both)["realm"]["status"]) == ("open", "ACTIVE")
    assert ok(both)["meta"]["seq"] == ok(said)["meta"]["seq"] + 1
    stale = {"If-Match": said.headers["etag"]}
    refused(admin.patch(one, json={"description": "late"}, headers=stale), 412, "PRECONDITION_FAILED")
    for body in ({}, {"status": "PURGED"}, {"description": "x" * 4_097}, {"colour": "red"}):
        refused(admin.patch(one, json=body), 400, "INVALID_INPUT")
    refused(admin.patch(one, json={"description": "late", "status": "ACTIVE"}), 409, "REALM_STATE_CONFLICT")
    refused(admin.patch("/realms/absent", json={"description": ""}), 404, "REALM_NOT_FOUND")
    again = {"Idempotency-Key": "describe-once"}
    first, second = (admin.patch(one, json={"description": "", "status": "INACTIVE"}, headers=again) for _ in range(2))
    assert ok(first)["realm"] == ok(second)["realm"] == ok(admin.get(one))
    assert (ok(first)["realm"]["description"], ok(first)["realm"]["status"]) == ("", "INACTIVE")


def test_usage_is_measured_and_returned(root: httpx.Client, managed: Managed) -> None:
    usage = ok(root.get("/default/usage"))
    assert usage["measured"] and usage["rows"] == sum(one["rows"] for one in usage["types"]) > 0
    assert {"objects", "pointers", "names"} <= {one["table"] for one in usage["types"]}
    metrics = httpx.get(f"{managed.server.url}/metrics", timeout=30).text
    assert 'headwater_storage_rows{realm="default",table="objects",type="entry"}' in metrics


def test_connect_moves_references_and_lists_realms_with_a_clients_secret(managed: Managed) -> None:
    with headwater.connect(managed.server.url, **managed.root) as engine:
        realm = engine.realm()
        catalog = realm.create_catalog("remote")
        done = catalog.branch().commit([Put(("a",), Namespace())])
        dev = catalog.create_branch("dev/one")
        assert dev.info().commit_id == done.commit_id
        tag = catalog.create_tag("v1", "main")
        more = catalog.branch().commit([Put(("b",), Namespace())])
        assert dev.assign("main").commit_id == more.commit_id
        with pytest.raises((CommitConflict, PreconditionFailed)):
            dev.assign("v1", expected_head=done.commit_id)
        dev.delete(expected_head=more.commit_id)
        assert dev.info().deleted and not tag.info().deleted
        assert asyncio.run(first_change(catalog)).kind == "create"
        with pytest.raises((NotPermitted, NotAuthenticated)):
            engine.realms()
        realm.drop_catalog("remote")
        assert realm.catalogs() == ["lake"]
    with headwater.connect(managed.server.url, **managed.admin) as engine:
        assert "default" in [one.name for one in engine.realms()]
    with headwater.connect(managed.server.url, client_id="x", client_secret="y") as engine, pytest.raises(NotAuthenticated):
        engine.realm()
    with pytest.raises(InvalidInput):
        headwater.connect(managed.server.url, client_id="x")


async def first_change(catalog: Any) -> Any:
    async for change in catalog.branch().changes_async(follow=False):
        return change
    return None
