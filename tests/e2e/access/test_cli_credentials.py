"""Commands and clients renew their tokens, and trust the certificates that they are told to."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import headwater
from headwater.consumers.clients.client_credentials import ClientCredentials
from headwater.schemas.errors import InvalidInput
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.self_signed import self_signed


class Guarded(NamedTuple):
    server: FeedServer
    store: str
    certificate: str
    client: tuple[str, str]

    @property
    def flags(self) -> list[str]:
        sets = [f"server_client_id={self.client[0]}", f"server_client_secret={self.client[1]}"]
        return [part for one in sets for part in ("--set", one)]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server over TLS with a certificate that nobody signed, which asks for tokens."""
    folder = tmp_path_factory.mktemp("guarded")
    store = f"sqlite:///{folder}/lake.db"
    run_cli("--store", store, "store", "create").succeeded()
    made = run_cli("--store", store, "realm", "create", "default", "--init", "--json").json
    run_cli("--store", store, "catalog", "create", "lake").succeeded()
    certificate, key = self_signed(folder)
    flags = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    with feed_server(store, *flags, dev=False, certificate=str(certificate)) as server:
        yield Guarded(server, store, str(certificate), (made["client_id"], made["client_secret"]))


def test_a_certificate_that_is_not_trusted_is_named_with_the_option_that_helps(guarded: Guarded) -> None:
    server = ["--server", guarded.server.url]
    refused = run_cli(*guarded.flags, "catalog", "list", *server).error
    assert "certificate" in refused and "--ca" in refused
    listed = run_cli(*guarded.flags, "catalog", "list", *server, "--ca", guarded.certificate, "--json").json
    assert [one["name"] for one in listed["catalogs"]] == ["lake"]
    token = run_cli(*guarded.flags, "token", *server, "--ca", guarded.certificate).succeeded().out.strip()
    again = run_cli("--set", f"server_token={token}", "catalog", "list", *server, "--ca", guarded.certificate)
    assert "lake" in again.succeeded().out
    with (
        headwater.connect(guarded.server.url, client_id=guarded.client[0], client_secret=guarded.client[1]) as engine,
        pytest.raises(InvalidInput, match="not trusted"),
    ):
        engine.realm()


def test_a_follower_outlives_its_tokens(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is over at once is fetched again for every request: the follower continues all the same."""
    ticks = itertools.count(step=10_000)
    monkeypatch.setattr(ClientCredentials.__init__, "__defaults__", (lambda: float(next(ticks)),))
    options = {"client_id": guarded.client[0], "client_secret": guarded.client[1], "ca": guarded.certificate}
    with headwater.connect(guarded.server.url, **options) as engine:
        main = engine.realm().catalog("lake").branch()
        seen = []
        for change in main.changes("latest", follow=False):
            seen.append(change)
        first = main.commit([headwater.Put(("followed",), headwater.Namespace())])
        for change in main.changes(first.seq - 1, follow=True):
            seen.append(change)
            break
    assert [change.commit_id for change in seen] == [first.commit_id]
    assert next(ticks) > 30_000, "no request had a token that was over"


def test_a_command_follows_with_a_clients_secret(guarded: Guarded) -> None:
    command = [sys.executable, "-m", "headwater", *guarded.flags, "subscribe", "--server", guarded.server.url]
    command += ["--ca", guarded.certificate, "--after", "earliest", "--follow", "--limit", "1", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["kind"] == "create"


def test_a_file_without_certificates_is_refused(guarded: Guarded, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for file in ("empty.pem", "none.pem"):
        flags = ["--server", guarded.server.url, "--ca", str(tmp_path / file)]
        assert "no certificates" in run_cli(*guarded.flags, "catalog", "list", *flags).error
