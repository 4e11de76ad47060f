"""`headwater principal|role|grant|policy` and catalogs that are updated, as their users meet them, good input and bad."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.fixtures.cli_runs import CliRun, headwater


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a realm and a catalog, which every test gets a copy of."""
    file = tmp_path_factory.mktemp("access") / "store.db"
    for arguments in (["store", "create"], ["realm", "create", "default", "--init"], ["catalog", "create", "lake"]):
        assert headwater("--store", f"sqlite:///{file}", *arguments).code == 0
    return file


@pytest.fixture
def url(filled: Path, tmp_path: Path) -> str:
    for file in filled.parent.iterdir():
        shutil.copy(file, tmp_path)
    return f"sqlite:///{tmp_path}/{filled.name}"


def run(url: str, *arguments: str) -> CliRun:
    return headwater("--store", url, *arguments)


def done(url: str, *arguments: str) -> None:
    answered = run(url, *arguments)
    assert answered.code == 0, answered.err


def test_a_principal_gets_its_rights_by_roles_and_loses_them(url: str) -> None:
    assert run(url, "role", "create", "analyst", "--property", "team=bi", "--json").json["properties"] == {"team": "bi"}
    made = run(url, "principal", "create", "ann", "--role", "analyst", "--json").json
    assert made["client_secret"] and made["client_secret"] not in run(url, "principal", "show", "ann", "--json").out
    done(url, "role", "create", "reader", "--catalog", "lake")
    done(url, "role", "assign", "reader", "analyst", "--catalog", "lake")
    added = run(url, "grant", "add", "reader", "table.read", "--catalog", "lake", "--path", "db.sales", "--json").json
    assert added == {"role": "reader", "right": "table.read", "path": ["db", "sales"], "changed": True}
    assert run(url, "grant", "add", "analyst", "catalog.create", "--json").json["changed"]
    shown = run(url, "principal", "show", "ann", "--json").json
    assert shown["roles"] == ["analyst"]
    assert {(one["over"], one["right"], one["path"]) for one in shown["rights"]} == {
        ("realm", "catalog.create", ""),
        ("lake", "table.read", "db.sales"),
        ("lake", "table.list", "db.sales"),
        ("lake", "statistics.read", "db.sales"),
    }
    assert run(url, "role", "show", "reader", "--catalog", "lake", "--json").json["members"] == ["analyst"]
    assert run(url, "grant", "revoke", "analyst", "catalog.create").code == 0
    assert run(url, "role", "delete", "reader", "--catalog", "lake", "--yes", "--json").json == {"deleted": "reader"}
    assert run(url, "principal", "show", "ann", "--json").json["rights"] == []
    assert run(url, "grant", "list", "--catalog", "lake", "--json").json == {"grants": []}
    assert run(url, "role", "revoke", "analyst", "ann").out == "ann has analyst no more\n"


def test_secrets_are_rotated_and_principals_deleted(url: str) -> None:
    first = run(url, "principal", "create", "bot", "--json").json
    second = run(url, "principal", "rotate", "bot", "--overlap-seconds", "60", "--json").json
    assert second["client_secret"] != first["client_secret"] and len(second["secrets"]) == 2
    assert run(url, "principal", "update", "bot", "--property", "a=b", "--json").json["properties"] == {"a": "b"}
    assert [one["name"] for one in run(url, "principal", "list", "--json").json["principals"]] == ["bot", "root"]
    assert "bot" in run(url, "principal", "list").out
    assert run(url, "principal", "delete", "bot", "--yes", "--json").json == {"deleted": "bot"}
    assert run(url, "principal", "show", "bot").error.startswith("error RECORD_NOT_FOUND")


def test_there_is_no_system_administrator_before_one_is_created(url: str) -> None:
    assert run(url, "principal", "list", "--realm", "::system::", "--json").json == {"principals": []}
    made = run(url, "principal", "bootstrap", "--json").json
    assert made["name"] == "admin" and made["client_secret"]
    shown = run(url, "principal", "show", "admin", "--realm", "::system::", "--json").json
    assert "system.manage" in {one["right"] for one in shown["rights"]}
    assert run(url, "principal", "bootstrap").error.startswith("error RECORD_EXISTS")


def test_policies_are_mapped_and_the_nearest_applies(url: str) -> None:
    for name, days in (("wide", 30), ("near", 3)):
        made = run(url, "policy", "create", name, "--type", "retention", "--content", f'{{"days": {days}}}', "--json").json
        assert made["content"] == {"days": days}
    done(url, "policy", "attach", "wide")
    done(url, "policy", "attach", "near", "--catalog", "lake", "--path", "db")

    def names(*where: str) -> list[str]:
        return [one["name"] for one in run(url, "policy", "applicable", *where, "--json").json["policies"]]

    assert names() == names("--catalog", "lake") == ["wide"] and names("--catalog", "lake", "--path", "db.t") == ["near"]
    assert run(url, "policy", "delete", "near", "--yes").error.startswith("error CONFLICT")
    assert run(url, "policy", "detach", "near", "--catalog", "lake", "--path", "db").code == 0
    assert run(url, "policy", "delete", "near", "--yes", "--json").json == {"deleted": "near"}
    assert run(url, "policy", "update", "wide", "--content", '{"forever": true}', "--json").json["content"] == {"forever": True}


def test_a_catalog_is_updated_and_dropped_only_when_empty_if_so_asked(url: str) -> None:
    updated = run(url, "catalog", "update", "lake", "--storage-root", "file:///w", "--property", "a=b", "--json").json
    assert (updated["storage_root"], updated["properties"]) == ("file:///w", {"a": "b"})
    operations = '[{"op": "put", "key": ["db"], "type": "NAMESPACE", "content": {}}]'
    assert headwater("--store", url, "commit", "-", stdin=operations).code == 0
    assert run(url, "catalog", "update", "lake", "--storage-root", "file:///x").error.startswith("error CATALOG_NOT_EMPTY")
    assert run(url, "catalog", "drop", "lake", "--yes", "--require-empty").error.startswith("error CATALOG_NOT_EMPTY")
    assert run(url, "catalog", "drop", "lake", "--yes", "--purge").code == 0
    assert run(url, "catalog", "list", "--json").json == {"catalogs": []}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["principal", "create", "no/"], "INVALID_NAME"),
        (["principal", "create", "x", "--role", "none"], "RECORD_NOT_FOUND"),
        (["principal", "create", "x", "--property", "novalue"], "USAGE"),
        (["principal", "rotate", "root", "--overlap-seconds", "-1"], "INVALID_INPUT"),
        (["role", "assign", "none", "root"], "RECORD_NOT_FOUND"),
        (["role", "create", "x", "--catalog", "none"], "CATALOG_NOT_FOUND"),
        (["grant", "add", "realm-admin", "everything"], "INVALID_INPUT"),
        (["policy", "create", "p", "--type", "t", "--content", "[1]"], "USAGE"),
        (["policy", "attach", "none"], "RECORD_NOT_FOUND"),
        (["principal", "list", "--realm", "none"], "REALM_NOT_FOUND"),
        (["catalog", "update", "none", "--property", "a=b"], "CATALOG_NOT_FOUND"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(url: str, arguments: list[str], error: str) -> None:
    before = run(url, "realm", "show", "default", "--json").json["pointers"]
    assert run(url, *arguments).error.startswith(f"error {error}")
    assert run(url, "realm", "show", "default", "--json").json["pointers"] == before
