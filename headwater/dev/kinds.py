"""The kinds of servers by name."""

from __future__ import annotations

from headwater.dev.cassandra import Cassandra
from headwater.dev.kafka import Kafka
from headwater.dev.kind import ServerKind
from headwater.dev.postgres import Postgres
from headwater.dev.registry import Registry
from headwater.dev.secure.cassandra_secure import SecureCassandra
from headwater.dev.secure.kafka_secure import SecureKafka
from headwater.dev.sources.hive import Hive
from headwater.dev.sources.nessie import Nessie
from headwater.schemas.errors import InvalidInput

_USUAL: tuple[ServerKind, ...] = (Kafka(), Cassandra(), Postgres(), Registry())
_SOURCES: tuple[ServerKind, ...] = (Nessie(), Hive())
_SECURE: tuple[ServerKind, ...] = (SecureKafka(), SecureCassandra())

KINDS: dict[str, ServerKind] = {kind.name: kind for kind in (*_USUAL, *_SOURCES, *_SECURE)}
USUAL = tuple(kind.name for kind in _USUAL)
"""What `headwater dev up` starts by default; the others are catalogs to follow, or servers that require certificates."""


def kind_named(name: str) -> ServerKind:
    if name not in KINDS:
        raise InvalidInput(f"{name!r} is not a server.", field="server", remedy=f"Choose from {', '.join(KINDS)}.")
    return KINDS[name]
