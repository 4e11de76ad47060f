"""docker-compose.yml says what the docs promise: loopback only, pinned versions, no password of ours, durable settings."""

from __future__ import annotations

import re

import pytest
import yaml

from headwater.dev.jars import JAR_SETS
from headwater.dev.kinds import USUAL
from tests.support.servers.containers import COMPOSE_FILE, compose_service

SERVICES = yaml.safe_load(COMPOSE_FILE.read_text())["services"]


def test_every_server_of_dev_up_is_a_service() -> None:
    assert set(USUAL) <= set(SERVICES)


@pytest.mark.parametrize("name", [*USUAL, "headwater"])
def test_ports_are_open_on_loopback_only(name: str) -> None:
    assert SERVICES[name]["ports"]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])


@pytest.mark.parametrize("name", USUAL)
def test_images_are_pinned_to_a_full_version(name: str) -> None:
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?", SERVICES[name]["image"])


@pytest.mark.parametrize("name", ["kafka", "cassandra", "registry"])
def test_images_and_jars_are_of_one_version(name: str) -> None:
    assert SERVICES[name]["image"].rpartition(":")[2] == JAR_SETS[name].coordinates[0].version


def test_no_password_is_written_down_and_a_missing_one_is_refused() -> None:
    passwords = [
        value for service in SERVICES.values() for key, value in service.get("environment", {}).items() if "PASSWORD" in key
    ]
    assert len(passwords) == 2
    assert all(re.fullmatch(r"\$\{POSTGRES_PASSWORD:\?[^}]+\}", value) for value in passwords)
    with pytest.raises(KeyError, match="POSTGRES_PASSWORD"):
        compose_service("postgres", {})


def test_postgres_syncs_every_commit_and_asks_for_the_password() -> None:
    service = compose_service("postgres", {"POSTGRES_PASSWORD": "x"})
    assert {"fsync=on", "synchronous_commit=on", "full_page_writes=on"} <= set(service["command"])
    assert service["environment"]["POSTGRES_HOST_AUTH_METHOD"] == "scram-sha-256"


def test_cassandra_syncs_its_commit_log_before_it_acknowledges() -> None:
    options = compose_service("cassandra", {})["environment"]["JVM_EXTRA_OPTS"].split()
    assert {
        "-Dcassandra.config.allow_system_properties=true",
        "-Dcassandra.settings.commitlog_sync=batch",
        "-Dcassandra.settings.commitlog_sync_period=0ms",
        "-Dcassandra.settings.paxos_variant=v2",
    } <= set(options)


def test_kafka_tells_clients_the_port_that_was_chosen() -> None:
    environment = compose_service("kafka", {"KAFKA_PORT": "20001"})["environment"]
    assert "HOST://127.0.0.1:20001" in environment["KAFKA_ADVERTISED_LISTENERS"]
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


@pytest.mark.parametrize("name", ["kafka", "cassandra", "postgres"])
def test_data_outlive_the_container(name: str) -> None:
    assert SERVICES[name]["volumes"]


def test_headwater_serves_on_a_store_that_is_made_first_and_asks_for_tokens() -> None:
    service = compose_service("headwater", {"POSTGRES_PASSWORD": "p"})
    assert service["command"][0] == "serve" and "--dev" not in service["command"]
    assert service["environment"]["HEADWATER_STORE"] == "postgresql://headwater:p@postgres:5432/headwater"
    assert service["depends_on"] == {"store": {"condition": "service_completed_successfully"}}
    assert SERVICES["store"]["command"] == ["store", "create"]
    assert SERVICES["postgres"]["configs"][0]["source"] in yaml.safe_load(COMPOSE_FILE.read_text())["configs"]
    with pytest.raises(KeyError, match="POSTGRES_PASSWORD"):
        compose_service("headwater", {})


def test_what_the_container_is_told_is_what_the_command_knows() -> None:
    """No Docker engine is needed for this: the flags of the service are parsed by the command itself."""
    from headwater.cli.operation.serve import command

    command.make_context("serve", list(SERVICES["headwater"]["command"][1:]), resilient_parsing=True)
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in SERVICES["headwater"]["command"] if word.startswith("--")} <= known


def test_the_image_runs_the_command_without_being_root() -> None:
    lines = (COMPOSE_FILE.parent / "Dockerfile").read_text().splitlines()
    assert re.fullmatch(r"FROM python:3\.\d+\.\d+-slim", lines[1]) and "USER headwater" in lines
    assert lines[-1] == 'ENTRYPOINT ["headwater"]'
