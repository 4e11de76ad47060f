"""A store on a Cassandra that lets nobody in without TLS and a client's certificate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headwater as library
from headwater.dev.secure.cassandra_secure import SecureCassandra
from headwater.dev.secure.certificates import tls_folder
from headwater.dev.server import Server, running
from tests.support.fixtures.cli_runs import headwater
from tests.support.fixtures.publisher_runs import new_lake, put


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(SecureCassandra.name, tmp_path_factory.mktemp("secure")) as started:
        yield started


def test_a_store_over_tls_accepts_commits_and_shows_them(server: Server) -> None:
    with library.open(server.url, create=True) as engine:
        committed = new_lake(engine).branch().commit([put("t", 1)])
    shown = headwater("--store", server.url, "changes", "--after", "earliest", "--json").succeeded().out
    assert committed.commit_id in shown


def test_a_refused_client_reports_the_reason_in_one_line(server: Server) -> None:
    plain, folder = server.url.partition("?")[0], tls_folder(server.record)
    ca, certificate = f"tls_ca={folder}/ca.pem", f"tls_certificate={folder}/client.pem"
    refused = {
        plain: "STORE_UNAVAILABLE",
        f"{plain}?tls=require&{ca}": "STORE_UNAVAILABLE",
        f"{plain}?tls=require&tls_ca={folder}/other-ca.pem": "CERTIFICATE_VERIFY_FAILED",
        f"{plain}?tls=require&tls_ca={folder}/nothing.pem": "tls_ca",
        f"{plain}?tls=require&{ca}&{certificate}&tls_key={folder}/server.key": "tls_key",
        f"{plain}?tls=require&{ca}&{certificate}": "go together",
        f"{plain}?{ca}": "tls=require",
        f"{plain}?tls=yes": "'off' or 'require'",
    }
    for url, reason in refused.items():
        assert reason in headwater("--store", url, "realm", "list").error, url
