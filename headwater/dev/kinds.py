"""The kinds of servers by name."""

from __future__ import annotations

from headwater.dev.cassandra import Cassandra
from headwater.dev.kafka import Kafka
from headwater.dev.kind import ServerKind
from headwater.dev.postgres import Postgres
from headwater.dev.registry import Registry
from headwater.schemas.errors import InvalidInput

KINDS: dict[str, ServerKind] = {kind.name: kind for kind in (Kafka(), Cassandra(), Postgres(), Registry())}


def kind_named(name: str) -> ServerKind:
    if name not in KINDS:
        raise InvalidInput(f"{name!r} is not a server.", field="server", remedy=f"Choose from {', '.join(KINDS)}.")
    return KINDS[name]
