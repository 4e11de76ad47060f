"""Counts the calls that work makes to its database: transactions and reads, statements, or requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import psycopg

from headwater.persistence.backends.cassandra.calls import Calls
from headwater.persistence.backends.sqlite.group_commit import GroupCommit
from headwater.persistence.backends.sqlite.sqlite_connections import SqliteConnections

ASKING: dict[str, tuple[tuple[type, str], ...]] = {
    "memory": (),
    "sqlite": ((GroupCommit, "_run_group"), (SqliteConnections, "reader")),
    "postgresql": ((psycopg.Connection, "execute"),),
    "cassandra": ((Calls, "_send"),),
}
"""By backend, the methods that each ask the database once."""


class DatabaseCalls:
    def __init__(self) -> None:
        self.count = 0


@contextmanager
def counted(kind: str) -> Iterator[DatabaseCalls]:
    calls = DatabaseCalls()
    with ExitStack() as patches:
        for owner, name in ASKING[kind]:
            patches.enter_context(patch.object(owner, name, _counting(calls, getattr(owner, name))))
        yield calls


def _counting(calls: DatabaseCalls, ask: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*arguments: Any, **options: Any) -> Any:
        calls.count += 1
        return ask(*arguments, **options)

    return asked
