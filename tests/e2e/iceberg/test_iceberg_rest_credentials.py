"""Access to the files of one table on S3: short-lived credentials and signatures, which open no other table.

Moto checks every signature and policy here, so what a test is refused it is refused by S3, not by the test.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from botocore.session import Session
from pyiceberg.catalog.rest import RestCatalog

import headwater
from headwater.producer.access.rights import Right
from headwater.producer.catalogs.catalog_updates import update_catalog
from headwater.producer.commits.operations import Put
from headwater.producer.connectors.connector_records import Connectors
from headwater.producer.connectors.destination import DestinationBranch, Seen
from headwater.producer.connectors.source_spi import ConnectorSpec
from headwater.producer.content.content_types import IcebergTable, Namespace
from headwater.service.reconciling.source_factories import ReconcileOptions, source_factories
from headwater.service.storage.delegation_options import DelegationOptions
from headwater.service.storage.storage_options import StorageOptions
from tests.support.fixtures.access_rig import CATALOG, META, Rig, access_rig
from tests.support.fixtures.iceberg_lake import ROWS, IcebergLake, iceberg_lake, table_body
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.moto_server import ACCESS_KEY, BUCKET, ROLE_ARN, SECRET_KEY, MotoServer, moto_with_sessions

ROOT = f"s3://{BUCKET}/warehouse"
TABLES = "namespaces/db/tables"
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
SIGNED = {"X-Iceberg-Access-Delegation": "remote-signing"}


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_with_sessions() as server:
        yield server


@pytest.fixture(scope="module")
def served(moto: MotoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    settings = {
        "storage_options": shlex.join(f"{name}={value}" for name, value in moto.options.items()),
        "storage_client_options": f"s3.endpoint={moto.url} s3.region=us-east-1",
        "storage_role": ROLE_ARN,
        "storage_sts_endpoint": moto.url,
        "storage_remote_signing": "true",
        "log_requests": "true",
    }
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('credentials')}/lake.db", settings=settings) as server:
        with headwater.open(server.store_url) as engine:
            engine.realm().create_catalog("remote", storage_root=ROOT)
        yield server


@pytest.fixture(scope="module")
def lake(served: FeedServer) -> Iterator[IcebergLake]:
    with iceberg_lake(served.url, "remote") as opened:
        opened.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        for name in ("mine", "other"):
            opened.http.post(TABLES, json=table_body(name)).raise_for_status()
        yield opened


def loaded(lake: IcebergLake, name: str, headers: dict[str, str]) -> dict[str, Any]:
    answer = lake.http.get(f"{TABLES}/{name}", headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def key_of(location: str, name: str = "") -> str:
    return f"{location.removeprefix(f's3://{BUCKET}/')}/{name}"


def s3_client(moto: MotoServer, config: dict[str, str]) -> Any:
    return Session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=moto.url,
        aws_access_key_id=config["s3.access-key-id"],
        aws_secret_access_key=config["s3.secret-access-key"],
        aws_session_token=config["s3.session-token"],
    )


def test_pyiceberg_works_with_the_vended_credentials_alone(lake: IcebergLake, moto: MotoServer) -> None:
    client = RestCatalog(
        "remote", uri=lake.url, warehouse="remote", **{"header.X-Iceberg-Access-Delegation": "vended-credentials"}
    )
    try:
        table = client.create_table("db.orders", ROWS.schema)
        given = table.io.properties
        assert given["s3.session-token"] and given["s3.access-key-id"] != ACCESS_KEY
        table.append(ROWS)
        assert client.load_table("db.orders").scan().to_arrow().num_rows == 3
        client.drop_table("db.orders")
    finally:
        client.close()


def test_credentials_of_one_table_open_no_other(lake: IcebergLake, moto: MotoServer) -> None:
    mine, other = (loaded(lake, name, VENDED) for name in ("mine", "other"))
    (given,) = mine["storage-credentials"]
    location, elsewhere = mine["metadata"]["location"], other["metadata"]["location"]
    assert given["prefix"] == f"{location}/"
    s3 = s3_client(moto, given["config"])
    s3.put_object(Bucket=BUCKET, Key=key_of(location, "data/x"), Body=b"x")
    assert s3.get_object(Bucket=BUCKET, Key=key_of(location, "data/x"))["Body"].read() == b"x"
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix=key_of(location))["KeyCount"] >= 1
    theirs = other["metadata-location"].removeprefix(f"s3://{BUCKET}/")
    refused = [
        lambda: s3.get_object(Bucket=BUCKET, Key=theirs),
        lambda: s3.put_object(Bucket=BUCKET, Key=key_of(elsewhere, "data/x"), Body=b"x"),
        lambda: s3.put_object(Bucket=BUCKET, Key=key_of(location)[:-1] + "2/x", Body=b"x"),
        lambda: s3.delete_object(Bucket=BUCKET, Key=key_of(location, "data/x")),
        lambda: s3.list_objects_v2(Bucket=BUCKET, Prefix=key_of(elsewhere)),
        lambda: s3.list_objects_v2(Bucket=BUCKET, Prefix="warehouse/"),
        lambda: s3.list_objects_v2(Bucket=BUCKET),
    ]
    for act in refused:
        with pytest.raises(ClientError) as error:
            act()
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    s3_client(moto, other["config"]).get_object(Bucket=BUCKET, Key=theirs)


def test_credentials_are_returned_only_on_request(lake: IcebergLake) -> None:
    answer = loaded(lake, "mine", {})
    assert "storage-credentials" not in answer and not [name for name in answer["config"] if "key" in name or "token" in name]


def test_they_are_renewed_by_the_credentials_route_and_never_hidden_by_a_304(lake: IcebergLake) -> None:
    first = lake.http.get(f"{TABLES}/mine", headers=VENDED)
    again = lake.http.get(f"{TABLES}/mine", headers={**VENDED, "If-None-Match": first.headers["etag"]})
    assert again.status_code == 200 and again.json()["storage-credentials"]
    path = first.json()["config"]["client.refresh-credentials-endpoint"]
    renewed = httpx.get(f"{lake.url}/{path}", timeout=30).json()["storage-credentials"]
    assert renewed[0]["prefix"] == first.json()["storage-credentials"][0]["prefix"]
    assert int(renewed[0]["config"]["s3.session-token-expires-at-ms"]) > 0


@pytest.mark.parametrize("place", ["*", "db/a?", "${aws:username}"])
def test_no_location_widens_the_policy(lake: IcebergLake, place: str) -> None:
    name = f"wide{len(place)}"
    made = lake.http.post(TABLES, json=table_body(name, location=f"{ROOT}/{place}/x"))
    assert made.status_code == 200, made.text
    lake.refused("GET", f"{TABLES}/{name}", 400, "BadRequestException", headers=VENDED)
    lake.http.delete(f"{TABLES}/{name}").raise_for_status()


def test_an_answer_stored_under_a_key_has_no_credentials(lake: IcebergLake) -> None:
    headers = {**VENDED, "Idempotency-Key": "0198c0de-0000-7000-8000-000000000001"}
    first = lake.http.post(TABLES, json=table_body("keyed"), headers=headers).json()
    again = lake.http.post(TABLES, json=table_body("keyed"), headers=headers)
    assert again.status_code == 200 and again.headers["idempotency-replayed"] == "true"
    assert first["config"]["s3.session-token"] not in again.text and "storage-credentials" not in again.json()
    assert again.json()["metadata"] == first["metadata"]


# ── signatures ──────────────────────────────────────────────────────────────────────────────────────────────


def sign(lake: IcebergLake, name: str, method: str, uri: str, **headers: str) -> httpx.Response:
    body = {"region": "us-east-1", "method": method, "uri": uri, "headers": {key: [value] for key, value in headers.items()}}
    return lake.http.post(f"{TABLES}/{name}/sign", json=body)


def send_signed(lake: IcebergLake, name: str, method: str, uri: str, content: bytes = b"") -> httpx.Response:
    answer = sign(lake, name, method, uri)
    assert answer.status_code == 200, answer.text
    headers = {key: values[0] for key, values in answer.json()["headers"].items()}
    return httpx.request(method, answer.json()["uri"], headers=headers, content=content, timeout=30)


def test_a_client_learns_the_signing_endpoint(lake: IcebergLake) -> None:
    config = loaded(lake, "mine", SIGNED)["config"]
    assert config["s3.remote-signing-enabled"] == "true"
    assert config["s3.signer.endpoint"] == f"v1/remote/{TABLES}/mine/sign"


def test_signed_requests_read_and_write_the_table(lake: IcebergLake, moto: MotoServer) -> None:
    location = loaded(lake, "mine", {})["metadata"]["location"]
    uri = f"{moto.url}/{BUCKET}/{key_of(location, 'data/signed')}"
    assert httpx.get(uri).status_code != 200, "moto asks for no signature"
    assert send_signed(lake, "mine", "PUT", uri, b"content").status_code == 200
    assert send_signed(lake, "mine", "GET", uri).content == b"content"
    listing = f"{moto.url}/{BUCKET}?list-type=2&prefix={key_of(location)}"
    assert "data/signed" in send_signed(lake, "mine", "GET", listing).text


def test_nothing_else_is_signed(lake: IcebergLake, moto: MotoServer) -> None:
    location = loaded(lake, "mine", {})["metadata"]["location"]
    theirs = key_of(loaded(lake, "other", {})["metadata"]["location"])
    own = f"{moto.url}/{BUCKET}/{key_of(location, 'data/x')}"
    bucket = f"{moto.url}/{BUCKET}"
    refused = [
        ("GET", f"{bucket}/{theirs}data/x", 403),
        ("PUT", f"{bucket}/{theirs}data/x", 403),
        ("GET", f"{bucket}/{key_of(location)[:-1]}2/x", 403),
        ("GET", f"{bucket}?list-type=2&prefix={theirs}", 403),
        ("GET", f"{bucket}?list-type=2&prefix=", 403),
        ("GET", f"{bucket}?list-type=2&prefix={key_of(location)}&prefix={theirs}", 400),
        ("GET", f"{bucket}/{key_of(location)}../x", 400),
        ("GET", f"{bucket}/{key_of(location)}%2e%2e/x", 400),
        ("GET", f"{bucket}?policy", 400),
        ("PUT", f"{own}?acl", 400),
        ("POST", f"{bucket}?delete", 400),
        ("DELETE", own, 400),
        ("GET", own.replace("127.0.0.1", "127.0.0.2"), 400),
        ("GET", f"http://user@{own.removeprefix('http://')}", 400),
    ]
    for method, uri, status in refused:
        answer = sign(lake, "mine", method, uri)
        assert answer.status_code == status, (method, uri, answer.text)
        assert "Signature" not in answer.text
    copying = sign(lake, "mine", "PUT", own, **{"x-amz-copy-source": f"/{BUCKET}/{theirs}data/x"})
    assert copying.status_code == 400, copying.text


@pytest.fixture(scope="module")
def rig(moto: MotoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    storage = StorageOptions(moto.options, {}, DelegationOptions(ROLE_ARN, sts_endpoint=moto.url, signs=True))
    with access_rig(tmp_path_factory.mktemp("rig"), storage=storage) as opened:
        update_catalog(opened.kernel("alpha"), CATALOG, storage_root=f"s3://{BUCKET}/rights", meta=META)
        assert opened.commit("alpha", ("db",)).status_code == 200
        made = opened.ask("POST", f"/iceberg/v1/{CATALOG}/{TABLES}", token=opened.token("alpha"), json=table_body("t"))
        assert made.status_code == 200, made.text
        yield opened


def test_a_caller_that_may_only_read_gets_nothing_to_write_with(rig: Rig, moto: MotoServer) -> None:
    path = f"/iceberg/v1/{CATALOG}/{TABLES}/t"
    reader = rig.principal("alpha", "reader", Right.TABLE_READ, path=("db",))
    answer = rig.get(path, reader, headers=VENDED).json()
    key = key_of(answer["metadata"]["location"], "data/x")
    s3 = s3_client(moto, answer["config"])
    s3.get_object(Bucket=BUCKET, Key=answer["metadata-location"].removeprefix(f"s3://{BUCKET}/"))
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    request = {"region": "us-east-1", "uri": f"{moto.url}/{BUCKET}/{key}", "headers": {}}
    statuses = {
        method: rig.ask("POST", f"{path}/sign", token=reader, json={**request, "method": method}).status_code
        for method in ("GET", "PUT", "DELETE")
    }
    assert statuses == {"GET": 200, "PUT": 403, "DELETE": 403}
    rig.grant("alpha", "reader", Right.TABLE_WRITE, ("db",))
    s3 = s3_client(moto, rig.get(f"{path}/credentials", reader).json()["storage-credentials"][0]["config"])
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")


def test_files_of_a_connectors_table_are_read_only(rig: Rig, moto: MotoServer) -> None:
    """Whatever their rights: the files are the source's."""
    kernel, owner = rig.kernel("alpha"), rig.token("alpha")
    tables = f"/iceberg/v1/{CATALOG}/namespaces/db/tables"
    made = rig.ask("POST", tables, token=owner, json=table_body("theirs")).json()
    assert rig.ask("DELETE", f"{tables}/theirs", token=owner).status_code == 204
    spec = ConnectorSpec(source="nessie", uri="https://nessie.example.com/api/v2", roots=(f"s3://{BUCKET}/",))
    connectors = Connectors(kernel, source_factories(ReconcileOptions()))
    connector = connectors.create("up", spec, catalog=CATALOG, path=("bridged",), paused=True, meta=META).value
    puts = [Put(("bridged",), Namespace()), Put(("bridged", "t"), IcebergTable(metadata_location=made["metadata-location"]))]
    DestinationBranch(kernel, connector).commit(puts, Seen(version="1"), "observed")

    path = f"/iceberg/v1/{CATALOG}/namespaces/bridged/tables/t"
    answer = rig.get(path, owner, headers=VENDED).json()
    s3, key = s3_client(moto, answer["config"]), key_of(answer["metadata"]["location"], "data/x")
    s3.get_object(Bucket=BUCKET, Key=answer["metadata-location"].removeprefix(f"s3://{BUCKET}/"))
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    request = {"region": "us-east-1", "uri": f"{moto.url}/{BUCKET}/{key}", "headers": {}}
    for method, status in (("GET", 200), ("PUT", 403)):
        signed = rig.ask("POST", f"{path}/sign", token=owner, json={**request, "method": method})
        assert signed.status_code == status, signed.text
    staged = {**table_body("new"), "stage-create": True}
    assert rig.ask("POST", path.removesuffix("/t"), token=owner, json=staged).status_code == 403
    connectors.delete("up", meta=META)
    s3 = s3_client(moto, rig.get(f"{path}/credentials", owner).json()["storage-credentials"][0]["config"])
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"x")


def test_a_caller_without_the_right_to_read_gets_no_credentials(rig: Rig) -> None:
    stranger = rig.principal("alpha", "stranger", Right.TABLE_READ, path=("elsewhere",))
    path = f"/iceberg/v1/{CATALOG}/{TABLES}/t"
    assert rig.get(path, stranger, headers=VENDED).status_code == 403
    assert rig.get(f"{path}/credentials", stranger).status_code == 403
    body = {"region": "us-east-1", "uri": "http://127.0.0.1/x", "headers": {}, "method": "GET"}
    assert rig.ask("POST", f"{path}/sign", token=stranger, json=body).status_code == 403


def test_metadata_of_another_api_does_not_lead_to_other_tables(lake: IcebergLake, served: FeedServer, moto: MotoServer) -> None:
    """⚠ A metadata file whose location is another table's does not get into the catalog, so that it opens nothing there."""
    mine, other = (loaded(lake, name, VENDED) for name in ("mine", "other"))
    forged = {**mine["metadata"], "location": other["metadata"]["location"]}
    key = key_of(mine["metadata"]["location"], "metadata/00009-forged.metadata.json")
    s3_client(moto, mine["config"]).put_object(Bucket=BUCKET, Key=key, Body=json.dumps(forged).encode())
    content = {"metadata_location": f"s3://{BUCKET}/{key}"}
    put = {"op": "put", "key": ["db", "forged"], "type": "ICEBERG_TABLE", "content": content}
    body = {"catalog": "remote", "operations": [put], "message": "forge"}
    answer = httpx.post(f"{served.feed}/commit", json=body, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (400, "LOCATION_FORBIDDEN"), answer.text
    lake.refused("GET", f"{TABLES}/forged", 404, "NoSuchTableException", headers=VENDED)


def test_no_answer_and_no_log_holds_a_secret(lake: IcebergLake, served: FeedServer) -> None:
    """⚠ After all other requests of this file: the log is that of the whole run."""
    given = loaded(lake, "mine", VENDED)["storage-credentials"][0]["config"]
    secrets = (SECRET_KEY, given["s3.secret-access-key"], given["s3.session-token"])
    answers = [
        lake.http.get(f"{TABLES}/mine", headers={**VENDED, **SIGNED}).text,
        lake.http.get(f"{TABLES}/mine/credentials").text,
        sign(lake, "mine", "GET", f"{served.url}/x").text,
        lake.http.get("../config", params={"warehouse": "remote"}).text,
    ]
    assert not [answer for answer in answers if SECRET_KEY in answer]
    assert "/mine/sign" in served.log_text, "the log has no requests"
    assert not [secret for secret in secrets if secret in served.log_text]
