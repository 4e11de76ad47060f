"""The log of a server in Spark: a job with a token of its own, without credentials of the database, sees what it may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, LessThanOrEqual
from pyspark.sql.types import StructType

import headwater
from headwater import Delete
from headwater.persistence.store import RealmKernel
from headwater.producer.access.grants import catalog_grants, realm_grants
from headwater.producer.access.principals import Credentials, Principals
from headwater.producer.access.rights import Right
from headwater.producer.access.roles import catalog_roles, principal_roles
from headwater.producer.access.writing import WriteMeta
from headwater.schemas.change import KeyPath
from headwater.schemas.errors import CursorExpired, CursorReset, HeadwaterError, InvalidInput, NotAuthenticated, PointerNotFound
from headwater.streaming.sources.log_source import LogSource
from headwater.streaming.sources.server_log import close_clients
from tests.support.fixtures.spark_lakes import change_of_row, cut_history, fill, logged_changes
from tests.support.servers.feed_server import feed_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAIN = "cat/1/heads/main"
DEV = "cat/1/heads/dev"
META = WriteMeta("test")


class Served(NamedTuple):
    url: str
    store: str
    auditor: dict[str, str]
    """May read everything of the realm."""
    analyst: dict[str, str]
    """May read one table."""


def _options(url: str, made: Credentials) -> dict[str, str]:
    return {"server": url, "client_id": made.client_id, "client_secret": made.client_secret}


def _principal(kernel: RealmKernel, name: str) -> Credentials:
    made = Principals(kernel).create(name, meta=META)
    principal_roles(kernel).create(f"{name}-role", meta=META)
    principal_roles(kernel).assign(name, f"{name}-role", meta=META)
    assert made.credentials is not None
    return made.credentials


def _grant_path(kernel: RealmKernel, name: str, path: KeyPath) -> None:
    catalog_roles(kernel, 1).create(f"{name}-role", meta=META)
    catalog_roles(kernel, 1).assign(f"{name}-role", f"{name}-role", meta=META)
    catalog_grants(kernel, 1).grant(f"{name}-role", Right.FEED_READ, path, meta=META)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    store = f"sqlite:///{tmp_path_factory.mktemp('served')}/lake.db"
    with headwater.open(store, create=True) as engine:
        fill(engine)
        kernel = engine.realm().kernel
        auditor, analyst = _principal(kernel, "auditor"), _principal(kernel, "analyst")
        realm_grants(kernel).grant("auditor-role", Right.REALM_MANAGE, meta=META)
        _grant_path(kernel, "analyst", ("db", "t2"))
    with feed_server(store, dev=False) as server:
        yield Served(server.url, store, _options(server.url, auditor), _options(server.url, analyst))
        close_clients()


def rows(options: dict[str, str], *filters: Filter, **more: Any) -> list[dict[str, Any]]:
    """As Spark's Python workers read them."""
    made = LogSource({**options, **{name: str(value) for name, value in more.items()}}).reader(StructType())
    assert list(made.pushFilters(list(filters))) == []
    return [row for share in made.partitions() for batch in made.read(share) for row in batch.to_pylist()]


def places(found: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["pointer"], row["seq"]) for row in found]


def test_an_auditor_reads_from_a_server_what_the_store_contains(served: Served) -> None:
    remote, local = rows(served.auditor, changes_per_split=4), rows({"store": served.store}, changes_per_split=4)
    assert places(remote) == places(local)
    unlinked = {"previous_id"}  # of the first entry of a task the server does not say what came before
    for one, other in zip(remote, local, strict=True):
        assert {name: one[name] for name in one.keys() - unlinked} == {name: other[name] for name in other.keys() - unlinked}
        assert one["previous_id"] in ("", other["previous_id"])


def test_filters_and_columns_are_answered_by_the_server(served: Served) -> None:
    every = rows({"store": served.store}, pointers=MAIN)
    middle = every[len(every) // 2]["time"]
    wanted = (EqualTo(("pointer",), MAIN), GreaterThan(("time",), middle), LessThanOrEqual(("seq",), len(every) - 1))
    found = rows(served.auditor, *wanted, columns="seq,pointer")
    assert places(found) == [(MAIN, row["seq"]) for row in every if row["time"] > middle][:-1]
    assert set(found[0]) == {"pointer", "seq"}
    assert {row["kind"] for row in rows(served.auditor, EqualTo(("kind",), "merge"))} == {"merge"}


def test_a_reader_of_one_table_reads_its_changes_and_nothing_else(served: Served) -> None:
    found = rows(served.analyst, changes_per_split=3)
    assert {row["pointer"].rpartition("/")[0] for row in found} <= {"cat/1/heads", "cat/1/tags"}
    keys = {tuple(op["key"]) for row in found for op in row["operations"]}
    assert keys == {("db", "t2")}
    assert "t3" not in json.dumps(found, default=str) and "t1" not in json.dumps(found, default=str)
    moves = [row for row in found if row["kind"] in ("create", "assign", "delete")]
    every = rows({"store": served.store}, pointers="cat/1/heads/*,cat/1/tags/*")
    assert places(moves) == places([row for row in every if row["kind"] in ("create", "assign", "delete")])


def test_a_stream_of_a_server_is_bounded_resumes_and_delivers_each_change_once(served: Served) -> None:
    options = {**served.auditor, "pointers": MAIN, "until": "start", "changes_per_batch": "5", "changes_per_split": "2"}
    stream = LogSource(options).streamReader(StructType())
    start, seen, batches = stream.initialOffset(), [], 0
    while (end := stream.latestOffset(start)) != start:
        shares = stream.partitions(start, end)
        seen += [row["seq"] for share in shares for batch in stream.read(share) for row in batch.to_pylist()]
        assert end["pointers"][MAIN][1], "the offset names the entry"
        start, batches = json.loads(json.dumps(end)), batches + 1
        stream = LogSource(options).streamReader(StructType())  # a restart
        assert stream.partitions(start, start) == []
    assert seen == list(range(1, len(seen) + 1)) == [row["seq"] for row in rows({"store": served.store}, pointers=MAIN)]
    assert batches >= len(seen) // 5


def test_positions_of_other_histories_and_expired_ones_are_refused(served: Served) -> None:
    head = rows({"store": served.store}, pointers=DEV)[-1]
    instance = head["realm_instance"]
    wrong = json.dumps({"realm": instance, "pointers": {DEV: [head["seq"] - 1, "0" * 64]}})
    with pytest.raises(CursorReset):
        rows(served.auditor, pointers=DEV, after=wrong)
    with pytest.raises(CursorReset):
        rows(served.auditor, after=json.dumps({"realm": "default#0000000000000000", "pointers": {}}))
    with headwater.open(served.store) as engine:
        branch = engine.realm().catalog("lake").create_branch("cut")
        branch.commit([Delete(("db", "t3"))])
        branch.commit([Delete(("db", "t4"))])
        cut_history(engine, branch.pointer)
    stale = json.dumps({"realm": instance, "pointers": {branch.pointer: [0, ""]}})
    with pytest.raises(CursorExpired):
        rows(served.auditor, pointers=branch.pointer, after=stale)


@pytest.mark.parametrize(
    ("change", "kind", "field"),
    [
        ({"store": "sqlite:///x.db"}, InvalidInput, "server"),
        ({"server": "", "store": "sqlite:///x.db"}, InvalidInput, "client_id"),
        ({"server": "ftp://x"}, InvalidInput, "url"),
        ({"client_secret": ""}, InvalidInput, "client_id"),
        ({"client_secret": "00000000_wrong"}, NotAuthenticated, "client_secret"),
        ({"realm": "default#0000000000000001"}, InvalidInput, "realm"),
        ({"ca": "/nowhere.pem"}, InvalidInput, "ca"),
        ({"pointers": "cat/9/heads/main"}, PointerNotFound, "pointers"),
        ({"server": "http://127.0.0.1:9", "client_id": "", "client_secret": "", "tokens": "x"}, InvalidInput, "tokens"),
    ],
)
def test_bad_options_are_refused_by_name(
    served: Served, change: dict[str, str], kind: type[HeadwaterError], field: str
) -> None:
    with pytest.raises(kind) as refused:
        rows({**served.auditor, **change})
    assert refused.value.field == field
    assert served.auditor["client_secret"] not in str(refused.value)


def test_spark_itself_reads_a_server_with_the_rights_of_one_table(spark: SparkSession, served: Served) -> None:
    frame = spark.read.format("headwater").options(**served.analyst, pointers=MAIN).load()
    found = [change_of_row(row) for row in frame.collect()]
    assert {op.key for change in found for op in change.operations} == {("db", "t2")}
    whole = spark.read.format("headwater").options(**served.auditor, pointers=MAIN).load().collect()
    with headwater.open(served.store) as engine:
        logged = [one for one in logged_changes(engine.realm().kernel) if one.pointer == MAIN]
    assert sorted((change_of_row(row) for row in whole), key=lambda one: one.seq) == logged
    assert served.analyst["client_secret"] not in frame._jdf.queryExecution().toString()
