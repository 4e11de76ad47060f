"""A Headwater is bridged into another store through each of its APIs: its feed, Nessie and Iceberg REST."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.persistence.store import open_store
from headwater.service.reconciling.reconciler import Reconciler
from headwater.service.reconciling.source_factories import ReconcileOptions
from headwater.service.storage.storage_roots import StorageRoots
from tests.support.fixtures.bridged_lakes import KINDS, Destination, SourceLake
from tests.support.servers.feed_server import FeedServer, feed_server

LOGGED = ("headwater", "nessie")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    store = f"sqlite:///{tmp_path_factory.mktemp('source')}/source.db"
    with feed_server(store, settings={"connector_hosts": "127.0.0.1"}) as started:
        yield started


@pytest.fixture
def source(server: FeedServer) -> Iterator[SourceLake]:
    lake = SourceLake(server.url)
    yield lake
    lake.close()


def test_updates_renames_and_drops_arrive_from_every_kind_of_source(
    server: FeedServer, source: SourceLake, tmp_path: Path
) -> None:
    destination = Destination(tmp_path, "file:///")
    source.namespace("shop")
    for name in ("orders", "items", "old"):
        source.create("shop", name)
    for kind in KINDS:
        destination.add(kind, server.url)
    done = destination.json("reconcile", "--once")["jobs"]
    assert {one["connector"]: one["state"] for one in done} == dict.fromkeys(KINDS, "SUCCEEDED"), done
    for value in ("1", "2", "3"):
        source.update("shop", "orders", value)
    source.rename("shop", "items", "lines")
    source.drop("shop", "old")
    source.create("shop", "new")
    source.update("shop", "new", "1")
    destination.run("reconcile", "--once")
    commits = source.changes()
    for kind in KINDS:
        assert destination.state(kind) == source.state(), kind
    for kind in LOGGED:
        seen = [one["headers"]["headwater.observed.version"] for one in destination.observed(kind)]
        assert seen == [one["entry_id"] for one in commits], kind
        assert [one["message"] for one in destination.observed(kind)] == [one["message"] for one in commits]
    polled = destination.observed("iceberg-rest")
    operations = [operation for one in polled for operation in one["operations"]]
    assert [one["op"] for one in operations].count("rename") == 1
    updates = [one["after"]["metadata_location"] for one in operations if one["key"][-1] == "orders" and one["op"] == "put"]
    assert len(updates) == 4, "three versions between two polls are three commits"
    assert not [one for one in polled if "headwater.observed.gap" in one["headers"]]
    head = len(destination.run("changes", "--json").splitlines())
    assert [one["counters"]["committed"] for one in destination.json("reconcile", "--once")["jobs"]] == [0, 0, 0]
    assert len(destination.run("changes", "--json").splitlines()) == head, "nothing new is not a commit"


def test_versions_missing_from_a_truncated_metadata_log_are_a_typed_gap(
    server: FeedServer, source: SourceLake, tmp_path: Path
) -> None:
    """And those that it tells are commits, in order; the tables end as the source's."""
    cut = {"write.metadata.previous-versions-max": "2"}
    source.namespace("cut")
    source.create("cut", "known", **cut)
    destination = Destination(tmp_path, "file:///")
    destination.add("iceberg-rest", server.url)
    destination.run("reconcile", "--once")
    source.create("cut", "late", **cut)
    for value in "12345":
        source.update("cut", "known", value)
        source.update("cut", "late", value)
    (job,) = destination.json("reconcile", "--once")["jobs"]
    assert (job["counters"]["gaps"], job["failures"]) == (2, [])
    assert destination.state("iceberg-rest") == source.state()
    gaps, versions = dict[str, str](), dict[str, list[str]]()
    for one in destination.observed("iceberg-rest"):
        for operation in one["operations"]:
            if operation["key"][-1] in ("known", "late"):
                versions.setdefault(operation["key"][-1], []).append(operation["after"]["metadata_location"])
                if gap := one["headers"].get("headwater.observed.gap"):
                    gaps[operation["key"][-1]] = gap
    assert gaps == {
        "known": "the source does not say which versions were between",
        "late": "the source does not say how the table began",
    }
    numbers = {name: [int(one.rpartition("/")[2][:5]) for one in found] for name, found in versions.items()}
    assert numbers == {"known": [0, 5], "late": [3, 4, 5]}


def test_an_unchanged_table_costs_its_source_one_short_answer(server: FeedServer, source: SourceLake, tmp_path: Path) -> None:
    source.namespace("still")
    for name in ("a", "b", "c"):
        source.create("still", name)
    destination = Destination(tmp_path, "file:///")
    destination.add("iceberg-rest", server.url)
    options = ReconcileOptions(private_hosts=frozenset(["127.0.0.1"]), storage_roots=StorageRoots(anywhere=True))
    with open_store(destination.url) as store:
        reconciler = Reconciler(store, options)
        (first,) = reconciler.run_once()
        written, asked = destination.head_seq(), loads(server)
        (second,) = reconciler.run_once()
    tables = second.counters.observed
    assert first.counters.committed > 3 and tables >= 3
    assert (second.counters.unchanged, second.counters.committed) == (tables, 0), second
    assert loads(server) - asked == Counter({"304": tables})
    assert destination.head_seq() == written


def loads(server: FeedServer) -> Counter[str]:
    """Tables and views that the server was asked for, by the status of the answer."""
    found = Counter[str]()
    for line in httpx.get(f"{server.url}/metrics", timeout=30).text.splitlines():
        if line.startswith("headwater_http_requests_total{") and re.search(r"(tables|views)/\{\w+\}\"", line):
            found[re.search(r'status="(\d+)"', line)[1]] += int(float(line.rsplit(" ", 1)[1]))  # type: ignore[index]
    return found


def test_bad_connectors_are_refused_and_nothing_is_written(server: FeedServer, tmp_path: Path) -> None:
    destination = Destination(tmp_path, "file:///srv/lake/")
    destination.add("headwater", server.url)
    base = ("connector", "add", "x", "--path", "x", "--source")
    url = f"{server.url}/api/v2"
    root = ("--root", "file:///srv/lake/")
    refused = [
        ("glue", (*base, "glue", "--uri", url, *root)),
        ("metastore", (*base, "hive", "--uri", url, *root)),
        ("colour", (*base, "nessie", "--uri", url, *root, "--property", "colour=red")),
        ("ADDRESS_FORBIDDEN", (*base, "nessie", "--uri", "http://10.0.0.1/api/v2", *root)),
        ("LOCATION_FORBIDDEN", (*base, "nessie", "--uri", url, "--root", "file:///etc/")),
        ("secret", (*base, "nessie", "--uri", url, *root, "--secret-ref", "../other/token")),
        ("CATALOG_NOT_FOUND", (*base, "nessie", "--uri", url, *root, "--catalog", "nowhere")),
        ("REFERENCE_NOT_FOUND", (*base, "nessie", "--uri", url, *root, "--branch", "nowhere")),
        ("overlaps", ("connector", "add", "y", "--path", "headwater.b", "--source", "nessie", "--uri", url, *root)),
    ]
    for expected, arguments in refused:
        assert expected in destination.run(*arguments, exit_code=2)
    assert [one["name"] for one in destination.json("connector", "list")["connectors"]] == ["headwater"]


def test_an_unavailable_source_fails_only_its_own_job(server: FeedServer, source: SourceLake, tmp_path: Path) -> None:
    destination = Destination(tmp_path, "file:///")
    destination.add("nessie", "http://127.0.0.1:9")
    destination.add("headwater", server.url)
    destination.run("reconcile", "--once", exit_code=1)
    (job,) = destination.json("connector", "jobs", "nessie")["jobs"]
    assert job["state"] == "FAILED"
    assert job["error"].startswith("SOURCE_UNREACHABLE")
    assert destination.state("headwater") == source.state()
    said = destination.run("connector", "validate", "nessie", exit_code=2)
    assert "SOURCE_UNREACHABLE" in said


def test_files_outside_of_the_declared_roots_are_listed_as_failures(
    server: FeedServer, source: SourceLake, tmp_path: Path
) -> None:
    source.namespace("private")
    source.create("private", "t")
    destination = Destination(tmp_path, "file:///srv/other/")
    destination.add("iceberg-rest", server.url)
    (job,) = destination.json("reconcile", "--once")["jobs"]
    assert job["state"] == "SUCCEEDED"
    assert {one["code"] for one in job["failures"]} == {"LOCATION_FORBIDDEN"}
    assert all(type == "NAMESPACE" for type, _ in destination.state("iceberg-rest").values())


def test_paused_connectors_rest_and_jobs_can_be_cancelled(server: FeedServer, tmp_path: Path) -> None:
    destination = Destination(tmp_path, "file:///")
    destination.add("headwater", server.url)
    job = destination.json("connector", "reconcile", "headwater")
    (cancelled,) = destination.json("connector", "jobs", "headwater", "--cancel", job["id"])["jobs"]
    assert cancelled["state"] == "CANCELLED"
    assert destination.json("connector", "pause", "headwater")["status"] == "PAUSED"
    assert destination.json("reconcile", "--once")["jobs"] == []
    assert "paused" in destination.run("connector", "reconcile", "headwater", exit_code=2)
    assert destination.json("connector", "pause", "headwater", "--resume")["status"] == "ACTIVE"
    (done,) = destination.json("reconcile", "--once")["jobs"]
    assert done["state"] == "SUCCEEDED"
    destination.run("connector", "remove", "headwater", "--yes")
    assert destination.json("connector", "list")["connectors"] == []
    assert destination.state("headwater")


def test_a_job_with_a_scope_reads_only_these_tables_and_a_source_with_a_log_accepts_none(
    server: FeedServer, source: SourceLake, tmp_path: Path
) -> None:
    for namespace in ("near", "far"):
        source.namespace(namespace)
        source.create(namespace, "t")
    destination = Destination(tmp_path, "file:///")
    destination.add("iceberg-rest", server.url)
    destination.add("nessie", server.url)
    destination.run("reconcile", "--once")
    before = destination.state("iceberg-rest")
    for namespace in ("near", "far"):
        source.update(namespace, "t", "1")
    once = ("reconcile", "--once", "--connector", "iceberg-rest", "--scope")
    (job,) = destination.json(*once, "iceberg-rest.near")["jobs"]
    assert (job["state"], job["scope"], job["counters"]["committed"]) == ("SUCCEEDED", [["iceberg-rest", "near"]], 1)
    assert destination.state("iceberg-rest") == before | {("near", "t"): source.state()[("near", "t")]}
    queued = destination.json("connector", "reconcile", "iceberg-rest", "--scope", "iceberg-rest.far.t", "--full-rescan")
    assert (queued["scope"], queued["full_rescan"]) == ([["iceberg-rest", "far", "t"]], True)
    destination.run("reconcile", "--once", "--connector", "iceberg-rest")
    assert destination.state("iceberg-rest") == source.state()
    (missing,) = destination.json(*once, "iceberg-rest.nowhere", exit_code=1)["jobs"]
    assert missing["state"] == "FAILED" and missing["error"].startswith("CONTENT_NOT_FOUND")
    head = destination.head_seq()
    refused = [
        ("followed commit by commit", ("connector", "reconcile", "nessie", "--scope", "nessie.near")),
        ("not below", ("connector", "reconcile", "iceberg-rest", "--scope", "nessie.near")),
        ("not below", ("connector", "reconcile", "iceberg-rest", "--scope", "iceberg-rest")),
        ("--once", ("reconcile", "--scope", "iceberg-rest.near")),
        ("no connector", ("reconcile", "--once", "--connector", "nobody")),
    ]
    for expected, arguments in refused:
        assert expected in destination.run(*arguments, exit_code=2)
    assert destination.head_seq() == head


def test_a_server_runs_jobs_that_are_asked_for_over_http(server: FeedServer, source: SourceLake) -> None:
    source.namespace("served")
    source.create("served", "t")
    manage = f"{server.url}/manage/v1/default"
    with httpx.Client(base_url=manage, timeout=60) as http:
        assert http.post("/catalogs", json={"name": "copy"}).status_code == 201
        body = {
            "name": "own",
            "source": "nessie",
            "uri": f"{server.url}/api/v2",
            "roots": ["file:///"],
            "catalog": "copy",
            "interval_seconds": 3_600,
        }
        made = http.post("/connectors", json=body)
        assert made.status_code == 201, made.text
        assert http.post("/connectors", json=body).json()["code"] == "RECORD_EXISTS"
        assert http.post("/connectors/own/validate").json() == {"connector": "own", "source": "nessie", "has_log": True}
        scoped = http.post("/connectors/own/jobs", json={"scope": [["served"]]})
        assert (scoped.status_code, scoped.json()["field"]) == (400, "scope")
        job = http.post("/connectors/own/jobs", json={"full_rescan": True}).json()
        ended = _ended(http, job["id"])
        assert ended["state"] == "SUCCEEDED", ended
        assert http.post(f"/connectors/own/jobs/{job['id']}/cancel").status_code == 409
        version = made.json()["connector"]["version"]
        paused = http.put("/connectors/own", json={"status": "PAUSED"}, headers={"if-match": f'"{version}"'})
        assert paused.json()["connector"]["status"] == "PAUSED"
        assert http.put("/connectors/own", json={"status": "ACTIVE"}, headers={"if-match": f'"{version}"'}).status_code == 412
        assert http.put("/connectors/own", json={"status": "ASLEEP"}).json()["field"] == "status"
        assert http.delete("/connectors/own").status_code == 200
        assert http.get("/connectors/own").status_code == 404
    query = {"catalog": "copy", "branch": "main", "limit": "1000"}
    entries = httpx.get(f"{server.url}/feed/v1/default/snapshot", params=query, timeout=60).json()["entries"]
    assert {tuple(one["key"]) for one in entries} == set(source.state())
    changes = httpx.get(f"{server.url}/feed/v1/default/changes", params={"pointer": "connectors"}, timeout=60).json()["changes"]
    assert [one["message"] for one in changes] == ["Add connector own", "Update connector own", "Remove connector own"]


def _ended(http: httpx.Client, job: str) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found: dict[str, Any] = http.get(f"/connectors/own/jobs/{job}").json()
        if found["state"] not in ("QUEUED", "RUNNING"):
            return found
        time.sleep(0.1)
    raise AssertionError("the job does not end")
