"""Opens a real, empty store of each kind of database; its server is started for it and stopped afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from rich.console import Console

from headwater.dev.server import running
from headwater.persistence.backend import Backend, DurabilityLevel
from headwater.persistence.backends import open_backend

KINDS = ("memory", "sqlite", "postgresql", "cassandra")
_SERVERS = {"postgresql": "postgres", "cassandra": "cassandra"}


@contextmanager
def fresh_store(kind: str, console: Console) -> Iterator[Backend]:
    """Open and with its schema. SQLite lies in a temporary folder: what the disk below it does, decides its rates."""
    with fresh_store_url(kind, console) as url:
        backend = open_backend(url)
        try:
            backend.create_schema()
            backend.check_schema()
            if backend.durability().level is DurabilityLevel.WEAK:
                console.print(f"[yellow]{kind} is not durable: {'; '.join(backend.durability().warnings)}[/yellow]")
            yield backend
        finally:
            backend.close()


@contextmanager
def fresh_store_url(kind: str, console: Console) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", ignore_cleanup_errors=True) as folder:
        if kind == "memory":
            yield "memory://"
        elif kind == "sqlite":
            yield f"sqlite:///{folder}/bench.db"
        else:
            Path(folder).chmod(0o755)  # PostgreSQL runs as another user when we are root
            with console.status(f"starting {kind} …") as status:
                server = running(_SERVERS[kind], Path(folder), report=lambda step: status.update(f"{kind}: {step}"))
                started = server.__enter__()
            try:
                yield started.url if kind == "postgresql" else _with_keyspace(started.url)
            finally:
                server.__exit__(None, None, None)


def _with_keyspace(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path="/headwater_bench"))
