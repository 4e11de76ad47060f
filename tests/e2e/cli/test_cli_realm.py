"""`headwater realm` and `headwater store` as their users meet them, on real stores, good input and bad."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from headwater.persistence.realms.realm_init import REALM_POINTERS
from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.servers.ports import free_port


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    assert headwater("--store", url, "store", "create").code == 0
    return url


def realm(url: str, *arguments: str, stdin: str = "") -> CliRun:
    return headwater("--store", url, "realm", *arguments, stdin=stdin)


# ── the life of a realm ─────────────────────────────────────────────────────────────────────────────────────


def test_a_realm_is_led_from_creation_to_deletion(url: str) -> None:
    assert realm(url, "create", "tenant", "--json").json["status"] == "CREATED"
    done = realm(url, "init", "tenant", "--json").json
    assert done["status"] == "ACTIVE" and done["principal"] == "root" and len(done["client_secret"]) == 52
    assert done["created"] < done["updated"] and done["created"].endswith("Z")
    shown = realm(url, "show", "tenant", "--json").json
    assert [pointer["name"] for pointer in shown["pointers"]] == sorted(REALM_POINTERS)
    assert done["client_secret"] not in json.dumps(shown)
    assert realm(url, "deactivate", "tenant", "--json").json["status"] == "INACTIVE"
    assert {pointer["closed"] for pointer in realm(url, "show", "tenant", "--json").json["pointers"]} == {True}
    assert realm(url, "activate", "tenant", "--json").json["status"] == "ACTIVE"
    assert realm(url, "deactivate", "tenant", "--json").json["status"] == "INACTIVE"
    assert realm(url, "purge", "tenant", "--yes", "--json").json["status"] == "PURGING"
    assert realm(url, "purge", "tenant", "--yes", "--finish", "--json").json["status"] == "PURGED"
    assert realm(url, "delete", "tenant", "--yes", "--json").json == {"deleted": "tenant"}
    assert realm(url, "list", "--json").json == {"realms": []}


def test_create_and_init_can_be_one_step_and_the_secret_is_shown_uncut(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    run = realm(url, "create", "tenant", "--init")
    assert run.code == 0
    [secret] = [line.split()[-1] for line in run.out.splitlines() if line.startswith("client secret")]
    assert len(secret) == 52


def test_tables_show_every_realm(url: str) -> None:
    for name in ("b", "a"):
        realm(url, "create", name)
    out = realm(url, "list").out
    assert out.index(" a ") < out.index(" b ") and out.count("CREATED") == 2
    assert "pointer" in realm(url, "show", "a").out


def test_a_description_is_shown_changed_and_removed(url: str) -> None:
    assert realm(url, "create", "t", "--description", "Sales", "--json").json["description"] == "Sales"
    assert "Sales" in realm(url, "show", "t").out
    assert "description    Sales of Europe" in realm(url, "update", "t", "--description", "Sales of Europe").out
    assert realm(url, "init", "t", "--json").json["description"] == "Sales of Europe"
    long = realm(url, "update", "t", "--description", "x" * 4_097)
    assert long.code == 2 and "4096 bytes" in long.err and len(long.err.splitlines()) == 1
    assert realm(url, "show", "t", "--json").json["description"] == "Sales of Europe"
    assert realm(url, "update", "t", "--description", "", "--json").json["description"] == ""
    assert "description" not in realm(url, "show", "t").out
    assert realm(url, "update", "absent", "--description", "x").code == 2


@pytest.mark.parametrize("step", [("purge", "t"), ("delete", "t")])
def test_destructive_steps_ask_first_and_do_nothing_without_an_answer(url: str, step: tuple[str, str]) -> None:
    realm(url, "create", "t", "--init")
    realm(url, "deactivate", "t")
    for answer in ("", "n\n"):
        run = realm(url, *step, stdin=answer)
        assert run.code == 1 and "t" in run.err
        assert realm(url, "show", "t", "--json").json["status"] == "INACTIVE"


def test_a_confirmed_purge_continues(url: str) -> None:
    realm(url, "create", "t", "--init")
    realm(url, "deactivate", "t")
    assert realm(url, "purge", "t", stdin="y\n").code == 0
    assert realm(url, "show", "t", "--json").json["status"] == "PURGING"


# ── refusals: exit code 2 and one line ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("::system::", "reserved for the system"),
        ("::mine", "reserved for the system"),
        ("x" * 101, "Use 1 to 100"),
        ("two words", "Use 1 to 100"),
        ("a/b", "Use 1 to 100"),
        ("tab\n", "Use 1 to 100"),
        ("", "Use 1 to 100"),
        ("é", "Use 1 to 100"),
    ],
)
def test_a_name_that_cannot_be_a_realm_is_refused_by_every_command(url: str, name: str, says: str) -> None:
    for step in ("create", "show", "init"):
        error = realm(url, step, name).error
        assert error.startswith("error INVALID_NAME: realm: ") and says in error


@pytest.mark.parametrize("step", ["init", "show", "activate", "deactivate", "purge", "delete"])
def test_an_unknown_realm_is_named(url: str, step: str) -> None:
    sure = ["--yes"] if step in ("purge", "delete") else []
    error = realm(url, step, "nobody", *sure).error
    assert error.startswith("error REALM_NOT_FOUND: ") and "nobody" in error and "realm list" in error


def test_a_realm_is_not_created_twice(url: str) -> None:
    realm(url, "create", "t")
    assert realm(url, "create", "t").error.startswith("error REALM_EXISTS: ")


@pytest.mark.parametrize(
    ("steps", "refused", "says"),
    [
        ([], "activate", "is CREATED, not INACTIVE. Initialize it"),
        ([], "deactivate", "is CREATED, not ACTIVE. Initialize it"),
        ([], "purge", "is CREATED and cannot become PURGING. Initialize it"),
        (["init"], "init", "is ACTIVE and cannot become INITIALIZING. Deactivate it first."),
        (["init"], "activate", "is ACTIVE, not INACTIVE. Deactivate it first."),
        (["init"], "purge", "is ACTIVE and cannot become PURGING. Deactivate it first."),
        (["init"], "delete", "is ACTIVE and cannot be deleted. Deactivate it first."),
        (["init", "deactivate"], "delete", "is INACTIVE and cannot be deleted."),
        (["init", "deactivate", "purge"], "activate", "is PURGING, not INACTIVE."),
        (["init", "deactivate", "purge"], "delete", "is PURGING and cannot be deleted."),
        (["init", "deactivate", "purge"], "purge", "is PURGING and cannot become PURGING."),
    ],
)
def test_an_invalid_life_cycle_step_is_refused_with_a_remedy(url: str, steps: list[str], refused: str, says: str) -> None:
    def step(name: str) -> CliRun:
        return realm(url, name, "t", *(["--yes"] if name in ("purge", "delete") else []))

    realm(url, "create", "t")
    for done in steps:
        assert step(done).code == 0
    error = step(refused).error
    assert error.startswith("error REALM_STATE_CONFLICT: ") and says in error


# ── stores that cannot be used ──────────────────────────────────────────────────────────────────────────────


def test_a_missing_schema_names_the_command_that_creates_it(tmp_path: Path) -> None:
    error = headwater("--store", f"sqlite:///{tmp_path}/none.db", "realm", "list").error
    assert error.startswith("error STORE_NOT_CREATED: ") and "headwater store create" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://h/db", "sqlite://", "sqlite://host/x.db", "sqlite:///x.db?synchronous=OFF", "http://[::1/x"]
)
def test_a_wrong_url_is_refused(url: str) -> None:
    assert headwater("--store", url, "store", "show").error.startswith("error INVALID_STORE_URL: store: ")


def test_a_store_of_a_newer_version_is_refused(url: str) -> None:
    with sqlite3.connect(urlsplit(url).path.removeprefix("/")) as connection:
        [table] = [
            row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE '%schema%' AND type = 'table'")
        ]
        connection.execute(f"UPDATE {table} SET version = 999")
    connection.close()
    for command in (("realm", "list"), ("store", "show"), ("store", "create")):
        error = headwater("--store", url, *command).error
        assert error.startswith("error STORE_VERSION_MISMATCH: ") and "999" in error


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look like one" * 40)
    error = headwater("--store", f"sqlite:///{tmp_path}/notes.txt", "realm", "list").error
    assert error.startswith("error STORE_REFUSED: ")


def test_an_unreachable_server_is_one_line() -> None:
    url = f"postgresql://nobody:hidden@127.0.0.1:{free_port()}/none"
    error = headwater("--store", url, "realm", "list").error
    assert error.startswith("error STORE_UNAVAILABLE: ") and "hidden" not in error


def test_an_unreachable_cassandra_is_one_line() -> None:
    error = headwater("--store", f"cassandra://127.0.0.1:{free_port()}/none", "realm", "list").error
    assert error.startswith("error STORE_UNAVAILABLE: ")


def test_a_wrong_password_is_one_line_that_does_not_repeat_it(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    user, _, host = parts.netloc.rpartition("@")
    wrong = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:wr0ng-s3cret@{host}"))
    error = headwater("--store", wrong, "realm", "list").error
    assert error.startswith("error STORE_ACCESS_DENIED: ") and "wr0ng-s3cret" not in error


def test_an_unknown_database_is_one_line(postgres_url: str) -> None:
    missing = urlunsplit(urlsplit(postgres_url)._replace(path="/no_such_database"))
    assert "no_such_database" in headwater("--store", missing, "realm", "list").error


# ── what a store promises ───────────────────────────────────────────────────────────────────────────────────


def test_creating_a_store_twice_keeps_what_is_in_it(url: str) -> None:
    realm(url, "create", "t")
    assert headwater("--store", url, "store", "create").code == 0
    assert [found["name"] for found in realm(url, "list", "--json").json["realms"]] == ["t"]


def test_a_store_shows_backend_version_and_durability(url: str) -> None:
    shown = headwater("--store", url, "store", "show", "--json").json
    assert (shown["backend"], shown["schema_version"], shown["durability"]["level"]) == ("sqlite", 2, "durable")
    assert shown["durability"]["settings"]["synchronous"] == "FULL"
    table = headwater("--store", url, "store", "show")
    assert table.err == "" and "FULL" in table.out


def test_a_weak_store_warns_loudly_on_every_command_or_is_refused(url: str) -> None:
    weak = f"{url}?synchronous=NORMAL"
    for command in (("store", "show"), ("realm", "list")):
        run = headwater("--store", weak, *command)
        assert run.code == 0 and run.err.startswith("warning: ") and run.err.count("warning: ") == 1
        assert "may lose acknowledged commits" in run.err
    refused = headwater("--store", weak, "--set", "durability=refuse", "realm", "list").error
    assert refused.startswith("error STORE_NOT_DURABLE: ")


def test_a_password_is_never_shown(postgres_url: str) -> None:
    password = urlsplit(postgres_url).password
    assert password
    for command in (("store", "create"), ("store", "show", "--json"), ("settings",), ("settings", "--json")):
        run = headwater("--store", postgres_url, *command)
        assert run.code == 0 and password not in run.out + run.err


def test_the_installed_command_answers_the_same(url: str) -> None:
    for arguments, code in ((["realm", "list", "--json"], 0), (["realm", "show", "nobody"], 2)):
        command = [sys.executable, "-m", "headwater", "--store", url, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == code and "Traceback" not in run.stderr
