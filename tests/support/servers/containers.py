"""Runs the servers of docker-compose.yml as test containers, where a Docker engine answers.

A container is asked for readiness and address by the code that asks local processes, so tests cannot tell the two apart.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from headwater.dev.kinds import kind_named
from headwater.dev.server import START_TIMEOUT_SECONDS
from headwater.dev.state import LOOPBACK, ServerRecord, free_ports

COMPOSE_FILE = Path(__file__).parent.parent.parent.parent / "docker-compose.yml"
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*)|:\?(?P<complaint>[^}]*))?\}")


@functools.cache
def docker_answers() -> bool:
    """HEADWATER_TEST_DOCKER=0 keeps tests on local processes although there is an engine."""
    if os.environ.get("HEADWATER_TEST_DOCKER") == "0":
        return False
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    if host.scheme != "unix":
        return True  # whoever names a remote engine means it
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(host.path)
        connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        return b" 200 " in connection.recv(64)
    return False


def compose_service(name: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """A service of docker-compose.yml with its variables filled in as Compose does."""

    def value(match: re.Match[str]) -> str:
        given = variables.get(match["name"]) or match["default"]
        if given is None:
            raise KeyError(f"{match['name']}: {match['complaint']}")
        return given

    text = yaml.safe_dump(yaml.safe_load(COMPOSE_FILE.read_text())["services"][name])
    service: dict[str, Any] = yaml.safe_load(VARIABLE.sub(value, text))
    return service


class ContainerServer:
    """What tests use of `headwater.dev.server.Server`, on a container."""

    def __init__(self, name: str) -> None:
        from testcontainers.core.container import DockerContainer

        self.name, self.kind = name, kind_named(name)
        self.record = ServerRecord(name, "", "", {"main": free_ports(1)[0]}, secrets.token_urlsafe(24))
        variables = {f"{name.upper()}_PORT": str(self.record.ports["main"]), "POSTGRES_PASSWORD": self.record.password}
        service = compose_service(name, variables)
        self.container = DockerContainer(str(service["image"]))
        if name != "registry":  # alone it keeps its schemas in memory; in Compose it uses the PostgreSQL beside it
            self.container.with_envs(**service["environment"])
        if command := service.get("command"):
            self.container.with_command(command)
        inside = str(service["ports"]).rstrip("']").rpartition(":")[2]
        self.container.ports[inside] = (LOOPBACK, self.record.ports["main"])

    @property
    def url(self) -> str:
        return self.kind.url(self.record)

    @property
    def pid(self) -> int:
        wrapped = self.container.get_wrapped_container()
        wrapped.reload()
        return int(wrapped.attrs["State"]["Pid"])

    def kill9(self) -> None:
        self.container.get_wrapped_container().kill()

    def restart(self) -> None:
        self.container.get_wrapped_container().restart()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.kind.is_ready(self.record):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not answer: {self.container.get_logs()!r}")
            time.sleep(0.2)


@contextmanager
def running_container(name: str) -> Iterator[ContainerServer]:
    server = ContainerServer(name)
    with server.container:
        server.wait_until_ready()
        yield server
