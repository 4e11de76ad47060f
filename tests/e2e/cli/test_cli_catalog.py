"""The commands of daily work as their users meet them: catalog, commit, log, changes, snapshot, diff, branch, tag, merge."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.schemas.entry_ids import EMPTY
from tests.support.fixtures.cli_runs import CliRun, headwater

Run = Callable[..., CliRun]
Watched = Callable[[], AbstractContextManager[None]]
NOWHERE = "f" * 64


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the realm `default` and the catalog `lake`; tests work on copies."""
    file = tmp_path_factory.mktemp("store") / "lake.db"
    url = f"sqlite:///{file}"
    for command in (["store", "create"], ["realm", "create", "default", "--init"], ["catalog", "create", "lake"]):
        assert headwater("--store", url, *command).code == 0
    return file


@pytest.fixture
def url(made_once: Path, tmp_path: Path) -> str:
    shutil.copy(made_once, tmp_path / "lake.db")
    return f"sqlite:///{tmp_path}/lake.db"


@pytest.fixture
def run(url: str) -> Run:
    return lambda *arguments, stdin="": headwater("--store", url, *arguments, stdin=stdin)


@pytest.fixture
def put(run: Run) -> Callable[..., str]:
    """`put("db.a")` commits one table, with its namespace if that is not there; the commit id leaves."""

    def commit(key: str, version: int = 1, branch: str = "main") -> str:
        if not any(entry["key"] == ["db"] for entry in run("snapshot", branch, "--json").json["entries"]):
            assert run("commit", "--branch", branch, "--namespace", "db").code == 0
        done = run("commit", "--branch", branch, "--put", f"{key}=s3://lake/{key}/{version}", "--json")
        return str(done.json["commit_id"])

    return commit


@pytest.fixture
def nothing_changes(url: str) -> Watched:
    """Whatever is refused inside leaves every pointer, name and object as it was."""

    @contextmanager
    def watched() -> Iterator[None]:
        before = all_rows(url)
        yield
        assert all_rows(url) == before

    return watched


def all_rows(url: str) -> list[list[Any]]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
        tables = ("headwater_pointers", "headwater_names", "headwater_objects")
        return [sorted(database.execute(f"SELECT * FROM {table}"), key=repr) for table in tables]


def lines(run: CliRun) -> list[Any]:
    assert run.code == 0, run.err
    return [json.loads(line) for line in run.out.splitlines()]


def keys(run: Run, reference: str = "main") -> list[str]:
    return [".".join(entry["key"]) for entry in run("snapshot", reference, "--json").json["entries"]]


# ── catalogs ────────────────────────────────────────────────────────────────────────────────────────────────


def test_catalogs_are_created_listed_and_dropped(run: Run) -> None:
    made = run("catalog", "create", "other", "--storage-root", "s3://other", "--json").json
    assert (made["name"], made["storage_root"], made["default_branch"]) == ("other", "s3://other", "main")
    assert [one["name"] for one in run("catalog", "list", "--json").json["catalogs"]] == ["lake", "other"]
    assert "s3://other" in run("catalog", "list").out
    assert run("commit", "--catalog", "other", "--namespace", "db").code == 0
    assert run("catalog", "drop", "other").code == 1, "nobody said yes"
    assert run("catalog", "drop", "other", "--yes").code == 0
    assert [one["name"] for one in run("catalog", "list", "--json").json["catalogs"]] == ["lake"]
    assert "CATALOG_NOT_FOUND" in run("snapshot", "--catalog", "other").error


def test_a_catalog_that_exists_or_has_a_bad_name_is_refused(run: Run, nothing_changes: Watched) -> None:
    with nothing_changes():
        assert "CATALOG_EXISTS" in run("catalog", "create", "lake").error
        assert "INVALID_NAME" in run("catalog", "create", "a/b").error
        assert "CATALOG_NOT_FOUND" in run("catalog", "drop", "none", "--yes").error


# ── commits ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_flags_commit_namespaces_tables_renames_and_deletions(run: Run) -> None:
    done = run("commit", "--namespace", "db", "--put", "db.a=s3://a", "--put", "db.b=s3://b", "-m", "First", "--author", "ada")
    assert done.code == 0 and "(seq 2)" in done.out
    assert run("commit", "--rename", "db.a=db.c", "--delete", "db.b").code == 0
    assert keys(run) == ["db", "db.c"]
    first, second = lines(run("changes", "--after", "1", "--json"))
    assert (first["author"], first["message"], len(first["operations"])) == ("ada", "First", 3)
    assert {op["op"] for op in second["operations"]} == {"rename", "delete"}


def test_operations_come_as_json_from_a_file_or_standard_input(run: Run, tmp_path: Path) -> None:
    view = {
        "op": "put",
        "key": ["v"],
        "type": "ICEBERG_VIEW",
        "content": {"metadata_location": "s3://v"},
        "must_not_exist": True,
    }
    file = tmp_path / "operations.json"
    file.write_text(json.dumps([{"op": "put", "key": ["db.with.dots"], "type": "NAMESPACE", "content": {}}]))
    assert run("commit", str(file)).code == 0
    assert run("commit", "-", stdin=json.dumps({"operations": [view | {"must_not_exist": True}]})).code == 0
    entries = run("snapshot", "--json").json["entries"]
    assert [(entry["key"], entry["type"]) for entry in entries] == [(["db.with.dots"], "NAMESPACE"), (["v"], "ICEBERG_VIEW")]


def test_the_same_request_id_commits_once(run: Run) -> None:
    first = run("commit", "--namespace", "db", "--request-id", "r1", "--json").json
    again = run("commit", "--namespace", "db", "--request-id", "r1", "--json").json
    assert (again["commit_id"], again["replayed"], first["replayed"]) == (first["commit_id"], True, False)
    assert "committed before" in run("commit", "--namespace", "db", "--request-id", "r1").out


def test_conflicts_with_the_head_name_every_key(run: Run, put: Callable[..., str], nothing_changes: Watched) -> None:
    base = put("db.a")
    put("db.a", 2)
    new = {"op": "put", "type": "ICEBERG_TABLE", "content": {"metadata_location": "s3://x"}}
    both = [{**new, "key": ["db", "a"], "must_not_exist": True}, {**new, "key": ["none", "b"]}]
    with nothing_changes():
        error = run("commit", "-", stdin=json.dumps(both)).error
        assert "COMMIT_CONFLICT" in error and "db.a" in error and "none" in error
        assert "UNEXPECTED_HASH" in run("commit", "--namespace", "x", "--expected-head", base).error
        assert "db.a" in run("commit", "--put", "db.a=s3://mine", "--base-commit", base).error
        assert "db" in run("commit", "--delete", "db").error
    assert run("commit", "--put", "db.b=s3://mine", "--base-commit", base).code == 0, "other keys are no conflict"


# ── the log and the feed ────────────────────────────────────────────────────────────────────────────────────


def test_the_log_is_newest_first_and_the_changes_are_oldest_first(run: Run, put: Callable[..., str]) -> None:
    first, second = put("db.a"), put("db.b")
    assert [change["commit_id"] for change in lines(run("log", "--json", "--limit", "2"))] == [second, first]
    assert [change["commit_id"] for change in lines(run("changes", "--json"))][-2:] == [first, second]
    assert lines(run("log", "main~1", "--json"))[0]["commit_id"] == first
    assert lines(run("log", first, "--json", "--limit", "1"))[0]["commit_id"] == first
    assert "+db.b" in run("log", "--limit", "1").out


def test_changes_begin_after_any_kind_of_cursor(run: Run, put: Callable[..., str]) -> None:
    put("db.a")
    commits = [put(f"db.{name}") for name in "bcd"]
    everything = lines(run("changes", "--json"))
    assert [change["seq"] for change in everything] == [1, 2, 3, 4, 5, 6]
    at_b = everything[3]
    for after in (str(at_b["seq"]), at_b["commit_id"], at_b["entry_id"], at_b["time"]):
        assert [change["commit_id"] for change in lines(run("changes", "--after", after, "--json"))] == commits[1:]
    assert lines(run("changes", "--after", "earliest", "--json")) == everything
    assert lines(run("changes", "--after", "latest", "--json")) == []
    assert [change["seq"] for change in lines(run("changes", "--after", "2", "--limit", "2", "--json"))] == [3, 4]
    assert lines(run("changes", "--after", EMPTY.hex(), "--json"))[0]["seq"] == 2


def test_filters_show_whole_changes_and_keep_deletions(run: Run) -> None:
    run("commit", "--namespace", "db", "--namespace", "dbx", "--put", "db.a=s3://a", "--put", "dbx.a=s3://b")
    run("commit", "--put", "dbx.a=s3://c")
    run("commit", "--delete", "dbx.a")
    run("commit", "--rename", "db.a=dbx.b")

    def seqs(*filters: str) -> list[int]:
        return [change["seq"] for change in lines(run("changes", *filters, "--json"))]

    assert seqs("--prefix", "db") == [1, 2, 5], "a rename out of the prefix is shown, and so is the branch's creation"
    assert seqs("--kind", "commit") == [2, 3, 4, 5]
    assert seqs("--kind", "commit", "--op", "delete") == [4]
    assert seqs("--kind", "commit", "--type", "NAMESPACE") == [2, 4], "a deletion is never hidden by a type"
    assert len(lines(run("changes", "--prefix", "db", "--after", "1", "--limit", "1", "--json"))[0]["operations"]) == 4


def test_a_follower_in_another_process_gets_what_is_committed_later(run: Run, url: str) -> None:
    command = [sys.executable, "-m", "headwater", "--store", url, "changes", "--follow", "--json", "--limit", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None and follower.stderr is not None
        assert json.loads(follower.stdout.readline())["kind"] == "create"
        for name in ("one", "two"):
            run("commit", "--namespace", name)
            assert json.loads(follower.stdout.readline())["operations"][0]["key"] == [name]
        assert follower.wait(60) == 0, follower.stderr.read()


# ── states ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_shows_the_state_at_any_commit_and_where_to_follow_from(run: Run, put: Callable[..., str]) -> None:
    first = put("db.a")
    put("db.b")
    assert keys(run) == ["db", "db.a", "db.b"] and keys(run, first) == keys(run, "main~1") == ["db", "db.a"]
    snapshot = run("snapshot", "main~1", "--prefix", "db", "--json").json
    assert [entry["key"] for entry in snapshot["entries"]] == [["db", "a"]]
    assert [change["seq"] for change in lines(run("changes", "--after", str(snapshot["seq"]), "--json"))] == [4]
    assert "s3://lake/db.a/1" in run("snapshot").out


def test_a_diff_names_each_key_that_differs(run: Run, put: Callable[..., str]) -> None:
    put("db.a")
    put("db.b")
    run("branch", "create", "dev")
    put("db.a", 2, "dev")
    run("commit", "--branch", "dev", "--delete", "db.b", "--put", "db.c=s3://c")
    diff = {".".join(one["key"]): (one["before"], one["after"]) for one in run("diff", "main", "dev", "--json").json["diff"]}
    assert set(diff) == {"db.a", "db.b", "db.c"} and diff["db.b"][1] is None and diff["db.c"][0] is None
    assert "s3://lake/db.a/2" in run("diff", "main", "dev").out
    assert len(run("diff", "main", "dev", "--limit", "1", "--json").json["diff"]) == 1
    assert run("diff", "main", "main", "--json").json == {"diff": []}


# ── references ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["branch", "tag"])
def test_references_are_created_shown_assigned_and_deleted(
    run: Run, put: Callable[..., str], kind: str, nothing_changes: Watched
) -> None:
    first, second = put("db.a"), put("db.b")
    assert run(kind, "create", "r", first, "-m", "why", "--json").json["change"]["message"] == "why"
    assert run(kind, "show", "r", "--json").json["commit_id"] == first
    assert run(kind, "assign", "r", "main", "--expected-head", first, "--json").json["commit_id"] == second
    assert "nothing to do" in run(kind, "assign", "r", "main").out
    with nothing_changes():
        assert "UNEXPECTED_HASH" in run(kind, "delete", "r", "--expected-head", first).error
        assert "REFERENCE_EXISTS" in run(kind, "create", "r").error
    assert run(kind, "delete", "r").code == 0
    assert "r" not in [one["name"] for one in run(kind, "list", "--json").json["references"]]
    gone = [one for one in run(kind, "list", "--deleted", "--json").json["references"] if one["name"] == "r"]
    assert gone[0]["deleted"] and gone[0]["seq"] == 3
    assert "deleted" in run(kind, "list", "--deleted").out
    assert run(kind, "create", "r", "--json").json["seq"] == 4, "a name that is used again continues counting"


def test_the_log_of_a_deleted_branch_can_still_be_read(run: Run, put: Callable[..., str]) -> None:
    run("branch", "create", "dev")
    put("db.a", 1, "dev")
    run("branch", "delete", "dev")
    kinds = [change["kind"] for change in lines(run("changes", "--branch", "dev", "--json"))]
    assert kinds == ["create", "commit", "commit", "delete"]
    assert "REFERENCE_NOT_FOUND" in run("commit", "--branch", "dev", "--namespace", "x").error


def test_the_default_branch_cannot_be_deleted_and_a_tag_accepts_no_commits(run: Run, nothing_changes: Watched) -> None:
    run("tag", "create", "v1")
    with nothing_changes():
        assert "REFERENCE_PROTECTED" in run("branch", "delete", "main").error
        assert run("commit", "--branch", "v1", "--namespace", "x").error


# ── merge and transplant ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def parted(run: Run, put: Callable[..., str]) -> None:
    """`main` and `dev` have both changed db.a; `dev` has db.new beside it."""
    put("db.a")
    run("branch", "create", "dev")
    put("db.a", 2, "dev")
    put("db.new", 1, "dev")
    put("db.a", 3)


def location(run: Run, key: str) -> str:
    entries = run("snapshot", "--json").json["entries"]
    return str(next(entry["value"]["metadata_location"] for entry in entries if entry["key"] == key.split(".")))


def test_a_dry_run_shows_every_key_and_writes_nothing(run: Run, parted: None, nothing_changes: Watched) -> None:
    with nothing_changes():
        preview = run("merge", "dev", "--dry-run", "--json").json
        assert {".".join(one["key"]): one["verdict"] for one in preview["keys"]} == {"db.a": "conflict", "db.new": "take"}
        assert not preview["already_merged"] and len(preview["base"]) == 64
        assert "changed on both sides" in " ".join(run("merge", "dev", "--dry-run").out.split())


def test_a_conflict_is_refused_and_rules_decide_it(run: Run, parted: None, nothing_changes: Watched) -> None:
    with nothing_changes():
        error = run("merge", "dev").error
        assert "COMMIT_CONFLICT" in error and "db.a" in error
        assert "both forced and dropped" in run("merge", "dev", "--force", "db.a", "--drop", "db.a").error
    assert run("merge", "dev", "--drop", "db.a", "--json").json["change"]["kind"] == "merge"
    assert location(run, "db.a") == "s3://lake/db.a/3" and "db.new" in keys(run)
    assert "nothing to do" in run("merge", "dev").out, "what is merged already adds nothing"


def test_force_takes_the_sources_content(run: Run, parted: None) -> None:
    done = run("merge", "dev", "--force", "db.a", "-m", "Take dev's", "--json").json
    assert done["change"]["message"] == "Take dev's" and done["change"]["source"]["pointer"].endswith("/dev")
    assert location(run, "db.a") == "s3://lake/db.a/2"


def test_a_default_rule_covers_all_keys(run: Run, parted: None) -> None:
    assert run("merge", "dev", "--default", "FORCE").code == 0
    assert location(run, "db.a") == "s3://lake/db.a/2"


def test_a_merge_can_go_into_another_branch(run: Run, parted: None, nothing_changes: Watched) -> None:
    run("branch", "create", "staging", "dev")
    run("commit", "--namespace", "only_main")
    with nothing_changes():
        assert "COMMIT_CONFLICT" in run("merge", "main", "--into", "staging").error
    assert run("merge", "main", "--into", "staging", "--force", "db.a").code == 0
    assert "only_main" in keys(run, "staging") and "db.new" not in keys(run)


def test_transplant_applies_single_commits_separately(run: Run, put: Callable[..., str]) -> None:
    put("db.a")
    run("branch", "create", "dev")
    picked = [put("db.b", 1, "dev"), put("db.c", 1, "dev")]
    put("db.d", 1, "dev")
    done = run("transplant", *picked, "--json").json
    assert done["seq"] == 5 and keys(run) == ["db", "db.a", "db.b", "db.c"]
    brought = lines(run("changes", "--after", "3", "--json"))
    assert [change["source"]["commit_id"] for change in brought] == picked
    assert {change["kind"] for change in brought} == {"transplant"}


def test_a_transplant_that_conflicts_applies_nothing(run: Run, parted: None, nothing_changes: Watched) -> None:
    clash, new = [change["commit_id"] for change in lines(run("log", "dev", "--json", "--limit", "2"))][::-1]
    with nothing_changes():
        assert "db.a" in run("transplant", new, clash).error
    assert run("transplant", new, clash, "--drop", "db.a").code == 0
    assert "db.new" in keys(run)


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────

BAD: dict[str, tuple[str, ...]] = {
    "unknown branch": ("commit", "--branch", "nope", "--namespace", "x"),
    "unknown branch to read": ("changes", "--branch", "nope"),
    "unknown reference": ("snapshot", "nope"),
    "unknown reference of a log": ("log", "nope"),
    "unknown reference of a diff": ("diff", "main", "nope"),
    "unknown source of a merge": ("merge", "nope"),
    "unknown target of a merge": ("merge", "main", "--into", "nope"),
    "unknown branch to show": ("branch", "show", "nope"),
    "unknown tag to assign": ("tag", "assign", "nope", "main"),
    "unknown target of a branch": ("branch", "create", "b", "nope"),
    "unknown commit": ("snapshot", NOWHERE),
    "unknown commit of a branch": ("snapshot", f"main@{NOWHERE}"),
    "unknown commit to transplant": ("transplant", NOWHERE),
    "commit id that is too short": ("commit", "--namespace", "x", "--expected-head", "abc"),
    "base that is not an id": ("commit", "--namespace", "x", "--base-commit", "z" * 64),
    "base that is nowhere": ("commit", "--namespace", "x", "--base-commit", NOWHERE),
    "expected head of a merge that is not an id": ("merge", "main", "--expected-head", "zz"),
    "ancestor that is none": ("snapshot", "main~99"),
    "steps that are no number": ("snapshot", "main~x"),
    "time without an offset": ("snapshot", "main*2026-01-01T00:00:00"),
    "cursor that is none": ("changes", "--after", "yesterday"),
    "cursor in the future": ("changes", "--after", "999"),
    "cursor of no entry": ("changes", "--after", NOWHERE),
    "cursor that is a torn token": ("changes", "--after", "hwc1_abc"),
    "cursor time without an offset": ("changes", "--after", "2026-01-01T00:00:00"),
    "limit of nothing": ("changes", "--limit", "0"),
    "unknown kind": ("changes", "--kind", "explosion"),
    "unknown flag": ("commit", "--frobnicate"),
    "unknown command": ("frobnicate",),
    "no operations": ("commit",),
    "file and flags": ("commit", "-", "--namespace", "x"),
    "file that is not there": ("commit", "/nowhere/operations.json"),
    "put without a location": ("commit", "--put", "db.a"),
    "put with an empty location": ("commit", "--put", "db.a="),
    "empty key": ("commit", "--namespace", ""),
    "key with an empty element": ("commit", "--namespace", "a..b"),
    "key that is too long": ("commit", "--namespace", "x" * 501),
    "key that is too deep": ("commit", "--namespace", ".".join("x" * 21)),
    "key twice": ("commit", "--namespace", "x", "--delete", "x"),
    "rename without a target": ("commit", "--rename", "a"),
    "message that is too long": ("commit", "--namespace", "x", "-m", "x" * 20_000),
    "author that is blank": ("commit", "--namespace", "x", "--author", " "),
    "request id that is too long": ("commit", "--namespace", "x", "--request-id", "r" * 300),
    "branch name that is none": ("branch", "create", "a..b"),
    "branch name like an id": ("branch", "create", "deadbeef"),
    "tag name that is reserved": ("tag", "create", "HEAD"),
    "merge without a source": ("merge",),
    "merge rule that is none": ("merge", "main", "--default", "MAYBE"),
    "transplant of a move": ("transplant", EMPTY.hex()),
    "unknown realm": ("snapshot", "--realm", "nope"),
    "unknown catalog": ("snapshot", "--catalog", "nope"),
    "setting that is none": ("--set", "frob=1", "snapshot"),
    "store that is not there": ("--store", "sqlite:////nowhere/at/all.db", "snapshot"),
    "type that is none": ("changes", "--type", "icebergtable"),
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_changes_nothing(run: Run, arguments: tuple[str, ...], nothing_changes: Watched) -> None:
    with nothing_changes():
        assert run(*arguments).error.startswith("error ")


BAD_JSON: dict[str, str] = {
    "nothing": "",
    "not JSON": "{",
    "not UTF-8 text": '["\\ud800"]',
    "a number": "7",
    "an object without operations": "{}",
    "an empty list": "[]",
    "a list of numbers": "[1]",
    "an unknown operation": '[{"op": "explode", "key": ["a"]}]',
    "an operation without a key": '[{"op": "delete"}]',
    "a key that is text": '[{"op": "delete", "key": "db.a"}]',
    "a key of numbers": '[{"op": "delete", "key": [1]}]',
    "an unknown field": '[{"op": "delete", "key": ["a"], "why": "x"}]',
    "a put without content": '[{"op": "put", "key": ["a"], "type": "NAMESPACE"}]',
    "a content of another type": '[{"op": "put", "key": ["a"], "type": "ICEBERG_TABLE", "content": {"metadata_location": 7}}]',
    "a content that is a list": '[{"op": "put", "key": ["a"], "type": "NAMESPACE", "content": []}]',
    "a type that is a number": '[{"op": "put", "key": ["a"], "type": 7, "content": {}}]',
    "a flag that is text": '[{"op": "put", "key": ["a"], "type": "NAMESPACE", "content": {}, "must_not_exist": "yes"}]',
    "a content id that is none": '[{"op": "put", "key": ["a"], "type": "NAMESPACE", "content": {}, "content_id": "x"}]',
    "a rename without a source": '[{"op": "rename", "key": ["a"]}]',
    "a read without an expectation": '[{"op": "unchanged", "key": ["a"]}]',
    "a value nested too deep": '[{"op": "put", "key": ["a"], "type": "X", "content": ' + '{"a": ' * 40 + "1" + "}" * 41 + "]",
    "JSON nested without end": "[" * 100_000,
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_bad_json_is_one_line_and_changes_nothing(run: Run, text: str, nothing_changes: Watched) -> None:
    with nothing_changes():
        assert "operations" in run("commit", "-", stdin=text).error


def test_bytes_that_are_no_text_are_refused(run: Run, tmp_path: Path, nothing_changes: Watched) -> None:
    file = tmp_path / "operations.json"
    file.write_bytes(b'[{"op": "delete", "key": ["\xff"]}]')
    with nothing_changes():
        assert "operations" in run("commit", str(file)).error
        assert "FILE" in run("commit", str(tmp_path)).error


def test_a_closed_realm_accepts_no_commits_and_shows_nothing(run: Run) -> None:
    assert run("realm", "deactivate", "default").code == 0
    for arguments in (
        ["commit", "--namespace", "x"],
        ["snapshot"],
        ["changes"],
        ["branch", "create", "b"],
        ["catalog", "list"],
    ):
        assert "REALM_NOT_ACTIVE" in run(*arguments).error
    assert run("realm", "activate", "default").code == 0
    assert [change["seq"] for change in lines(run("changes", "--json"))] == [1]


def test_a_reader_that_has_enough_ends_the_command_quietly(url: str) -> None:
    command = f"'{sys.executable}' -m headwater --store '{url}' changes --json | head -c 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, env=os.environ, timeout=120)
    assert done.stdout == "{" and "Traceback" not in done.stderr
