"""Rights that were withdrawn, never granted, or held under a name that somebody else has now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headwater.producer.access.grants import catalog_grants
from headwater.producer.access.principals import Principals
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.catalogs.catalogs import Catalogs
from headwater.producer.commits.commit_meta import CommitMeta
from headwater.service.auth.rights.rights import Right
from headwater.service.auth.tokens.credentials import CLIENT_TRIES
from headwater.service.storage.storage_roots import StorageRoots
from tests.support.fixtures.access_rig import CHEAP, META, PEER, Rig, access_rig

POINTER = "cat/1/heads/main"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}]}
TABLES = "/iceberg/v1/lake/namespaces/sales/tables"


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with access_rig(tmp_path_factory.mktemp("withdrawn")) as made:
        assert made.commit("alpha", ("sales",)).status_code == 200
        yield made


def _subscribe(rig: Rig, token: str, name: str = "mine") -> httpx.Response:
    body = {"pointers": [POINTER], "after": "earliest"}
    return rig.ask("PUT", f"/feed/v1/alpha/subscriptions/{name}", token=token, json=body)


def test_a_subscription_stops_with_the_right_to_manage_it(rig: Rig) -> None:
    token = rig.principal("alpha", "reader", Right.FEED_READ, Right.SUBSCRIPTION_MANAGE)
    made = _subscribe(rig, token)
    assert made.status_code == 201, made.text
    path, version = "/feed/v1/alpha/subscriptions/mine", made.json()["version"]
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", path, {}),
        ("GET", f"{path}/changes", {}),
        ("POST", f"{path}/acknowledge", {"json": {"version": version, "positions": {POINTER: {"seq": 1}}}}),
        ("POST", f"{path}/rewind", {"json": {"version": version, "after": "earliest"}}),
        ("DELETE", path, {}),
    ]
    assert rig.ask(*asked[0][:2], token=token).status_code == 200
    rig.revoke("alpha", "reader", Right.SUBSCRIPTION_MANAGE)
    assert [rig.ask(method, where, token=token, **body).status_code for method, where, body in asked] == [403] * len(asked)
    assert rig.get(path, rig.token("alpha")).json()["version"] == version


def test_a_subscription_does_not_pass_to_a_new_principal_of_the_same_name(rig: Rig) -> None:
    before = rig.principal("alpha", "temp", Right.FEED_READ, Right.SUBSCRIPTION_MANAGE)
    assert _subscribe(rig, before).status_code == 201
    principals = Principals(rig.kernel("alpha"), cost=CHEAP)
    principals.delete("temp", meta=META)
    made = principals.create("temp", meta=META)
    assert made.credentials is not None
    principal_roles(rig.kernel("alpha")).assign("temp", "temp-role", meta=META)
    after = rig.token_answer("alpha", made.credentials).json()["access_token"]
    assert rig.get("/feed/v1/alpha/subscriptions/mine", after).status_code == 404
    assert _subscribe(rig, after).status_code == 409


def test_register_with_overwrite_needs_the_right_to_write_the_table(rig: Rig) -> None:
    root = rig.token("alpha")
    made = rig.ask("POST", TABLES, token=root, json={"name": "orders", "schema": SCHEMA}).json()
    changed = {"updates": [{"action": "set-properties", "updates": {"owner": "ada"}}]}
    assert rig.ask("POST", f"{TABLES}/orders", token=root, json=changed).status_code == 200
    token = rig.principal("alpha", "maker", Right.TABLE_CREATE, Right.TABLE_READ)
    body = {"name": "orders", "metadata-location": made["metadata-location"], "overwrite": True}
    refused = rig.ask("POST", "/iceberg/v1/lake/namespaces/sales/register", token=token, json=body)
    assert refused.status_code == 403, refused.text
    assert rig.get(f"{TABLES}/orders", root).json()["metadata"]["properties"]["owner"] == "ada"
    rig.grant("alpha", "maker", Right.TABLE_WRITE)
    assert rig.ask("POST", "/iceberg/v1/lake/namespaces/sales/register", token=token, json=body).status_code == 200


def test_a_page_of_catalogs_is_filtered_before_it_is_limited(rig: Rig) -> None:
    kernel = rig.kernel("alpha")
    for name in ("a-hidden", "b-hidden", "mine", "z-hidden"):
        Catalogs(kernel).create(name, meta=CommitMeta("test"))
    token = rig.principal("alpha", "tenant")
    catalog = Catalogs(kernel).get("mine").id
    catalog_roles(kernel, catalog).create("own", meta=META)
    catalog_roles(kernel, catalog).assign("tenant-role", "own", meta=META)
    catalog_grants(kernel, catalog).grant("own", Right.CATALOG_LIST, (), meta=META)
    page = rig.get("/manage/v1/alpha/catalogs?limit=1", token)
    assert page.status_code == 200 and [one["name"] for one in page.json()["catalogs"]] == ["mine"]
    assert page.json().get("next_token") is None and "hidden" not in page.text


def test_concurrent_wrong_secrets_are_limited_like_consecutive_ones(rig: Rig) -> None:
    credentials = rig.roots["beta"]
    form = {
        "grant_type": "client_credentials",
        "client_id": credentials.client_id,
        "client_secret": "wrong",
        "scope": "catalog",
    }

    async def send_all() -> list[int]:
        transport = httpx.ASGITransport(app=rig.gate, client=PEER, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://headwater.test", timeout=60) as client:
            sent = (client.post("/manage/v1/beta/oauth/tokens", data=form) for _ in range(3 * CLIENT_TRIES))
            return [answer.status_code for answer in await asyncio.gather(*sent)]

    statuses = rig.run(send_all())
    assert statuses.count(401) <= CLIENT_TRIES + 1 and statuses.count(429) >= 2 * CLIENT_TRIES - 1
    assert rig.token_answer("beta", credentials, peer=("127.0.0.9", 1)).status_code == 200


def test_a_correct_secret_uses_no_attempt(rig: Rig) -> None:
    for _ in range(2 * CLIENT_TRIES):
        assert rig.token_answer("beta", rig.roots["beta"]).status_code == 200


@pytest.mark.parametrize("value", ["ten", "", "-1", "1e3", "9" * 5_000])
def test_a_view_keeps_a_whole_number_of_versions(rig: Rig, value: str) -> None:
    root = rig.token("alpha")
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": ["sales"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }
    body = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {"version.history.num-entries": value}}
    refused = rig.ask("POST", "/iceberg/v1/lake/namespaces/sales/views", token=root, json=body)
    assert refused.status_code == 400 and "version.history.num-entries" in refused.text
    assert (
        rig.ask("POST", "/iceberg/v1/lake/namespaces/sales/views", token=root, json={**body, "properties": {}}).status_code
        == 200
    )
    updates = [{"action": "set-properties", "updates": {"version.history.num-entries": value}}]
    changed = rig.ask("POST", "/iceberg/v1/lake/namespaces/sales/views/v", token=root, json={"updates": updates})
    assert changed.status_code == 400, changed.text


@pytest.mark.parametrize("where", ["shared", "shared/below", "shared//"])
def test_a_storage_root_belongs_to_one_realm(tmp_path_factory: pytest.TempPathFactory, where: str) -> None:
    folder = tmp_path_factory.mktemp("roots")
    with access_rig(folder, storage_roots=StorageRoots((folder.as_uri(),))) as rig:

        def create(realm: str, name: str, path: str) -> int:
            body = {"name": name, "storage_root": f"{folder.as_uri()}/{path}"}
            status: int = rig.ask("POST", f"/manage/v1/{realm}/catalogs", token=rig.token(realm), json=body).status_code
            return status

        assert create("alpha", "one", "shared") == 201
        assert create("beta", "mine", where) == 400
        assert create("beta", "mine", "shared-not") == 201, "a name that begins alike is another place"
        assert create("alpha", "two", where) == 201, "a realm may use its own roots again"
        body = {"storage_root": f"{folder.as_uri()}/{where}"}
        moved = rig.ask("PATCH", "/manage/v1/beta/catalogs/mine", token=rig.token("beta"), json=body)
        assert moved.status_code == 400, moved.text
