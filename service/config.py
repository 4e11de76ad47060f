"""What `headwater serve` was asked for enters; one struct leaves that every worker starts from."""

from __future__ import annotations

import ipaddress

import msgspec

from headwater.persistence.store import StoreOptions
from headwater.producer.publisher.options import PublisherOptions
from headwater.schemas.errors import InvalidInput

LOOPBACK_NAMES = frozenset({"localhost"})


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True):
    store: str
    store_options: StoreOptions
    host: str = "127.0.0.1"
    port: int = 8181
    workers: int = 1
    dev: bool = False
    feed_cache_bytes: int = 64 * 1024 * 1024
    request_bytes_max: int = 16 * 1024 * 1024
    heartbeat_seconds: float = 15.0
    stall_seconds: float = 30.0
    stop_seconds: int = 20
    """How long a stopping worker may take to finish what it has accepted."""
    log_requests: bool = False
    traces: str = ""
    publisher: PublisherOptions | None = None
    """Where each worker publishes to Kafka beside the feed; None leaves that to `headwater publish`."""
    messages_dir: str = ""
    """More languages for error messages, one file each."""
    metrics_folder: str | None = None
    """Where workers exchange their numbers; None with a single one."""


def check_config(config: ServeConfig) -> ServeConfig:
    """Everything that can be refused before a socket is opened."""
    if not config.dev:
        raise InvalidInput(
            "this version knows no identities, so it serves development only.",
            field="serve",
            remedy="Start it with --dev: no token is asked for and only this machine is served.",
        )
    if not is_loopback(config.host):
        raise InvalidInput(
            f"{config.host!r} is not a loopback address, and --dev asks for no token.",
            field="host",
            remedy="Use 127.0.0.1 or ::1.",
        )
    if config.workers > 1 and config.store.startswith("memory:"):
        raise InvalidInput(
            "processes do not share a store in memory.", field="workers", remedy="Use one worker, or another store."
        )
    return config


def is_loopback(host: str) -> bool:
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
