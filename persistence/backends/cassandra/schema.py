"""Creates or checks the tables of a keyspace, or says what the keyspace holds instead.

Two kinds of table. Mutable (`pointers`, `mutable_rows`, `headwater_schema`): every write and delete is an LWT, whose timestamps
come from Paxos ballots; a plain write among them would be ordered by another clock and could vanish. Each write gives the
row a new random `stamp`, by which a scan's delete tells it from one that was deleted and created again with the same version.
Immutable (`objects`, `names`, `mutable_row_names`, `moved`) and of one writer each (`movers`): no write is an LWT, timestamps
are the client's, deletes carry the scanned writetime.
"""

from __future__ import annotations

import contextlib
import uuid

from headwater.persistence.backends.cassandra.calls import Call, Calls, Row
from headwater.persistence.backends.cassandra.cassandra_errors import RequestKind
from headwater.schemas.errors import OutcomeUnknown, StoreNotCreated, StoreRefused, StoreUnavailable, StoreVersionMismatch

SCHEMA_VERSION = 2
MOVED_TTL_SECONDS = 3_600
CREATE_LOCK_SECONDS = 120
CREATE_POLL_SECONDS = 0.25

TABLES = (
    """CREATE TABLE IF NOT EXISTS {ks}.pointers (
         realm text, name text,
         head blob, seq bigint, floor bigint, fence bigint, version bigint, anchor blob, created_at bigint,
         stamp bigint,
         PRIMARY KEY ((realm, name)))""",
    """CREATE TABLE IF NOT EXISTS {ks}.mutable_rows (
         realm text, type text, key text,
         version bigint, created_at bigint, expires_at bigint, payload blob, stamp bigint,
         PRIMARY KEY ((realm, type, key)))""",
    """CREATE TABLE IF NOT EXISTS {ks}.objects (
         realm text, shard bigint, id bigint, part int,
         type text, parts int, created_at bigint, payload blob,
         PRIMARY KEY ((realm, shard), id, part))""",
    """CREATE TABLE IF NOT EXISTS {ks}.names (
         realm text, bucket int, name text, created_at bigint,
         PRIMARY KEY ((realm, bucket), name))""",
    """CREATE TABLE IF NOT EXISTS {ks}.mutable_row_names (
         realm text, type text, bucket int, key text, created_at bigint,
         PRIMARY KEY ((realm, type, bucket), key))""",
    f"""CREATE TABLE IF NOT EXISTS {{ks}}.moved (
         realm text, writer text, number bigint, name text, PRIMARY KEY ((realm, writer), number))
       WITH default_time_to_live = {MOVED_TTL_SECONDS} AND gc_grace_seconds = 3600
        AND compaction = {{{{'class': 'TimeWindowCompactionStrategy',
                           'compaction_window_unit': 'HOURS', 'compaction_window_size': 1}}}}""",
    f"""CREATE TABLE IF NOT EXISTS {{ks}}.movers (
         realm text, writer text, low bigint, is_open boolean, PRIMARY KEY ((realm), writer))
       WITH default_time_to_live = {MOVED_TTL_SECONDS} AND gc_grace_seconds = 3600""",
)

_SCHEMA_TABLE = """CREATE TABLE IF NOT EXISTS {{ks}}.headwater_schema (
                     key text PRIMARY KEY, version int, consistency text, owner text) WITH id = {id}"""
_IS_THERE = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'headwater_schema'"
_POINTERS_ID = "SELECT id FROM system_schema.tables WHERE keyspace_name = ? AND table_name = 'pointers'"
_READ = "SELECT version, consistency FROM {ks}.headwater_schema WHERE key = 'schema'"
_WRITE = "INSERT INTO {ks}.headwater_schema (key, version, consistency) VALUES ('schema', ?, ?) IF NOT EXISTS"
_LOCK = "INSERT INTO {ks}.headwater_schema (key, owner) VALUES ('creating', ?) IF NOT EXISTS USING TTL ?"
_UNLOCK = "DELETE FROM {ks}.headwater_schema WHERE key = 'creating' IF owner = ?"


def create_schema(calls: Calls) -> None:
    """Create what is missing, one process at a time: two that create one table at once on several nodes can split it."""
    try:
        check_schema(calls)
        return
    except StoreNotCreated:
        pass
    _define(calls, f"CREATE KEYSPACE IF NOT EXISTS {{ks}} WITH replication = {_replication(calls)}")
    # The table that holds the lock cannot be made under it: a fixed id makes two creations of it one and the same.
    _define(calls, _SCHEMA_TABLE.format(id=uuid.uuid5(uuid.NAMESPACE_URL, f"headwater:{calls.options.keyspace}:schema")))
    owner = str(uuid.uuid4())
    _wait_for_lock(calls, owner)
    try:
        for table in TABLES:
            _define(calls, table)
        calls.lwt(_WRITE, (SCHEMA_VERSION, _consistency(calls)))
    finally:
        # If this is lost, the lock expires.
        with contextlib.suppress(OutcomeUnknown, StoreUnavailable):
            calls.lwt(_UNLOCK, (owner,))
    check_schema(calls)


def check_schema(calls: Calls) -> None:
    found = _read(calls)
    if found is None:
        raise StoreNotCreated(f"{calls.options.where} has no Headwater store.", field="store", remedy="Create it first.")
    version, consistency = found
    if version != SCHEMA_VERSION:
        raise StoreVersionMismatch(
            f"the store has schema version {version}; this version of headwater reads {SCHEMA_VERSION}.",
            field="store",
            remedy="Use the version of headwater that wrote it.",
            found=version,
            expected=SCHEMA_VERSION,
        )
    if consistency != _consistency(calls):
        raise StoreRefused(
            f"the store decides at {consistency}, but the URL asks for {_consistency(calls)}: mixed, both could win one race.",
            field="store",
            remedy=f"Use consistency={'local' if consistency == 'LOCAL_SERIAL' else 'global'} in the URL.",
            found=consistency,
            expected=_consistency(calls),
        )


def table_identity(calls: Calls) -> str:
    """A keyspace that was dropped and re-created has other tables. Files that were put back under them have not."""
    found = calls.first_row(calls.read(_POINTERS_ID, (calls.options.keyspace,)))
    return "" if found is None else str(found[0])


def _read(calls: Calls) -> Row | None:
    # Checked first: the driver logs an error with a traceback for a statement on a table that does not exist.
    if calls.first_row(calls.read(_IS_THERE, (calls.options.keyspace,))) is None:
        return None
    return calls.first_row(calls.read(_READ, ()))


def _consistency(calls: Calls) -> str:
    return "LOCAL_SERIAL" if calls.options.local else "SERIAL"


def _replication(calls: Calls) -> str:
    options = calls.options
    if options.datacenter is None:
        return f"{{{{'class': 'SimpleStrategy', 'replication_factor': {options.replication}}}}}"
    datacenter = options.datacenter.replace("'", "''").replace("{", "{{").replace("}", "}}")
    return f"{{{{'class': 'NetworkTopologyStrategy', '{datacenter}': {options.replication}}}}}"


def _define(calls: Calls, cql: str) -> None:
    calls.run(Call(cql.format(ks=f'"{calls.options.keyspace}"'), RequestKind.IDEMPOTENT_WRITE))


def _wait_for_lock(calls: Calls, owner: str) -> None:
    for _ in range(int(CREATE_LOCK_SECONDS * 1.5 / CREATE_POLL_SECONDS)):
        if calls.lwt(_LOCK, (owner, CREATE_LOCK_SECONDS)):
            return
        calls.clock.sleep(CREATE_POLL_SECONDS)
    raise StoreUnavailable(f"another process keeps creating {calls.options.where}.", field="store")
