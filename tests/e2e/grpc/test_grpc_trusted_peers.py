"""`x-principal-bin` over real mTLS: read from the peers that the settings name, and from nobody else."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from headwater.producer.access.principals import Principals
from headwater.producer.access.rights import Right
from headwater.schemas.rpc import common_pb2, feed_pb2, namespace_pb2
from headwater.schemas.rpc.services import Stub
from tests.support.fixtures.access_rig import META
from tests.support.fixtures.grpc_rig import SECONDS, GrpcRig, bearer, grpc_rig
from tests.support.servers.self_signed import self_signed, signed_by

GATEWAY = "gateway.example.com"
OK, UNAUTHENTICATED = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED
Connect = Callable[..., grpc.Channel]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trusted-peers")


@pytest.fixture(scope="module")
def authority(folder: Path) -> tuple[str, str]:
    (folder / "authority").mkdir()
    return self_signed(folder / "authority")


@pytest.fixture(scope="module")
def port(folder: Path, authority: tuple[str, str]) -> Iterator[GrpcRig]:
    (folder / "server").mkdir()
    certificate, key = self_signed(folder / "server")
    tls = {"tls_certificate": certificate, "tls_key": key, "grpc_client_ca": authority[0]}
    with grpc_rig(folder, **tls, grpc_trusted_peers=frozenset({GATEWAY})) as made:
        made.rig.principal("alpha", "reader", Right.NAMESPACE_READ)
        made.rig.principal("alpha", "nobody")
        made.rig.commit("alpha", ("db",)).raise_for_status()
        yield made


@pytest.fixture(scope="module")
def connect(port: GrpcRig, folder: Path, authority: tuple[str, str]) -> Iterator[Connect]:
    """A channel of a client with a certificate of these names, signed by the authority."""
    channels: list[grpc.Channel] = []

    def made(*names: str, common_name: str = "client", by: tuple[str, str] = authority) -> grpc.Channel:
        place = folder / f"client-{len(channels)}"
        place.mkdir()
        certificate, key = (Path(file).read_bytes() for file in signed_by(by, place, *names, common_name=common_name))
        trusted = Path(port.rig.config.tls_certificate).read_bytes()
        credentials = grpc.ssl_channel_credentials(trusted, key, certificate)
        channels.append(grpc.secure_channel(f"127.0.0.1:{port.rig.config.grpc_port}", credentials))
        return channels[-1]

    yield made
    for channel in channels:
        channel.close()


def named(principal: str, realm: str = "alpha") -> tuple[str, bytes]:
    return "x-principal-bin", common_pb2.PrincipalContext(realm=realm, principal=principal).SerializeToString()


def status(act: Callable[[], object]) -> grpc.StatusCode:
    try:
        act()
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return OK


def list_namespaces(channel: grpc.Channel, *metadata: tuple[str, str | bytes]) -> grpc.StatusCode:
    request = namespace_pb2.ListNamespacesRequest(catalog="lake")
    return status(lambda: Stub(channel, "NamespaceService").ListNamespaces(request, metadata=metadata, timeout=SECONDS))


def create_namespace(channel: grpc.Channel, name: str, *metadata: tuple[str, str | bytes]) -> grpc.StatusCode:
    request = namespace_pb2.CreateNamespaceRequest(name=common_pb2.Name(catalog="lake", path=[name]))
    return status(lambda: Stub(channel, "NamespaceService").CreateNamespace(request, metadata=metadata, timeout=SECONDS))


def test_a_trusted_peer_acts_with_the_rights_of_the_principal_that_it_names(port: GrpcRig, connect: Connect) -> None:
    gateway = connect(GATEWAY)
    assert list_namespaces(gateway, named("reader")) is OK
    assert create_namespace(gateway, "by-reader", named("reader")) is DENIED
    assert list_namespaces(gateway, named("nobody")) is DENIED
    assert create_namespace(gateway, "by-root", named("root")) is OK
    [change] = [one for one in _changes(gateway, named("root")) if ["by-root"] in [list(op.key) for op in one.operations]]
    assert change.author == "root"
    assert list_namespaces(gateway, named("root"), ("x-headwater-realm", "beta")) is DENIED, "it is of another realm"
    for absent in (named("ghost"), named("reader", "nowhere"), named("")):
        assert list_namespaces(gateway, absent) is UNAUTHENTICATED
    assert list_namespaces(gateway) is UNAUTHENTICATED, "the peer itself is nobody"
    assert list_namespaces(gateway, ("x-principal-bin", b"\xff\xff")) is grpc.StatusCode.INVALID_ARGUMENT


def test_a_forged_principal_is_refused_even_with_a_valid_token(port: GrpcRig, connect: Connect) -> None:
    token = bearer(port.rig.token("alpha"))
    strangers = [connect("other.example.com"), connect(common_name=GATEWAY), connect(f"evil-{GATEWAY}", f"{GATEWAY}.evil")]
    for stranger in strangers:
        assert list_namespaces(stranger, token) is OK, "its connection is good, and a token is one for anybody"
        assert list_namespaces(stranger, named("root")) is UNAUTHENTICATED
        assert list_namespaces(stranger, named("root"), token) is UNAUTHENTICATED
    gateway = connect(GATEWAY, "another.example.com")
    assert list_namespaces(gateway, token) is OK
    assert list_namespaces(gateway, named("reader"), token) is UNAUTHENTICATED, "two proofs are none"


def test_a_certificate_of_another_authority_with_the_trusted_name_does_not_connect(
    folder: Path, port: GrpcRig, connect: Connect
) -> None:
    (folder / "forger").mkdir()
    forged = connect(GATEWAY, by=self_signed(folder / "forger"))
    assert list_namespaces(forged, named("root")) is grpc.StatusCode.UNAVAILABLE


def test_a_stream_ends_once_the_named_principal_is_gone(port: GrpcRig, connect: Connect) -> None:
    port.rig.principal("alpha", "leaving", Right.FEED_READ)
    gateway, principals = connect(GATEWAY), Principals(port.rig.kernel("alpha"))
    request = feed_pb2.SubscribeRequest(source=feed_pb2.FeedSource(catalog="lake"), after="earliest")
    stream = Stub(gateway, "FeedService").Subscribe(request, metadata=[named("leaving")], timeout=SECONDS)
    assert next(iter(stream)).frame.changes
    principals.delete("leaving", meta=META)
    deadline, number = time.monotonic() + SECONDS, 0
    with pytest.raises(grpc.RpcError) as ended:
        while time.monotonic() < deadline:
            number += 1
            port.rig.commit("alpha", (f"after-{number}",)).raise_for_status()
            next(stream)
    assert ended.value.code() in (UNAUTHENTICATED, DENIED)
    assert list_namespaces(gateway, named("leaving")) is UNAUTHENTICATED


def test_peers_without_an_authority_are_refused_in_one_line(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'lake.db'}"
    settings = ("--set", "grpc_port=18182", "--set", f"grpc_trusted_peers={GATEWAY}")
    command = [sys.executable, "-m", "headwater", *settings, "serve", "--dev", "--store", store]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 2
    [line] = [one for one in ended.stderr.splitlines() if one.startswith("error")]
    assert "grpc_trusted_peers" in line and "Traceback" not in ended.stderr


def _changes(channel: grpc.Channel, *metadata: tuple[str, str | bytes]) -> list[feed_pb2.SubscribeResponse]:
    request = feed_pb2.GetChangesRequest(source=feed_pb2.FeedSource(catalog="lake"), after="earliest")
    answer = Stub(channel, "FeedService").GetChanges(request, metadata=metadata, timeout=SECONDS)
    return list(answer.changes if hasattr(answer, "changes") else answer.frame.changes)
