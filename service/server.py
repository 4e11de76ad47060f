"""Serves until a signal comes, with several worker processes on one socket and store."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import msgspec
from granian.constants import HTTPModes, Interfaces, Loops
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server import MPServer

from headwater.persistence.store import open_store
from headwater.service.app import App, make_app
from headwater.service.auth_factory import check_access
from headwater.service.config import ServeConfig, check_config
from headwater.service.dev_realm import ensure_dev_realm
from headwater.service.observability.logs import LOG_CONFIG

HEADER_SECONDS = 10
"""How long a connection may take to send its headers."""
BACKLOG = 1_024
REQUESTS_AT_ONCE_MAX = 8_192
"""In one worker, open streams and long polls among them; more wait to be accepted."""


def serve(config: ServeConfig) -> None:
    """Returns when the last worker has stopped."""
    check_config(config)
    check_access(config)
    prepare_store(config)
    with tempfile.TemporaryDirectory(prefix="headwater-serve-") as folder:
        if config.workers > 1:
            config = msgspec.structs.replace(config, metrics_folder=folder)
        _server(config).serve(target_loader=partial(load_app, config), wrap_loader=False)


def prepare_store(config: ServeConfig) -> None:
    """Here, before any worker: what is wrong with the store is one line on the terminal, not a worker that dies."""
    with open_store(config.store, config.store_options, create=config.dev) as store:
        if config.dev:
            ensure_dev_realm(store, config.store)


def load_app(config: ServeConfig) -> App:
    return make_app(config)


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
        backpressure=REQUESTS_AT_ONCE_MAX,
        workers_kill_timeout=config.stop_seconds,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_SECONDS * 1_000, keep_alive=True),
        ssl_cert=Path(config.tls_certificate) if config.has_tls else None,
        ssl_key=Path(config.tls_key) if config.has_tls else None,
        ssl_key_password=config.tls_key_password or None,
        log_level=LogLevels.warning,
        log_dictconfig=LOG_CONFIG,
        respawn_failed_workers=True,
    )
