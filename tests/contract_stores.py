"""A kind of database enters; the URL of a fresh store of it leaves, and how much a test may ask of it in a few seconds."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from headwater.persistence.backends import open_backend
from headwater.persistence.backends.memory import MemoryBackend

KINDS = ("memory", "sqlite", "postgresql", "cassandra")


class Scale(NamedTuple):
    objects: int
    """Immutable rows, written in bulk."""
    conditional: int
    """Rows of which each costs a compare-and-swap."""
    rounds: int
    """Repetitions of a race."""
    examples: int
    """Runs of a stateful test."""


_SCALES = {
    "memory": Scale(objects=5_000, conditional=2_000, rounds=30, examples=100),
    "sqlite": Scale(objects=5_000, conditional=1_000, rounds=15, examples=40),
    "postgresql": Scale(objects=5_000, conditional=600, rounds=15, examples=15),
    "cassandra": Scale(objects=600, conditional=60, rounds=4, examples=5),
}


def scale_of(kind: str) -> Scale:
    return _SCALES[kind]


def fresh_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """A store without a schema. Servers start when the first test asks for one."""
    match kind:
        case "memory":
            return f"memory://test-{secrets.token_hex(6)}"
        case "sqlite":
            return f"sqlite:///{folder}/{secrets.token_hex(6)}.db"
        case "postgresql":
            return str(request.getfixturevalue("fresh_postgres")())
        case "cassandra":
            return str(request.getfixturevalue("fresh_cassandra")())
    raise AssertionError(f"no such kind: {kind}")


def pretend_version(kind: str, url: str, version: int) -> None:
    """Make a store look as if another version of headwater had written it."""
    match kind:
        case "memory":
            memory = open_backend(url)
            assert isinstance(memory, MemoryBackend)
            memory.store.schema_version = version
        case "sqlite":
            with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
                connection.execute("UPDATE headwater_schema SET version = ?", (version,))
        case "postgresql":
            import psycopg

            with psycopg.connect(url) as postgres:
                postgres.execute("UPDATE headwater_schema SET version = %s", (version,))
        case "cassandra":
            from cassandra.cluster import Cluster

            address = urlsplit(url)
            with Cluster([address.hostname], port=address.port) as cluster:
                session = cluster.connect(address.path.strip("/"))
                session.execute("UPDATE headwater_schema SET version = %s WHERE key = 'schema' IF EXISTS", (version,))
        case _:
            raise AssertionError(f"no such kind: {kind}")
