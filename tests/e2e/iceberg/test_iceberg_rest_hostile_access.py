"""Whoever asks for the files of one table, however it asks, gets at no other table's files.

Moto checks every signature and policy. Mallory has all rights to the tables of the namespace `mine` and none beside.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headwater.producer.access.rights import Right
from headwater.producer.catalogs.catalog_updates import update_catalog
from headwater.service.storage.delegation_options import DelegationOptions
from headwater.service.storage.s3_identity import S3Identity
from headwater.service.storage.storage_options import StorageOptions
from headwater.service.storage.vended_credentials import Allowed, CredentialVendor
from tests.support.fixtures.access_rig import CATALOG, META, Rig, access_rig
from tests.support.fixtures.iceberg_lake import table_body, view_body
from tests.support.servers.moto_server import BUCKET, ROLE_ARN, MotoServer, moto_with_sessions

ROOT = f"s3://{BUCKET}/hostile"
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
KEY_FOR_READERS = "told-to-readers-of-tables"
OF_MALLORY = (Right.TABLE_CREATE, Right.TABLE_READ, Right.TABLE_WRITE)


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_with_sessions() as server:
        yield server


@pytest.fixture(scope="module")
def rig(moto: MotoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    told = {"s3.region": "us-east-1", "adls.sas-token": KEY_FOR_READERS}
    storage = StorageOptions(moto.options, told, DelegationOptions(ROLE_ARN, sts_endpoint=moto.url, signs=True))
    with access_rig(tmp_path_factory.mktemp("rig"), storage=storage) as opened:
        update_catalog(opened.kernel("alpha"), CATALOG, storage_root=ROOT, meta=META)
        assert opened.commit("alpha", ("db",)).status_code == 200
        assert opened.commit("alpha", ("mine",)).status_code == 200
        asked(opened, "POST", references(), token=opened.token("alpha"), json={"name": "before", "type": "branch"})
        for path in ("db/tables", "mine/tables"):
            asked(opened, "POST", at(path), token=opened.token("alpha"), json=table_body("t"))
        opened.principal("alpha", "mallory", *OF_MALLORY, path=("mine",))
        yield opened


def at(path: str, reference: str = "") -> str:
    return f"/iceberg/v1/{CATALOG}{reference}/namespaces/{path}"


def references() -> str:
    return f"/manage/v1/alpha/catalogs/{CATALOG}/references"


def asked(rig: Rig, method: str, path: str, **options: Any) -> Any:
    answer = rig.ask(method, path, **options)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def sign(rig: Rig, path: str, method: str, uri: str, token: str) -> httpx.Response:
    body = {"region": "us-east-1", "method": method, "uri": uri, "headers": {}}
    return rig.ask("POST", f"{path}/sign", token=token, json=body)


def object_at(moto: MotoServer, location: str, name: str) -> str:
    return f"{moto.url}/{location.removeprefix('s3://')}/{name}"


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("DELETE", "data/x?uploadId="),
        ("DELETE", "data/x?uploadId=&x-id=AbortMultipartUpload"),
        ("POST", "data/x?uploadId="),
        ("PUT", "data/x?uploadId=&partNumber=1"),
        ("DELETE", "data/x?versionId=1"),
        ("GET", "data/x?acl="),
        ("GET", "data/x?%61cl="),
        ("GET", "data/x?response-content-type=text/html"),
        ("GET", "data/a+b"),
        ("GET", "data/x;y"),
        ("GET", "data/x y"),
        ("GET", "data/\tx"),
        ("GET", "data/x\n"),
        ("GET", "data\\..\\..\\x"),
        ("GET", "data%5c..%5cx"),
        ("GET", "data/%2e%2e/%2e%2e/x"),
        ("GET", "data%2f..%2f..%2fx"),
        ("GET", "data/x%00.parquet"),
        ("GET", "data/x%0a"),
        ("GET", "data/x%ff"),
        ("GET", "data/x%zz"),
        ("GET", "data/é"),
        ("get", "data/x"),
        ("PATCH", "data/x"),
        ("OPTIONS", "data/x"),
    ],
)
def test_ambiguous_requests_are_not_signed(rig: Rig, moto: MotoServer, method: str, name: str) -> None:
    root = rig.token("alpha")
    location = asked(rig, "GET", at("mine/tables/t"), token=root)["metadata"]["location"]
    assert sign(rig, at("mine/tables/t"), "GET", object_at(moto, location, "data/x"), root).status_code == 200
    answer = sign(rig, at("mine/tables/t"), method, object_at(moto, location, name), root)
    assert answer.status_code == 400 and "Signature" not in answer.text, answer.text


def test_a_bucket_in_the_hosts_name_is_read_there_only_if_the_storage_does_so(rig: Rig, moto: MotoServer) -> None:
    """⚠ A storage that does not would take the first folder for the bucket: s3://lake/other-bucket/… opened another one."""
    root = rig.token("alpha")
    location = asked(rig, "GET", at("mine/tables/t"), token=root)["metadata"]["location"]
    key = location.removeprefix(f"s3://{BUCKET}/")
    virtual = f"http://{BUCKET}.{moto.url.removeprefix('http://')}/{key}/data/x"
    assert sign(rig, at("mine/tables/t"), "GET", virtual, root).status_code == 400
    for uri in (f"{moto.url}//{BUCKET}/{key}/x", f"{moto.url}/{BUCKET}//{key}/x", f"{moto.url}/{BUCKET}%2F..%2Fb/{key}/x"):
        assert sign(rig, at("mine/tables/t"), "GET", uri, root).status_code in (400, 403), uri


def test_a_table_that_a_branch_does_not_have_is_not_opened_through_a_table_in_its_place(rig: Rig, moto: MotoServer) -> None:
    mallory = rig.token("alpha", "mallory")
    location = asked(rig, "GET", at("db/tables/t"), token=rig.token("alpha"))["metadata"]["location"]
    uri = object_at(moto, location, "metadata/x")
    asked(rig, "POST", at("mine/tables", "@before"), token=mallory, json=table_body("x", location=location))
    path = at("mine/tables/x", "@before")
    assert asked(rig, "GET", path, token=mallory)["metadata"]["location"] == location
    refused = [
        rig.ask("GET", path, token=mallory, headers=VENDED),
        rig.ask("GET", f"{path}/credentials", token=mallory),
        sign(rig, path, "GET", uri, mallory),
        sign(rig, path, "PUT", uri, mallory),
        rig.ask(
            "POST",
            at("mine/tables", "@before"),
            token=mallory,
            headers=VENDED,
            json=table_body("y", location=location.rpartition("/")[0], **{"stage-create": True}),
        ),
    ]
    for answer in refused:
        assert answer.status_code == 400, answer.text
        assert "s3.session-token" not in answer.text and "Signature" not in answer.text
    rig.grant("alpha", "mallory", Right.TABLE_READ, ("db",))
    assert sign(rig, path, "GET", uri, mallory).status_code == 200, "who may read both tables may read their files"
    assert sign(rig, path, "PUT", uri, mallory).status_code == 400
    rig.revoke("alpha", "mallory", Right.TABLE_READ, ("db",))
    assert sign(rig, path, "GET", uri, mallory).status_code == 400


def test_the_past_of_a_table_that_was_renamed_opens_no_files_of_its_new_name(rig: Rig, moto: MotoServer) -> None:
    root, mallory = rig.token("alpha"), rig.token("alpha", "mallory")
    made = asked(rig, "POST", at("mine/tables"), token=root, json=table_body("given_away"))
    commit = asked(rig, "GET", f"/api/catalogs/{CATALOG}/v2/trees/main", token=root)["reference"]["hash"]
    past = at("mine/tables/given_away", f"@main@{commit}")
    assert asked(rig, "GET", past, token=mallory, headers=VENDED)["storage-credentials"]
    names = {"source": ("mine", "given_away"), "destination": ("db", "taken")}
    body = {part: {"namespace": [namespace], "name": name} for part, (namespace, name) in names.items()}
    asked(rig, "POST", f"/iceberg/v1/{CATALOG}/tables/rename", token=root, json=body)
    assert rig.ask("GET", past, token=mallory, headers=VENDED).status_code == 400
    assert sign(rig, past, "GET", object_at(moto, made["metadata"]["location"], "x"), mallory).status_code == 400
    assert asked(rig, "GET", past, token=root, headers=VENDED)["storage-credentials"]


def test_a_revoked_right_ends_new_credentials_and_signatures(rig: Rig, moto: MotoServer) -> None:
    leaver, path = rig.principal("alpha", "leaver", Right.TABLE_READ, path=("mine",)), at("mine/tables/t")
    location = asked(rig, "GET", path, token=leaver, headers=VENDED)["metadata"]["location"]
    uri = object_at(moto, location, "x")
    assert sign(rig, path, "GET", uri, leaver).status_code == 200
    rig.revoke("alpha", "leaver", Right.TABLE_READ, ("mine",))
    assert rig.ask("GET", path, token=leaver, headers=VENDED).status_code == 403
    assert rig.ask("GET", f"{path}/credentials", token=leaver).status_code == 403
    assert sign(rig, path, "GET", uri, leaver).status_code == 403


def test_a_view_reveals_no_keys_that_only_readers_of_tables_may_see(rig: Rig) -> None:
    root = rig.token("alpha")
    assert asked(rig, "GET", at("mine/tables/t"), token=root)["config"]["adls.sas-token"] == KEY_FOR_READERS
    created = rig.ask("POST", at("mine/views"), token=root, json=view_body("v"))
    loaded = rig.ask("GET", at("mine/views/v"), token=root, headers=VENDED)
    assert created.json()["config"]["s3.region"] == loaded.json()["config"]["s3.region"] == "us-east-1"
    assert not [answer for answer in (created.text, loaded.text) if KEY_FOR_READERS in answer or "s3.session-token" in answer]


def test_credentials_are_given_out_until_half_of_their_time_has_passed(moto: MotoServer) -> None:
    ahead_seconds = 0.0
    options = DelegationOptions(ROLE_ARN, seconds=3_600, sts_endpoint=moto.url)

    vendor = CredentialVendor(S3Identity(moto.options), options, lambda: time.time() + ahead_seconds)
    places, allowed = [f"{ROOT}/db/t"], Allowed()
    first = vendor.credentials(places, allowed)
    ahead_seconds = 1_700.0
    assert vendor.credentials(places, allowed) == first
    assert vendor.credentials(places, Allowed(writes=True)) != first
    ahead_seconds = 1_900.0
    assert vendor.credentials(places, allowed) != first
