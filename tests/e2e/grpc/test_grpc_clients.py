"""`headwater.connect("grpc://…")` where it differs from HTTP on the wire: tokens, streams, large Changes, pages of states."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

import headwater
from headwater import IcebergTable, Namespace, Put
from headwater.client.remote import RemoteCatalog, RemoteHeadwater, RemoteReference
from headwater.schemas.errors import CatalogNotFound, FeedUnreachable, InvalidInput, NotAuthenticated
from tests.support.fixtures.grpc_rig import GrpcRig, grpc_rig
from tests.support.servers.ports import free_port

TABLES = 3_000
LOCATION = "s3://lake/" + "x" * 400
"""So that one commit of all tables is larger than a frame."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcRig]:
    with grpc_rig(tmp_path_factory.mktemp("grpc-clients")) as made:
        yield made


@pytest.fixture(scope="module")
def engine(port: GrpcRig) -> Iterator[RemoteHeadwater]:
    root = port.rig.roots["alpha"]
    with headwater.connect(port.url, client_id=root.client_id, client_secret=root.client_secret) as connected:
        yield connected


@pytest.fixture
def lake(engine: RemoteHeadwater) -> RemoteCatalog:
    return engine.realm("alpha").catalog("lake")


_numbers = itertools.count(1)


@pytest.fixture
def branch(lake: RemoteCatalog) -> RemoteReference:
    return lake.create_branch(f"of-client-{next(_numbers)}")


def test_a_clients_id_and_secret_are_proof_and_a_wrong_secret_is_none(port: GrpcRig, lake: RemoteCatalog) -> None:
    assert lake.branch().info().name == "main"
    root = port.rig.roots["alpha"]
    wrong = headwater.connect(port.url, client_id=root.client_id, client_secret="guessed")
    with wrong, pytest.raises(NotAuthenticated):
        wrong.realm("alpha")
    with headwater.connect(port.url) as nobody, pytest.raises(NotAuthenticated):
        nobody.realm("alpha")


def test_a_method_without_grpc_is_refused_with_the_http_address(engine: RemoteHeadwater) -> None:
    with pytest.raises(InvalidInput, match="http://"):
        list(engine.manage("alpha").principals())


def test_a_closed_port_is_unreachable_and_nothing_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.client.server_calls.CALL_TRIES_MAX", 1)
    with headwater.connect(f"grpc://127.0.0.1:{free_port()}") as nowhere, pytest.raises(FeedUnreachable) as refused:
        nowhere.realm("alpha")
    assert refused.value.facts["sent"] is False


def test_catalogs_are_created_changed_and_dropped(engine: RemoteHeadwater) -> None:
    realm = engine.realm("alpha")
    realm.create_catalog("second")
    manage = engine.manage("alpha")
    changed = manage.update_catalog("second", storage_root=None, properties={"team": "a"})
    assert (changed.properties, "second" in realm.catalogs()) == ({"team": "a"}, True)
    realm.drop_catalog("second")
    with pytest.raises(CatalogNotFound):
        realm.catalog("second")


def test_a_change_larger_than_a_frame_is_whole_by_every_way(lake: RemoteCatalog, branch: RemoteReference) -> None:
    operations = [Put(("db", f"t{number:05}"), IcebergTable(f"{LOCATION}{number}")) for number in range(TABLES)]
    done = branch.commit([Put(("db",), Namespace()), *operations])
    assert done.change is not None and len(done.change.operations) == TABLES + 1
    small = branch.commit([Put(("other",), Namespace())]).change
    assert list(branch.changes(done.seq - 1)) == [done.change, small]
    streamed = branch.reader(done.seq - 1, stream=True).changes(follow=True)
    assert list(itertools.islice(streamed, 2)) == [done.change, small]
    assert list(itertools.islice(lake.log(branch.name), 2)) == [small, done.change]
    assert [one for one in lake.reference_log() if one.pointer == branch.pointer][:2] == [small, done.change]


def test_a_state_of_many_keys_comes_in_pages_in_order(branch: RemoteReference) -> None:
    branch.commit([Put(("db",), Namespace()), *(Put(("db", f"t{n:04}"), IcebergTable(f"s3://{n}")) for n in range(1_200))])
    snapshot = branch.snapshot()
    branch.commit([Put(("later",), Namespace())])
    assert [entry.key for entry in snapshot] == [("db",), *(("db", f"t{n:04}") for n in range(1_200))]
    assert [change.operations[0].key for change in branch.changes(snapshot.cursor)] == [("later",)]


def test_a_stream_continues_with_later_commits(branch: RemoteReference) -> None:
    reader = branch.reader("latest", stream=True)
    reader.begin()
    for number in range(3):
        branch.commit([Put((f"n{number}",), Namespace())])
    seen = list(itertools.islice(reader.changes(follow=True), 3))
    assert [one.operations[0].key for one in seen] == [("n0",), ("n1",), ("n2",)]


def test_a_named_subscription_is_read_acknowledged_and_rewound(engine: RemoteHeadwater, branch: RemoteReference) -> None:
    branch.commit([Put(("first",), Namespace())])
    named = engine.realm("alpha").subscription(branch.name)
    made = named.create([branch.pointer], "earliest", pin_seconds=60)
    assert made == named.create([branch.pointer], "earliest", pin_seconds=60)
    every = list(branch.changes())
    assert list(named.changes(follow=False)) == every
    assert list(named.changes(follow=False)) == []
    assert named.info().lag == {branch.pointer: 0}
    named.rewind("earliest")
    assert list(named.changes(follow=False)) == every
    named.delete()
