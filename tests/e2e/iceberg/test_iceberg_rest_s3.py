"""Metadata files on S3, by PyIceberg against a moto process: the same life as on local files, and no key is told."""

from __future__ import annotations

import shlex
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

import headwater
from headwater.embedded import CatalogHandle
from headwater.schemas.errors import FileMissing, InvalidInput, MalformedMetadata, StoreUnavailable
from headwater.service.iceberg.operations.metadata_files import MetadataFiles
from headwater.service.storage.files import files_of
from headwater.service.storage.locations import Warehouse
from headwater.service.storage.storage_options import storage_options
from tests.support.fixtures.iceberg_lake import ROWS, IcebergLake, iceberg_lake, table_body
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.moto_server import ACCESS_KEY, BUCKET, SECRET_KEY, MotoServer, moto_server

ROOT = f"s3://{BUCKET}/warehouse"


@pytest.fixture(scope="module")
def moto() -> Iterator[MotoServer]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="module")
def served(moto: MotoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    options = shlex.join(f"{name}={value}" for name, value in moto.options.items())
    settings = {"storage_options": options, "storage_client_options": f"s3.endpoint={moto.url} s3.region=us-east-1"}
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('s3')}/lake.db", settings=settings) as server:
        yield server


@pytest.fixture(scope="module")
def catalog(served: FeedServer) -> Iterator[CatalogHandle]:
    with headwater.open(served.store_url) as engine:
        yield engine.realm().create_catalog("remote", storage_root=ROOT)


@pytest.fixture(scope="module")
def lake(served: FeedServer, catalog: CatalogHandle) -> Iterator[IcebergLake]:
    with iceberg_lake(served.url, "remote") as opened:
        opened.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        yield opened


def told_locations(catalog: CatalogHandle) -> set[str]:
    told = (one.after for change in catalog.branch().changes() for one in change.operations if one.type == "ICEBERG_TABLE")
    return {after["metadata_location"] for after in told if after is not None}


def test_a_table_lives_on_s3(lake: IcebergLake, catalog: CatalogHandle, moto: MotoServer) -> None:
    keys = {name: value for name, value in moto.options.items() if "key" in name}
    client = RestCatalog("remote", uri=lake.url, warehouse="remote", **keys)
    try:
        table = client.create_table("db.orders", ROWS.schema)
        assert table.io.properties["s3.endpoint"] == moto.url, "the client was not told where S3 is"
        table.append(ROWS)
        table.append(ROWS)
        assert table.scan().to_arrow().num_rows == 6
        assert client.load_table("db.orders").metadata == table.metadata
        assert table.metadata_location.startswith(f"{ROOT}/db/orders-")
        client.purge_table("db.orders")
        again = client.register_table("db.again", table.metadata_location)
        assert again.scan().to_arrow().num_rows == 6
    finally:
        client.close()
    there = {f"s3://{BUCKET}/{key}" for key in moto.listed() if key.endswith(".metadata.json")}
    assert told_locations(catalog) == there


def test_files_are_read_again_by_another_process(lake: IcebergLake, moto: MotoServer) -> None:
    made = lake.http.post("namespaces/db/tables", json=table_body("kept")).json()
    fresh = MetadataFiles(Warehouse(ROOT), files_of(ROOT, moto.options))
    shown = {**made["metadata"], "properties": {}}
    assert fresh.load(made["metadata-location"]).table == shown
    assert made["config"]["s3.delete-enabled"] == "false"
    with pytest.raises(FileMissing):
        fresh.load(f"{ROOT}/db/none.metadata.json")
    fresh.remove(made["metadata-location"])
    assert made["metadata-location"].removeprefix(f"s3://{BUCKET}/") not in moto.listed()


@pytest.mark.parametrize(
    "location",
    [
        "s3://other/warehouse/x",
        f"{ROOT}/../x",
        f"{ROOT}x/y",
        f"{ROOT}/%2e%2e/x",
        "gs://lake/warehouse/x",
        "file:///tmp/x",
        ROOT,
    ],
)
def test_no_location_leads_out_of_the_bucket_and_its_prefix(lake: IcebergLake, moto: MotoServer, location: str) -> None:
    before = moto.listed()
    lake.refused("POST", "namespaces/db/tables", 400, "BadRequestException", json=table_body("u", location=location))
    registration = {"name": "u", "metadata-location": f"{location}/00000-x.metadata.json"}
    refusal = (404, "NotFoundException") if location == ROOT else (400, "BadRequestException")
    lake.refused("POST", "namespaces/db/register", *refusal, json=registration)
    assert moto.listed() == before


def test_no_storage_key_is_disclosed(lake: IcebergLake, served: FeedServer) -> None:
    lake.http.post("namespaces/db/tables", json=table_body("secretive")).raise_for_status()
    delegation = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
    for path in ("namespaces/db/tables/secretive", "namespaces/db/tables/secretive/credentials"):
        answer = lake.http.get(path, headers=delegation)
        assert answer.status_code == 200
        assert SECRET_KEY not in answer.text
        assert ACCESS_KEY not in answer.text
    assert answer.json() == {"storage-credentials": []}
    assert SECRET_KEY not in served.log_text


def test_errors_of_the_storage_are_reported_without_its_message(lake: IcebergLake, served: FeedServer) -> None:
    with headwater.open(served.store_url) as engine:
        engine.realm().create_catalog("nowhere", storage_root="s3://no-such-bucket/x")
    with iceberg_lake(served.url, "nowhere") as nowhere:
        nowhere.http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        answer = nowhere.http.post("namespaces/db/tables", json=table_body("t"))
    assert answer.status_code == 503, answer.text
    message = answer.json()["error"]["message"]
    assert "cannot be written: NO_SUCH_BUCKET." in message
    for secret in (SECRET_KEY, ACCESS_KEY):
        assert secret not in answer.text and secret not in served.log_text


class _Telltale(BaseHTTPRequestHandler):
    """A storage whose refusals quote what it was sent, as some do."""

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.end_headers()

    def do_GET(self) -> None:
        quoted = f"{self.headers['Authorization']} {SECRET_KEY}"
        body = f"<Error><Code>AccessDenied</Code><Message>{quoted}</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_error_texts_of_the_storage_are_not_passed_on() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Telltale) as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        options = {**MotoServer(f"http://127.0.0.1:{storage.server_port}").options}
        with pytest.raises(OSError, match=SECRET_KEY):  # the fault is there: PyArrow passes the words on
            PyArrowFileIO(options).new_output(f"{ROOT}/x").create().close()
        with pytest.raises(StoreUnavailable) as refused:
            files_of(ROOT, options).write_new(f"{ROOT}/x", b"x")
        storage.shutdown()
    assert "ACCESS_DENIED" in str(refused.value)
    told = "".join(traceback.format_exception(refused.value))
    assert SECRET_KEY not in told and ACCESS_KEY not in told


def test_files_that_cannot_be_reached_are_a_reason_to_try_again(moto: MotoServer) -> None:
    files = files_of(ROOT, {**moto.options, "s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": "1"})
    with pytest.raises(StoreUnavailable):
        files.write_new(f"{ROOT}/x", b"x")
    with pytest.raises(StoreUnavailable):
        files.read(f"{ROOT}/x")
    files.remove(f"{ROOT}/x")  # what stays is garbage, not a fault


@pytest.mark.parametrize(
    "name",
    [
        "s3.secret-access-key",
        "s3.access-key-id",
        "adls.sas-token",
        "gcs.oauth2.token",
        "s3.session-token",
        "adls.connection-string",
        "x.new",
    ],
)
def test_storage_keys_are_disclosed_only_if_the_operator_allows_it(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        storage_options("", f"{name}=x", tell_secrets=False)
    assert refused.value.field == "storage_client_options"
    assert storage_options("", f"{name}=x", tell_secrets=True).secrets_told == {name: "x"}


@pytest.mark.parametrize("text", ["s3.region", "'s3.region=x", "=x", "a b=c"])
def test_options_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        storage_options(text, "", tell_secrets=False)


def test_an_object_over_the_bound_is_refused_before_it_is_read(moto: MotoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(ROOT, moto.options)
    files.write_new(f"{ROOT}/large", b"x" * 5_000)
    monkeypatch.setattr("headwater.service.storage.files.FILE_BYTES_MAX", 4_999)
    with pytest.raises(MalformedMetadata, match="more than 4999 bytes"):
        files.read(f"{ROOT}/large")
    monkeypatch.setattr("headwater.service.storage.files.FILE_BYTES_MAX", 5_000)
    assert len(files.read(f"{ROOT}/large")) == 5_000


def test_metadata_that_could_not_be_read_again_is_not_written(moto: MotoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = files_of(ROOT, moto.options)
    metadata = MetadataFiles(Warehouse(ROOT), files)
    monkeypatch.setattr("headwater.service.storage.files.FILE_BYTES_MAX", 1_000)
    with pytest.raises(MalformedMetadata, match="more than 1000 bytes"):
        metadata.write(b"{" + b" " * 1_000 + b"}", f"{ROOT}/db/t", {})
