"""Reads the settings of the live nodes: whether an acknowledged write survives, and what to change if not."""

from __future__ import annotations

from typing import Any

from cassandra.query import SimpleStatement

from headwater.persistence.backend import Durability, DurabilityLevel
from headwater.persistence.backends.cassandra.calls import Call, Calls
from headwater.persistence.backends.cassandra.cassandra_errors import RequestKind
from headwater.schemas.errors import StoreAccessDenied, StoreNotCreated, StoreRefused

CLOCK_SKEW_SECONDS_MAX = 30.0
"""Far below the shortest grace of a sweep (5 minutes), which keeps rewrites newer than what a scan saw."""

_SETTINGS = ("commitlog_sync", "paxos_variant")
_READ_SETTINGS = "SELECT name, value FROM system_views.settings WHERE name IN ('commitlog_sync', 'paxos_variant')"
_READ_KEYSPACE = "SELECT durable_writes, replication FROM system_schema.keyspaces WHERE keyspace_name = ?"
_READ_CLOCK = "SELECT toUnixTimestamp(now()) FROM system.local"


def read_durability(calls: Calls) -> Durability:
    settings = _node_settings(calls) | _keyspace_settings(calls)
    weak = weaknesses(settings) + _clock_weaknesses(calls)
    return Durability(level=DurabilityLevel.WEAK if weak else DurabilityLevel.DURABLE, settings=settings, warnings=weak)


def weaknesses(settings: dict[str, str]) -> list[str]:
    """One sentence for each setting that lets an acknowledged write be lost, or a race be won twice."""
    found = []
    sync = settings.get("commitlog_sync") or "unknown (reading it needs SELECT on system_views)"
    if not {*sync.split(",")} <= {"batch", "group"}:
        found.append(
            f"commitlog_sync is {sync}: with periodic, acknowledged writes, conditional ones too, were lost in kill -9 tests; "
            "set it to batch in cassandra.yaml"
        )
    if "without_linearizable_reads" in settings.get("paxos_variant", ""):
        found.append(
            f"paxos_variant is {settings['paxos_variant']}: serial reads are not linearizable, so that the outcome of a commit "
            "can be judged wrongly; set it to v2"
        )
    if settings.get("durable_writes") == "false":
        found.append("the keyspace has durable_writes = false: its writes skip the commit log; set it to true")
    return found


def _node_settings(calls: Calls) -> dict[str, str]:
    """Each connected node reports its own settings; where they differ, all values are named."""
    values: dict[str, set[str]] = {}
    for host in calls.session.get_pool_state():
        for name, value in _ask(calls, host, _READ_SETTINGS):
            values.setdefault(name, set()).add(value)
    return {name: ",".join(sorted(values[name])) for name in _SETTINGS if name in values}


def _ask(calls: Calls, host: Any, cql: str) -> list[tuple[str, str]]:
    try:
        return calls.run(Call(SimpleStatement(cql), RequestKind.READ, host=host)).rows
    except (StoreAccessDenied, StoreRefused):
        return []


def _keyspace_settings(calls: Calls) -> dict[str, str]:
    found = calls.first_row(calls.read(_READ_KEYSPACE, (calls.options.keyspace,)))
    if found is None:
        raise StoreNotCreated(f"{calls.options.where} has no Headwater store.", field="store", remedy="Create it first.")
    durable_writes, replication = found
    copies = ", ".join(f"{name}: {value}" for name, value in sorted(replication.items()))
    return {"durable_writes": str(durable_writes).lower(), "replication": copies}


def _clock_weaknesses(calls: Calls) -> list[str]:
    """Client timestamps order rewrites and deletes of immutable rows: with a clock far behind, a rewrite could be deleted."""
    server_millis: int = calls.run(Call(SimpleStatement(_READ_CLOCK), RequestKind.READ)).rows[0][0]
    skew_seconds = (calls.clock.now_micros() / 1_000 - server_millis) / 1_000
    if abs(skew_seconds) <= CLOCK_SKEW_SECONDS_MAX:
        return []
    return [
        f"this machine's clock is {skew_seconds:+.0f} s off the database's, whose order of writes follows it; set both by NTP"
    ]
