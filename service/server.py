"""Serves until a signal comes, with several worker processes on one socket and store."""

from __future__ import annotations

import http.client
import importlib.util
import resource
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from headwater.persistence.store import open_store
from headwater.schemas.errors import InvalidInput
from headwater.schemas.extras import needs_extra
from headwater.service.app import App, make_app
from headwater.service.auth_factory import check_access
from headwater.service.config import ServeConfig, check_config
from headwater.service.dev_realm import ensure_dev_realm
from headwater.service.observability.logs import log_config

READY_LOOK_SECONDS = 0.1
READY_SECONDS = 5.0
HEADER_SECONDS = 10
"""How long a connection may take to send its headers."""
BACKLOG = 4_096
CONNECTIONS_MAX = 65_536
"""Per worker; more wait to be accepted, health checks among them. ⚠ Far above what the gate serves at once: connections that
send nothing, or no end of their headers, must not keep the others out until they are given up."""
FILES_RESERVED = 1_024
"""Reserved from the files that a process may open, for the store and the log."""


def serve(config: ServeConfig, on_ready: Callable[[], None] = lambda: None) -> None:
    """Returns when the last worker has stopped. `on_ready` is called when the first request can be answered."""
    check_config(config)
    check_access(config)
    if config.grpc_port:
        check_grpc_port(config)
    prepare_store(config)
    with tempfile.TemporaryDirectory(prefix="headwater-serve-") as folder:
        if config.workers > 1:
            config = msgspec.structs.replace(config, workers_folder=folder)
        stopped = threading.Event()
        threading.Thread(target=_tell_when_ready, args=(config, on_ready, stopped), daemon=True).start()
        try:
            _server(config).serve(target_loader=partial(load_app, config), wrap_loader=False)
        finally:
            stopped.set()


def check_grpc_port(config: ServeConfig) -> None:
    """⚠ Workers share the port by SO_REUSEPORT: a second server would join them silently and take a part of the connections.
    So it is bound once without that option, here, where a port in use is one line on the terminal. What the port needs must be
    installed too; `grpc` itself is imported in workers alone, after the fork."""
    with needs_extra("serving gRPC", "grpc"):
        for package in ("grpc", "grpc_health", "grpc_reflection", "google.rpc"):
            if importlib.util.find_spec(package) is None:
                raise ModuleNotFoundError(f"there is no {package}", name=package)
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.grpc_port))
        except OSError as error:
            raise InvalidInput(
                f"port {config.grpc_port} cannot be listened on: {error.strerror}.",
                field="grpc_port",
                remedy="Choose another one, or end what listens there.",
            ) from None


def _tell_when_ready(config: ServeConfig, on_ready: Callable[[], None], stopped: threading.Event) -> None:
    while not stopped.wait(READY_LOOK_SECONDS):
        if _is_ready(config):
            on_ready()
            return


def _is_ready(config: ServeConfig) -> bool:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)  # noqa: S104 - asked where it listens everywhere
    connection: http.client.HTTPConnection
    if config.has_tls:
        unchecked = ssl.create_default_context()  # asked is this very process: its certificate proves nothing here
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, config.port, timeout=READY_SECONDS, context=unchecked)
    else:
        connection = http.client.HTTPConnection(host, config.port, timeout=READY_SECONDS)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def prepare_store(config: ServeConfig) -> None:
    """Here, before any worker: what is wrong with the store is one line on the terminal, not a worker that dies."""
    with open_store(config.store, config.store_options, create=config.dev) as store:
        if config.dev:
            ensure_dev_realm(store, config.store)


def load_app(config: ServeConfig) -> App:
    return make_app(config)


def connections_max() -> int:
    """As many as files may be open: an accept that fails for want of one would fail for everyone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + FILES_RESERVED
    may_open = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < may_open:
        resource.setrlimit(resource.RLIMIT_NOFILE, (may_open, hard))
        soft = may_open
    return max(1, min(CONNECTIONS_MAX, (may_open if soft == resource.RLIM_INFINITY else soft) - FILES_RESERVED))


def _server(config: ServeConfig) -> MPServer:
    return MPServer(
        "headwater",
        address="127.0.0.1" if config.host == "localhost" else config.host,
        port=config.port,
        interface=Interfaces.ASGI,
        loop=Loops.asyncio,  # another one that happens to be installed would hide the signal handlers that stopping rests on
        http=HTTPModes.http1,
        websockets=False,
        workers=config.workers,
        backlog=BACKLOG,
        backpressure=connections_max(),
        workers_kill_timeout=config.stop_seconds,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_SECONDS * 1_000, keep_alive=True),
        ssl_cert=Path(config.tls_certificate) if config.has_tls else None,
        ssl_key=Path(config.tls_key) if config.has_tls else None,
        ssl_key_password=config.tls_key_password or None,
        log_level=LogLevels.warning,
        log_dictconfig=log_config(config.log_file),
        respawn_failed_workers=True,
    )
