"""Publisher and readers on a broker that lets nobody in without TLS and a password, a token or a certificate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as library
from headwater.dev.secure.kafka_secure import SecureKafka, certificate_settings, tls_folder, user_settings
from headwater.dev.server import Server, running
from headwater.dev.state import ServerRecord
from headwater.schemas.errors import InvalidInput
from headwater.settings import load_settings
from headwater.wiring.kafka_client import kafka_client
from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.fixtures.publisher_runs import new_lake, put
from tests.support.servers.token_endpoint import token_endpoint

COMMITS = 3
Given = dict[str, str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerRecord]:
    with running(SecureKafka.name, tmp_path_factory.mktemp("secure")) as server:
        assert isinstance(server, Server)
        yield server.record


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/lake.db"
    with library.open(url, create=True) as engine:
        for number in range(COMMITS):
            new_lake(engine).branch().commit([put("t", number)])
    return url


@contextlib.contextmanager
def settings_for(record: ServerRecord, how: str) -> Iterator[Given]:
    if how == "certificate":
        yield certificate_settings(record)
    elif how == "OAUTHBEARER":
        with token_endpoint("headwater", "s3cret") as endpoint:
            given = user_settings(record, how)
            yield {**given, "kafka_sasl_password": "s3cret", "kafka_oauth_token_url": endpoint, "kafka_oauth_scope": "kafka"}
    else:
        yield user_settings(record, how)


def run(url: str, given: Given, *arguments: str) -> CliRun:
    flags = [flag for name, value in given.items() for flag in ("--set", f"{name}={value}")]
    return headwater("--store", url, *flags, *arguments)


@pytest.mark.parametrize("how", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"])
def test_publisher_and_readers_connect_with_the_same_settings(url: str, broker: ServerRecord, how: str) -> None:
    with settings_for(broker, how) as given:
        address = given["kafka_bootstrap"]
        assert run(url, given, "publish", "--kafka", address, "--once", "--tables").code == 0
        read = run(url, given, "subscribe", "--kafka", address, "--pointer", "cat/1/heads/main", "--json")
        assert len(read.succeeded().out.splitlines()) == COMMITS + 1
        assert run(url, given, "subscribe", "--kafka", address, "--group", f"g-{how}", "--json").code == 0
        assert run(url, given, "audit", "verify", "--kafka", address).code == 0


COMMANDS = {
    "publish": ("publish", "--once"),
    "subscribe": ("subscribe",),
    "audit": ("audit", "verify"),
    "stream": ("stream", "--once"),
}


def run_on(url: str, given: Given, command: str, bootstrap: str) -> CliRun:
    if command == "stream":  # reads the brokers of the setting
        return run(url, {**given, "kafka_bootstrap": bootstrap}, *COMMANDS[command], "--kafka")
    return run(url, given, *COMMANDS[command], "--kafka", bootstrap)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_refused_client_reports_the_reason_in_one_line(url: str, broker: ServerRecord, command: str) -> None:
    user, certificate, folder = user_settings(broker), certificate_settings(broker), tls_folder(broker)
    refused: list[tuple[Given, str]] = [
        ({**user, "kafka_sasl_password": "wrong"}, "kafka_sasl_password"),
        ({**user, "kafka_sasl_mechanism": "PLAIN", "kafka_sasl_password": "wrong"}, "kafka_sasl_password"),
        ({**user, "kafka_ssl_ca_location": str(folder / "other-ca.pem")}, "kafka_ssl_ca_location"),
        ({**user, "kafka_ssl_ca_location": str(folder / "nothing.pem")}, "kafka_ssl_ca_location"),
        ({**user, "kafka_ssl_ca_location": str(folder / "client.key")}, "kafka_ssl_ca_location"),
        ({**certificate, "kafka_ssl_key_location": str(folder / "server.key")}, "kafka_ssl_key_location"),
    ]
    for given, field in refused:
        found = run_on(url, given, command, given["kafka_bootstrap"])
        assert field in found.error, (given, found.error)


def test_a_plaintext_client_gets_the_security_protocol_as_remedy(url: str, broker: ServerRecord) -> None:
    found = run(url, {}, "subscribe", "--kafka", broker.address)
    assert "KAFKA_UNAVAILABLE" in found.error and "kafka_security_protocol" in found.error


def test_tls_on_a_plaintext_broker_is_refused_and_never_dropped(url: str, kafka_bootstrap: str, broker: ServerRecord) -> None:
    given = {"kafka_security_protocol": "ssl", "kafka_ssl_ca_location": str(tls_folder(broker) / "ca.pem")}
    for command in ("publish", "subscribe", "stream"):
        assert "KAFKA_" in run_on(url, given, command, kafka_bootstrap).error


def test_settings_that_cannot_be_honoured_are_refused_before_anything_is_connected_to(broker: ServerRecord) -> None:
    user, certificate = user_settings(broker), certificate_settings(broker)
    wrong: list[tuple[Given, str]] = [
        ({**user, "kafka_security_protocol": "ssl"}, "kafka_sasl_mechanism"),
        ({**certificate, "kafka_security_protocol": ""}, "kafka_ssl_ca_location"),
        ({**user, "kafka_sasl_password": ""}, "kafka_sasl_password"),
        ({**user, "kafka_sasl_mechanism": ""}, "kafka_sasl_mechanism"),
        ({**user, "kafka_sasl_mechanism": "OAUTHBEARER"}, "kafka_oauth_token_url"),
        ({**user, "kafka_oauth_scope": "x"}, "kafka_oauth_scope"),
        ({**certificate, "kafka_ssl_key_location": ""}, "kafka_ssl_key_location"),
        ({**user, "kafka_client": "sasl.username=other"}, "kafka_client"),
        ({**user, "kafka_client": "acks=0"}, "kafka_client"),
    ]
    for given, field in wrong:
        with pytest.raises(InvalidInput) as refused:
            kafka_client(load_settings(given))
        assert refused.value.field == field, given
    with pytest.raises(InvalidInput):
        load_settings({"kafka_security_protocol": "tls"})
    assert "hidden" not in headwater("--set", "kafka_sasl_password=hidden", "settings").out


def test_the_same_client_is_spelled_for_each_library(broker: ServerRecord) -> None:
    client = kafka_client(load_settings({**user_settings(broker), "kafka_client": "client.rack=a"}))
    assert client.librdkafka()["sasl.password"] == broker.password and client.librdkafka()["client.rack"] == "a"
    assert client.aiokafka()["sasl_plain_password"] == broker.password
    assert f'password="{broker.password}"' in client.java()["sasl.jaas.config"]
    assert client.java()["ssl.truststore.certificates"] == Path(client.ca).read_text()
