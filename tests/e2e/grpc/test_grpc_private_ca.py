"""`headwater.connect("grpcs://…")`: the server's certificate is signed by an authority that only the client's `ca` names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater import Namespace, Put
from headwater.schemas.errors import FeedUnreachable, InvalidInput
from tests.support.fixtures.cli_runs import headwater as command
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port
from tests.support.servers.self_signed import self_signed, signed_by


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("private-ca")


@pytest.fixture(scope="module")
def authority(folder: Path) -> tuple[str, str]:
    (folder / "authority").mkdir()
    return self_signed(folder / "authority")


@pytest.fixture(scope="module")
def server(folder: Path, authority: tuple[str, str]) -> Iterator[FeedServer]:
    (folder / "server").mkdir()
    certificate, key = signed_by(authority, folder / "server")
    tls = ("--tls-certificate", certificate, "--tls-key", key)
    settings = {"grpc_port": free_port()}
    with feed_server(f"sqlite:///{folder / 'lake.db'}", *tls, settings=settings, certificate=authority[0]) as made:
        yield made


def test_a_client_that_trusts_the_authority_commits_and_reads(server: FeedServer, authority: tuple[str, str]) -> None:
    assert server.grpc_url.startswith("grpcs://")
    with headwater.connect(server.grpc_url, ca=authority[0]) as engine:
        main = engine.realm().catalog("lake").branch()
        main.commit([Put(("private",), Namespace())], message="over TLS")
        assert [change.message for change in main.changes()][-1] == "over TLS"
    run = command("subscribe", "--server", server.grpc_url, "--ca", authority[0], "--json").succeeded()
    assert json.loads(run.out.splitlines()[-1])["message"] == "over TLS"


@pytest.mark.parametrize("trusted", ["nobody in particular", "another authority"])
def test_a_client_that_does_not_trust_it_sends_nothing(
    server: FeedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    monkeypatch.setattr("headwater.client.server_calls.CALL_TRIES_MAX", 1)
    ca = self_signed(tmp_path)[0] if trusted == "another authority" else ""
    with headwater.connect(server.grpc_url, ca=ca) as engine, pytest.raises((InvalidInput, FeedUnreachable)) as refused:
        engine.realm()
    assert str(refused.value).count(server.grpc_url) == 1


def test_a_ca_that_holds_no_certificates_is_refused(server: FeedServer, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused, headwater.connect(server.grpc_url, ca=str(tmp_path / "none.pem")) as engine:
        engine.realm()
    assert refused.value.field is not None and "ca" in refused.value.field
