"""The whole system as a list of processes: store, Kafka, registry, server, publisher, views and stream."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from headwater.dev.java import java_program
from headwater.dev.state import LOOPBACK, free_ports, is_free
from headwater.schemas.errors import InvalidInput
from headwater.settings import ENV_PREFIX, Settings
from headwater.up.managed import Managed, ManagedCommand, ManagedServer

STORE_FILE = "lake.db"
Database = Literal["sqlite", "postgres", "cassandra"]
SMALL_SPARK = {
    "spark_master": "local[2]",
    "spark_driver_memory": "1g",
    "spark_conf": "spark.sql.shuffle.partitions=2 spark.sql.adaptive.enabled=false "
    "spark.sql.streaming.noDataMicroBatches.enabled=false spark.ui.enabled=false",
}
"""For little data on a machine that runs everything; the user's own settings win."""


class SystemOptions(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    database: Database = "sqlite"
    port: int = 8181
    """Port of the server; 0 picks a free one."""
    every_seconds: float = 1.0
    """Seconds between two rounds of the stream."""
    hours: float = 6.0
    """Hours between two runs of expiry, purge and sweep."""


class System(msgspec.Struct, frozen=True, kw_only=True):
    processes: list[Managed]
    settings: dict[str, str]
    """The environment that a command on this machine needs to work on this system."""
    server: str
    kafka: str
    registry: str
    views: str
    publisher: str
    stream: str


def make_system(settings: Settings, options: SystemOptions) -> System:
    """Nothing is started yet; ports and passwords are known."""
    java_program()
    folder, jar_cache = options.folder.absolute(), Path(settings.jar_cache_dir)
    port = options.port or free_ports(1)[0]
    if not is_free(port):
        raise InvalidInput(f"{LOOPBACK}:{port} is in use.", field="--port", remedy="Name another one; 0 takes a free one.")
    servers = {name: ManagedServer(name, folder, jar_cache) for name in ("kafka", "registry")}
    if options.database != "sqlite":
        servers[options.database] = ManagedServer(options.database, folder, jar_cache)
    server, publisher, views, stream = (f"http://{LOOPBACK}:{number}" for number in (port, *free_ports(3)))
    system = System(
        processes=[],
        settings=_environment(settings)
        | {
            "HEADWATER_STORE": _store_url(options, servers),
            "HEADWATER_KAFKA_BOOTSTRAP": servers["kafka"].address,
            "HEADWATER_KAFKA_REGISTRY_URL": servers["registry"].url,
            "HEADWATER_MAINTENANCE_DIR": str(folder / "sets"),
            "HEADWATER_SERVER": "",
        },
        server=server,
        kafka=servers["kafka"].address,
        registry=servers["registry"].url,
        views=views,
        publisher=publisher,
        stream=stream,
    )
    return msgspec.structs.replace(system, processes=[*servers.values(), *_commands(system, options, folder)])


def _commands(system: System, options: SystemOptions, folder: Path) -> list[Managed]:
    database: list[str] = [] if options.database == "sqlite" else [options.database]
    hours = str(options.hours)
    cadence = ["--expire-every", hours, "--purge-every", hours, "--sweep-every", hours]

    def command(name: str, address: str, needs: list[str], *arguments: str, ready: str = "/readyz") -> ManagedCommand:
        words = [name, "--port", address.rpartition(":")[2], *arguments]
        name = {"serve": "server", "publish": "publisher"}.get(name, name)
        return ManagedCommand(
            name, words, folder=folder, settings=system.settings, needs=needs, address=address, ready_path=ready
        )

    return [
        command("serve", system.server, database, "--dev"),
        command("publish", system.publisher, ["kafka", "registry", "server"]),
        command("views", system.views, ["publisher"], "--from-store", ready="/positions/"),
        command("stream", system.stream, ["publisher"], "--kafka", "--every", str(options.every_seconds), *cadence),
    ]


def _store_url(options: SystemOptions, servers: dict[str, ManagedServer]) -> str:
    if options.database == "sqlite":
        return f"sqlite:///{options.folder.absolute()}/{STORE_FILE}"
    return servers[options.database].url


def _environment(settings: Settings) -> dict[str, str]:
    """Whatever the caller has set, by flags, variables or a file."""
    usual = Settings()
    given = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    chosen = {name: value for name, value in given.items() if value != getattr(usual, name)}
    return {f"{ENV_PREFIX}{name.upper()}": _text(value) for name, value in (SMALL_SPARK | chosen).items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
