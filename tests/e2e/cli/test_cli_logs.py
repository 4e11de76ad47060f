"""`headwater reflog`, `realm log`, `subscribe` and `audit` of the logs of all references and of `::system::`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.servers.feed_server import feed_server


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('logs')}/lake.db"
    for arguments in (
        ("store", "create"),
        ("realm", "create", "default", "--init"),
        ("realm", "create", "tenant", "--init"),
        ("realm", "deactivate", "tenant"),
        ("catalog", "create", "lake"),
        ("commit", "--namespace", "db"),
        ("branch", "create", "dev"),
        ("commit", "--branch", "dev", "--put", "db.t=s3://t/1"),
        ("branch", "delete", "dev"),
        ("tag", "create", "v1"),
    ):
        headwater("--store", url, *arguments).succeeded()
    return url


def _lines(run: CliRun) -> list[dict[str, Any]]:
    assert run.code == 0, run.err
    return [json.loads(line) for line in run.out.splitlines()]


def test_the_reference_log_is_printed_newest_first_and_the_same_from_a_server(store: str) -> None:
    local = _lines(headwater("--store", store, "reflog", "--json"))
    assert [(one["pointer"].rpartition("/")[2], one["kind"]) for one in local] == [
        ("v1", "create"), ("dev", "delete"), ("dev", "commit"), ("dev", "create"), ("main", "commit"), ("main", "create"),
    ]  # fmt: skip
    moves = headwater("--store", store, "reflog", "--kind", "delete", "--limit", "3")
    assert "cat/1/heads/dev" in moves.out and len(moves.out.splitlines()) == 1
    with feed_server(store) as server:
        assert _lines(headwater("--server", server.url, "reflog", "--json")) == local
        of_realm = _lines(headwater("--server", server.url, "realm", "log", "tenant", "--json"))
        assert of_realm == _lines(headwater("--store", store, "realm", "log", "tenant", "--json"))
        subscribed = _lines(headwater("--server", server.url, "subscribe", "--realm", "::system::", "--json"))
        assert [one for one in subscribed if one["operations"][0]["key"] == ["tenant"]] == of_realm
        verified = headwater("--server", server.url, "audit", "verify", "--realm", "::system::", "--json").json
        assert {one["pointer"]: one["flaw"] for one in verified["pointers"]}["realms"] is None
    assert [one["operations"][0]["after"]["status"] for one in of_realm] == ["CREATED", "INITIALIZING", "ACTIVE", "INACTIVE"]


def test_the_systems_log_is_verified_replayed_and_exported(store: str, tmp_path: Path) -> None:
    verified = headwater("--store", store, "audit", "verify", "--realm", "::system::", "--json").json["pointers"]
    assert [one["flaw"] for one in verified] == [None] * len(verified) and "realms" in {one["pointer"] for one in verified}
    replayed = headwater("--store", store, "audit", "replay", "--realm", "::system::", "--json").json
    assert (replayed["pointer"], replayed["keys"], replayed["mismatches"]) == ("realms", 2, [])
    file = tmp_path / "system.jsonl"
    exported = headwater("--store", store, "audit", "export", str(file), "--realm", "::system::", "--json").json
    assert "realms" in exported["pointers"]
    headwater("audit", "verify", "--file", str(file)).succeeded()
    changed = file.read_text().replace("INACTIVE", "ACTIVE", 1)
    file.write_text(changed)
    assert headwater("audit", "verify", "--file", str(file)).code == 1


def test_an_audit_of_a_realm_covers_references_that_were_deleted(store: str) -> None:
    verified = {one["pointer"]: one for one in headwater("--store", store, "audit", "verify", "--json").json["pointers"]}
    assert verified["cat/1/heads/dev"]["entries"] == 3 and verified["cat/1/heads/dev"]["flaw"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("reflog", "--catalog", "none"), "CATALOG_NOT_FOUND"),
        (("subscribe", "--realm", "::system::", "--branch", "main"), "`::system::` has no catalogs"),
        (("audit", "replay", "--realm", "::system::", "--pointer", "none"), "POINTER_NOT_FOUND"),
        (("realm", "log", "--after", "nowhere"), "error"),
        (("commit", "--realm", "::system::", "--namespace", "db"), "::system::"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(store: str, arguments: tuple[str, ...], said: str) -> None:
    run = headwater("--store", store, *arguments)
    assert run.code == 2 and said in run.err and len(run.err.strip().splitlines()) == 1
