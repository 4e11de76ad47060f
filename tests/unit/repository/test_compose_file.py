"""docker-compose.yml says what the docs promise: loopback only, pinned versions, no password of ours, durable settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import rich_click as click
import yaml

from headwater.cli.main import load_command
from headwater.dev.jars import JAR_SETS
from headwater.dev.kinds import USUAL
from headwater.dev.registry import API_PATH
from headwater.settings import ENV_PREFIX, Settings, load_settings
from headwater.up.managed import ManagedCommand
from headwater.up.system import SystemOptions, make_system
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


def test_kafka_advertises_the_chosen_port() -> None:
    environment = compose_service("kafka", {"KAFKA_PORT": "20001"})["environment"]
    assert "HOST://127.0.0.1:20001" in environment["KAFKA_ADVERTISED_LISTENERS"]
    assert environment["KAFKA_AUTO_CREATE_TOPICS_ENABLE"] == "false"


@pytest.mark.parametrize("name", ["kafka", "cassandra", "postgres"])
def test_data_outlive_the_container(name: str) -> None:
    assert SERVICES[name]["volumes"]


OURS = ("headwater", "publisher", "views", "stream", "store")


def test_headwater_serves_on_a_store_that_is_made_first_and_asks_for_tokens() -> None:
    service = compose_service("headwater", {"POSTGRES_PASSWORD": "p"})
    assert service["command"][0] == "serve" and "--dev" not in service["command"]
    assert service["environment"]["HEADWATER_STORE"] == "postgresql://headwater:p@postgres:5432/headwater"
    assert service["depends_on"] == {"realm": {"condition": "service_completed_successfully"}}
    assert SERVICES["realm"]["depends_on"] == {"store": {"condition": "service_completed_successfully"}}
    assert SERVICES["store"]["command"] == ["store", "create"]
    assert SERVICES["postgres"]["configs"][0]["source"] in yaml.safe_load(COMPOSE_FILE.read_text())["configs"]


@pytest.mark.parametrize("name", [*OURS, "realm"])
def test_nothing_of_ours_starts_without_a_password(name: str) -> None:
    with pytest.raises(KeyError, match="POSTGRES_PASSWORD"):
        compose_service(name, {})


@pytest.mark.parametrize("name", OURS)
def test_the_settings_of_a_container_are_known_to_its_command(name: str) -> None:
    """No Docker engine is needed for this: the words of the service are parsed by the command itself."""
    words = list(SERVICES[name]["command"])
    command = load_command(words[0])
    context = command.make_context(words[0], words[1:], resilient_parsing=True)
    if isinstance(command, click.Group):
        _, found, _ = command.resolve_command(context, words[1:])
        assert found is not None
        return
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("name", [*OURS, "realm"])
def test_variables_of_a_container_are_settings(name: str) -> None:
    given = compose_service(name, {"POSTGRES_PASSWORD": "p"})["environment"]
    assert {variable.removeprefix(ENV_PREFIX).lower() for variable in given} <= set(Settings.__struct_fields__)
    settings = load_settings(environ=given)
    assert settings.store.startswith("postgresql://") and settings.kafka_bootstrap == "kafka:19092"
    assert settings.kafka_registry_url.endswith(API_PATH)


def test_the_same_processes_run_as_with_headwater_up(tmp_path: Path) -> None:
    system = make_system(load_settings(environ={}), SystemOptions(folder=tmp_path, port=0))
    names = {"server": "headwater"}
    assert {names.get(one.name, one.name) for one in system.processes} <= set(SERVICES)
    for one in system.processes:
        if one.name in ("kafka", "registry"):
            continue
        # Each is ready when the same path answers.
        words = SERVICES[names.get(one.name, one.name)]["healthcheck"]["test"]
        assert isinstance(one, ManagedCommand) and one.ready_path in words[-1]


@pytest.mark.parametrize("name", [*USUAL, "headwater", "publisher", "views", "stream"])
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


def test_kafka_advertises_the_listener_that_containers_use() -> None:
    environment = compose_service("kafka", {})["environment"]
    assert (
        f"INSIDE://{SERVICES['stream']['environment']['HEADWATER_KAFKA_BOOTSTRAP']}"
        in environment["KAFKA_ADVERTISED_LISTENERS"]
    )


def test_the_stream_runs_in_the_image_with_java_and_keeps_its_sets() -> None:
    assert SERVICES["stream"]["build"]["target"] == "headwater-spark"
    folder = SERVICES["stream"]["environment"]["HEADWATER_MAINTENANCE_DIR"]
    assert SERVICES["stream"]["volumes"] == [f"sets:{folder}"]
    text = (COMPOSE_FILE.parent / "Dockerfile").read_text()
    assert "openjdk-17-jre-headless" in text and "spark]" in text
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    assert targets == {SERVICES[name]["build"]["target"] for name in (*OURS, "realm")}


def test_the_image_runs_the_command_without_being_root() -> None:
    lines = (COMPOSE_FILE.parent / "Dockerfile").read_text().splitlines()
    assert re.fullmatch(r"FROM python:3\.\d+\.\d+-slim-bookworm AS headwater", lines[1])
    users = [line for line in lines if line.startswith("USER ")]
    assert users[0] == users[-1] == "USER headwater" and lines[-1] == 'ENTRYPOINT ["headwater"]'


def test_compose_itself_takes_the_file_where_it_is_installed() -> None:
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode
    ):
        return  # the tests above have checked what can be checked without it
    command = ["docker", "compose", "-f", str(COMPOSE_FILE), "config", "--quiet"]
    done = subprocess.run(command, env={**os.environ, "POSTGRES_PASSWORD": "p"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
