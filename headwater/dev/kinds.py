"""A server's name enters; its kind leaves."""

from __future__ import annotations

from headwater.dev.cassandra import Cassandra
from headwater.dev.kind import Kind
from headwater.dev.postgres import Postgres
from headwater.schemas.errors import InvalidInput

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Cassandra(), Postgres())}


def kind_named(name: str) -> Kind:
    if name not in KINDS:
        raise InvalidInput(f"{name!r} is not a server.", field="server", remedy=f"Choose from {', '.join(KINDS)}.")
    return KINDS[name]
