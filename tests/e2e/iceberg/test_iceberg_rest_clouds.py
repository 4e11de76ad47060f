"""Tables on GCS and Azure, by PyIceberg against emulators: the same life as on local files, and no key is told."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from pyiceberg.catalog.rest import RestCatalog

import headwater
from headwater.schemas.errors import FileMissing, MalformedMetadata, StoreUnavailable
from headwater.service.storage.files import PYARROW, files_of
from tests.support.fixtures.iceberg_lake import ROWS, iceberg_lake, table_body
from tests.support.servers.emulators import AZURE_KEY, GCS_TOKEN, Emulator, azure_emulator, gcs_emulator
from tests.support.servers.feed_server import FeedServer, feed_server

pytestmark = pytest.mark.timeout(900)
"""The first run on a machine installs the emulators."""
SECRETS = (AZURE_KEY, GCS_TOKEN)
Emulators = dict[str, Emulator]


@pytest.fixture(scope="module")
def emulators() -> Iterator[Emulators]:
    with gcs_emulator() as gcs, azure_emulator() as azure:
        yield {"gcs": gcs, "azure": azure}


@pytest.fixture(scope="module")
def served(emulators: Emulators, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    """One server for both storages, with a catalog on each."""
    joined = [
        {name: value for one in emulators.values() for name, value in options(one).items()}
        for options in (lambda one: one.options, lambda one: one.plain)
    ]
    server, clients = (shlex.join(f"{name}={value}" for name, value in options.items()) for options in joined)
    settings = {"storage_options": server, "storage_client_options": clients}
    with feed_server(f"sqlite:///{tmp_path_factory.mktemp('clouds')}/lake.db", settings=settings) as started:
        with headwater.open(started.store_url) as engine:
            for name, emulator in emulators.items():
                engine.realm().create_catalog(name, storage_root=emulator.root)
        yield started


@pytest.mark.parametrize("storage", ["gcs", "azure"])
def test_a_table_lives_on(storage: str, served: FeedServer, emulators: Emulators) -> None:
    emulator = emulators[storage]
    client = RestCatalog(storage, uri=f"{served.url}/iceberg", warehouse=storage, **PYARROW, **emulator.secret)
    try:
        client.create_namespace("db")
        table = client.create_table("db.orders", ROWS.schema)
        assert emulator.plain.items() <= table.io.properties.items(), "the client was not told where the storage is"
        table.append(ROWS)
        table.append(ROWS)
        assert client.load_table("db.orders").scan().to_arrow().num_rows == 6
        assert table.metadata_location.startswith(f"{emulator.root}/db/orders-")
        client.drop_table("db.orders")
        assert not client.table_exists("db.orders")
        assert client.register_table("db.again", table.metadata_location).scan().to_arrow().num_rows == 6
    finally:
        client.close()
    answer = served_answer(served, storage)
    assert not [secret for secret in SECRETS if secret in answer or secret in served.log_text]


def served_answer(served: FeedServer, storage: str) -> str:
    """All that a client is told that asks for access to the files."""
    with iceberg_lake(f"{served.url}", storage) as lake:
        delegation = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
        loaded = lake.http.get("namespaces/db/tables/again", headers=delegation)
        credentials = lake.http.get("namespaces/db/tables/again/credentials")
        refused = lake.http.post("namespaces/db/tables", json=table_body("t", location="s3://elsewhere/x"))
    assert loaded.status_code == 200 and credentials.json() == {"storage-credentials": []} and refused.status_code == 400
    return loaded.text + credentials.text + refused.text


@pytest.mark.parametrize("storage", ["gcs", "azure"])
def test_files_are_read_within_the_bound_and_removed(
    storage: str, emulators: Emulators, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = emulators[storage]
    files, location = files_of(emulator.root, emulator.options), f"{emulator.root}/db/large"
    files.write_new(location, b"x" * 5_000)
    assert files.read(location) == b"x" * 5_000
    monkeypatch.setattr("headwater.service.storage.files.FILE_BYTES_MAX", 4_999)
    with pytest.raises(MalformedMetadata, match="more than 4999 bytes"):
        files.read(location)
    files.remove(location)
    assert not files.exists(location)
    with pytest.raises(FileMissing):
        files.read(location)


def test_a_refusal_by_azure_is_reported_without_its_message(emulators: Emulators) -> None:
    azure = emulators["azure"]
    wrong = {**azure.options, "adls.account-key": "d3Jvbmc="}
    with pytest.raises(StoreUnavailable) as refused:
        files_of(azure.root, wrong).write_new(f"{azure.root}/x", b"x")
    assert "cannot be written: AuthorizationFailure." in str(refused.value)
    assert "RequestId" not in str(refused.value)
