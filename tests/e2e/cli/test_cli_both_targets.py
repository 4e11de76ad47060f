"""Every management command, typed once on the store and once with `--server`: the same output, the same refusals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.servers.feed_server import FeedServer, feed_server

_numbers = itertools.count(1)
Run = Callable[..., CliRun]


class Served(NamedTuple):
    store: str
    server: FeedServer
    admin: tuple[str, ...]
    """Flags with the credentials of a system administrator."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that asks for tokens, and its store."""
    store = f"sqlite:///{tmp_path_factory.mktemp('both')}/lake.db"
    headwater("--store", store, "store", "create").succeeded()
    admin = headwater("--store", store, "principal", "bootstrap", "--json").json
    settings = {"storage_roots": "s3://"}
    with feed_server(store, dev=False, settings=settings) as server:
        yield Served(store, server, credentials(admin))


def credentials(made: dict[str, Any]) -> tuple[str, ...]:
    sets = (f"server_client_id={made['client_id']}", f"server_client_secret={made['client_secret']}")
    return tuple(part for one in sets for part in ("--set", one))


class Target(NamedTuple):
    """A realm of the test's own with the catalog `lake`."""

    flags: tuple[str, ...]
    realm: str
    is_server: bool

    def run(self, *arguments: str, stdin: str = "") -> CliRun:
        done = headwater(*self.flags, *arguments, "--realm", self.realm, stdin=stdin)
        assert done.code != 0 or ("directly" in done.err) is not self.is_server, done.err
        return done


@pytest.fixture(params=["store", "server"])
def target(request: pytest.FixtureRequest, served: Served) -> Target:
    realm = f"realm{next(_numbers)}"
    made = headwater("--store", served.store, "realm", "create", realm, "--init", "--json").json
    is_server = request.param == "server"
    flags: tuple[str, ...] = ("--store", served.store)
    if is_server:
        server = ("--server", served.server.url)
        token = headwater(*server, *credentials(made), "token", "--realm", realm).succeeded().out.strip()
        flags = (*server, "--set", f"server_token={token}")
    target = Target(flags, realm, is_server)
    target.run("catalog", "create", "lake").succeeded()
    return target


@pytest.fixture
def run(target: Target) -> Run:
    return target.run


def lines(run: CliRun) -> list[Any]:
    return [json.loads(line) for line in run.succeeded().out.splitlines()]


def test_catalogs(run: Run) -> None:
    made = run("catalog", "create", "other", "--json").json
    assert (made["name"], made["default_branch"]) == ("other", "main")
    assert [one["name"] for one in run("catalog", "list", "--json").json["catalogs"]] == ["lake", "other"]
    assert run("catalog", "update", "other", "--property", "team=bi", "--json").json["properties"] == {"team": "bi"}
    assert run("commit", "--catalog", "other", "--namespace", "db").code == 0
    assert run("catalog", "drop", "other", "--require-empty", "--yes").error.startswith("error")
    assert run("catalog", "drop", "other").code == 1, "nobody said yes"
    assert run("catalog", "drop", "other", "--yes").succeeded().out == "catalog other is dropped\n"
    assert "CATALOG_NOT_FOUND" in run("snapshot", "--catalog", "other").error
    assert "CATALOG_EXISTS" in run("catalog", "create", "lake").error


def test_commits_log_changes_and_snapshots(run: Run) -> None:
    done = run("commit", "--namespace", "db", "--put", "db.a=s3://a", "-m", "First", "--request-id", "r1", "--json").json
    again = run("commit", "--namespace", "db", "--put", "db.a=s3://a", "-m", "First", "--request-id", "r1", "--json").json
    assert (again["commit_id"], again["replayed"]) == (done["commit_id"], True)
    operation = {"op": "put", "key": ["db", "b"], "type": "ICEBERG_TABLE", "content": {"metadata_location": "s3://b"}}
    second = run("commit", "-", "--json", stdin=json.dumps([operation])).json
    assert [one["commit_id"] for one in lines(run("log", "--json"))] == [second["commit_id"], done["commit_id"]]
    assert [one["seq"] for one in lines(run("changes", "--after", "1", "--json"))] == [2, 3]
    assert [one["seq"] for one in lines(run("changes", "--after", "1", "--prefix", "db.b", "--json"))] == [3]
    snapshot = run("snapshot", "main~1", "--json").json
    assert [one["key"] for one in snapshot["entries"]] == [["db"], ["db", "a"]]
    assert "COMMIT_CONFLICT" in run("commit", "--put", "none.a=s3://x").error
    assert "UNEXPECTED_HASH" in run("commit", "--namespace", "x", "--expected-head", done["commit_id"]).error


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_references(run: Run, kind: str) -> None:
    first = run("commit", "--namespace", "db", "--json").json["commit_id"]
    second = run("commit", "--namespace", "db2", "--json").json["commit_id"]
    made = run(kind, "create", "r", first, "-m", "why", "--json").json
    assert (made["change"]["kind"], made["change"]["message"], made["commit_id"]) == ("create", "why", first)
    assert run(kind, "show", "r", "--json").json["commit_id"] == first
    moved = run(kind, "assign", "r", "main", "--expected-head", first, "-m", "move", "--json").json
    assert (moved["commit_id"], moved["change"]["message"]) == (second, "move")
    assert "nothing to do" in run(kind, "assign", "r", "main").succeeded().out
    assert "REFERENCE_EXISTS" in run(kind, "create", "r").error
    assert run(kind, "delete", "r", "-m", "done", "--json").json["change"]["message"] == "done"
    assert "r" not in [one["name"] for one in run(kind, "list", "--json").json["references"]]
    assert "r" in [one["name"] for one in run(kind, "list", "--deleted", "--json").json["references"]]
    assert "REFERENCE_NOT_FOUND" in run(kind, "show", "nowhere").error


def test_diffs_merges_and_transplants(run: Run) -> None:
    run("commit", "--namespace", "db", "--put", "db.a=s3://1").succeeded()
    run("branch", "create", "dev").succeeded()
    run("commit", "--branch", "dev", "--put", "db.a=s3://2").succeeded()
    picked = run("commit", "--branch", "dev", "--put", "db.new=s3://new", "-m", "New", "--json").json["commit_id"]
    run("commit", "--put", "db.a=s3://3").succeeded()
    diff = {".".join(one["key"]): (one["before"], one["after"]) for one in run("diff", "main", "dev", "--json").json["diff"]}
    assert set(diff) == {"db.a", "db.new"} and diff["db.new"][0] is None
    preview = run("merge", "dev", "--dry-run", "--json").json
    assert {".".join(one["key"]): one["verdict"] for one in preview["keys"]} == {"db.a": "conflict", "db.new": "take"}
    assert "db.a" in run("merge", "dev").error
    copied = run("transplant", picked, "--json").json
    assert (copied["change"]["kind"], copied["change"]["message"]) == ("transplant", "New")
    merged = run("merge", "dev", "--force", "db.a", "-m", "Theirs", "--json").json
    assert (merged["change"]["kind"], merged["change"]["message"]) == ("merge", "Theirs")
    assert run("diff", "main", "dev", "--json").json == {"diff": []}
    assert "nothing to do" in run("merge", "dev").succeeded().out


def test_audits(run: Run, tmp_path: Path) -> None:
    """Over more than one page of a state, on a branch that stands on another one."""
    tables = [{"op": "put", "key": [f"t{number:04}"], "type": "NAMESPACE", "content": {}} for number in range(1_100)]
    run("commit", "-", stdin=json.dumps(tables)).succeeded()
    run("branch", "create", "dev").succeeded()
    run("commit", "--branch", "dev", "--delete", "t0007", "--namespace", "new").succeeded()
    verified = run("audit", "verify", "--branch", "dev", "--json").json["pointers"]
    assert [(one["pointer"], one["entries"], one["flaw"]) for one in verified] == [("cat/1/heads/dev", 2, None)]
    replayed = run("audit", "replay", "--branch", "dev", "--json").json
    assert (replayed["seq"], replayed["keys"], replayed["mismatches"]) == (2, 1_100, [])
    changed = run("audit", "diff", "1", "latest", "--branch", "dev", "--json").json["changed"]
    assert [(one["key"], one["before"] is None) for one in changed] == [(["new"], True), (["t0007"], False)]
    file = tmp_path / "history.jsonl"
    exported = run("audit", "export", str(file), "--json").json
    assert len(file.read_text().splitlines()) == exported["changes"] and "principals" in exported["pointers"]
    headwater("audit", "verify", "--file", str(file)).succeeded()
    assert "POINTER_NOT_FOUND" in run("audit", "replay", "--pointer", "nowhere").error


def test_principals_roles_and_grants(run: Run) -> None:
    assert run("role", "create", "analyst", "--property", "team=bi", "--json").json["properties"] == {"team": "bi"}
    made = run("principal", "create", "ann", "--role", "analyst", "--property", "a=b", "--json").json
    assert made["client_secret"] and made["properties"] == {"a": "b"}
    assert "RECORD_NOT_FOUND" in run("principal", "create", "bob", "--role", "nobody").error
    run("role", "create", "reader", "--catalog", "lake").succeeded()
    assert run("role", "assign", "reader", "analyst", "--catalog", "lake").succeeded().out == "analyst has reader\n"
    added = run("grant", "add", "reader", "table.read", "--catalog", "lake", "--path", "db.sales", "--json").json
    assert added == {"role": "reader", "right": "table.read", "path": ["db", "sales"], "changed": True}
    assert (
        run("grant", "add", "reader", "table.read", "--catalog", "lake", "--path", "db.sales", "--json").json["changed"]
        is False
    )
    shown = run("principal", "show", "ann", "--json").json
    assert shown["roles"] == ["analyst"]
    assert {(one["over"], one["right"], one["path"]) for one in shown["rights"]} == {
        ("lake", "table.read", "db.sales"),
        ("lake", "table.list", "db.sales"),
        ("lake", "statistics.read", "db.sales"),
    }
    assert run("role", "show", "reader", "--catalog", "lake", "--json").json["members"] == ["analyst"]
    assert [one["name"] for one in run("role", "list", "--catalog", "lake", "--json").json["roles"]] == ["reader"]
    listed = run("grant", "list", "--catalog", "lake", "--json").json["grants"]
    assert listed == [{"role": "reader", "right": "table.read", "path": ["db", "sales"]}]
    run("grant", "revoke", "reader", "table.read", "--catalog", "lake", "--path", "db.sales").succeeded()
    run("role", "revoke", "reader", "analyst", "--catalog", "lake").succeeded()
    assert run("principal", "show", "ann", "--json").json["rights"] == []
    rotated = run("principal", "rotate", "ann", "--overlap-seconds", "60", "--json").json
    assert rotated["client_secret"] != made["client_secret"] and len(rotated["secrets"]) == 2
    assert run("principal", "update", "ann", "--property", "c=d", "--json").json["properties"] == {"c": "d"}
    assert run("role", "delete", "reader", "--catalog", "lake", "--yes", "--json").json == {"deleted": "reader"}
    assert run("principal", "delete", "ann", "--yes", "--json").json == {"deleted": "ann"}
    assert [one["name"] for one in run("principal", "list", "--json").json["principals"]] == ["root"]


def test_policies(run: Run) -> None:
    for name, days in (("wide", 30), ("near", 3)):
        content = f'{{"days": {days}}}'
        made = run("policy", "create", name, "--type", "retention", "--content", content, "--json").json
        assert made["content"] == {"days": days}
    run("policy", "attach", "wide").succeeded()
    run("policy", "attach", "near", "--catalog", "lake", "--path", "db").succeeded()
    applicable = run("policy", "applicable", "--catalog", "lake", "--path", "db.orders", "--json").json["policies"]
    assert [one["name"] for one in applicable] == ["near"]
    assert run("policy", "update", "near", "--content", '{"days": 4}', "--json").json["content"] == {"days": 4}
    run("policy", "detach", "near", "--catalog", "lake", "--path", "db").succeeded()
    assert [one["name"] for one in run("policy", "list", "--json").json["policies"]] == ["near", "wide"]
    assert run("policy", "delete", "wide", "--yes").error.startswith("error")
    assert run("policy", "delete", "wide", "--detach-all", "--yes", "--json").json == {"deleted": "wide"}


def test_realms(served: Served) -> None:
    """On both, a realm goes through its whole life."""
    for flags in (("--store", served.store), ("--server", served.server.url, *served.admin)):
        name = f"tenant{next(_numbers)}"

        def realm(*arguments: str, flags: tuple[str, ...] = flags) -> CliRun:
            return headwater(*flags, "realm", *arguments)

        assert realm("create", name, "--json").json["status"] == "CREATED"
        assert len(realm("init", name, "--json").json["client_secret"]) == 52
        assert realm("show", name, "--json").json["status"] == "ACTIVE"
        assert name in [one["name"] for one in realm("list", "--json").json["realms"]]
        assert realm("deactivate", name, "--json").json["status"] == "INACTIVE"
        assert realm("activate", name, "--json").json["status"] == "ACTIVE"
        assert "REALM_STATE_CONFLICT" in realm("delete", name, "--yes").error
        realm("deactivate", name).succeeded()
        assert realm("purge", name).code == 1, "nobody said yes"
        assert realm("purge", name, "--yes", "--json").json["status"] == "PURGING"
        unused = f"{name}x"
        realm("create", unused).succeeded()
        assert realm("delete", unused, "--yes", "--json").json == {"deleted": unused}


def test_principals_of_the_system_over_a_server(served: Served) -> None:
    listed = headwater(
        "--server", served.server.url, *served.admin, "principal", "list", "--realm", "::system::", "--json"
    ).json
    assert [one["name"] for one in listed["principals"]] == ["admin"]
    shown = headwater(
        "--server", served.server.url, *served.admin, "principal", "show", "admin", "--realm", "::system::", "--json"
    )
    assert "system.manage" in {one["right"] for one in shown.json["rights"]}


def test_the_last_policies_are_listed_too(served: Served) -> None:
    """More than one page, on both."""
    from headwater.embedded import open_embedded
    from headwater.producer.access.policies import Policies
    from headwater.producer.access.writing import WriteMeta

    made = headwater("--store", served.store, "realm", "create", "many", "--init", "--json").json
    with open_embedded(served.store) as engine:
        policies = Policies(engine.realm("many").kernel)
        for number in range(1_001):
            policies.create(f"p{number:04}", type="t", content={}, description="", meta=WriteMeta("test"))
    for flags in (("--store", served.store), ("--server", served.server.url, *credentials(made))):
        listed = headwater(*flags, "policy", "list", "--realm", "many", "--json").json["policies"]
        assert len(listed) == 1_001 and listed[-1]["name"] == "p1000"


def test_a_server_asks_for_credentials(served: Served, tmp_path: Path) -> None:
    refused = headwater("--server", served.server.url, "catalog", "list").error
    assert refused.startswith("error NOT_AUTHENTICATED")
    wrong = headwater(
        "--server", served.server.url, "--set", "server_client_id=x", "--set", "server_client_secret=y", "catalog", "list"
    )
    assert wrong.error.startswith("error NOT_AUTHENTICATED")
    assert headwater("--server", "http://127.0.0.1:1", "catalog", "list").error.startswith("error FEED_UNREACHABLE")
    assert (
        "no certificates"
        in headwater("catalog", "list", "--server", "https://127.0.0.1:1", "--ca", str(tmp_path / "none")).error
    )


@pytest.mark.parametrize("command", ["maintain runs", "maintain expire --yes", "store show", "principal bootstrap"])
def test_a_command_that_needs_the_store_refuses_a_named_server(tmp_path: Path, command: str) -> None:
    """It would work on another lake than was meant."""
    store = f"sqlite:///{tmp_path}/lake.db"
    error = headwater("--store", store, "--server", "http://127.0.0.1:1", *command.split()).error
    assert "works on the store itself" in error and "--store" in error
