"""`headwater maintain` from the outside: what it does, what it shows, and what it refuses in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.persistence.rows import Table
from headwater.persistence.store import open_store
from headwater.schemas.errors import MaintenanceSuperseded
from headwater.streaming.retained.folder_owner import claim_folder
from headwater.streaming.retained.retained_store import RetainedStore
from headwater.streaming.runs.runs import Runs
from tests.support.fixtures.cli_runs import CliRun, headwater
from tests.support.fixtures.maintained import MAIN, Maintained
from tests.support.models.commit_harness import whole_log

Cli = Callable[..., CliRun]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    url = f"sqlite:///{tmp_path}/lake.db"

    def run(*arguments: str) -> CliRun:
        return headwater("--store", url, "--set", f"maintenance_dir={tmp_path / 'sets'}", *arguments)

    assert run("store", "create").code == 0
    assert run("realm", "create", "default", "--init").code == 0
    run.url = url  # type: ignore[attr-defined]
    return run


def fill(cli: Cli) -> str:
    """A history of last winter in the realm `default`; its instance leaves."""
    url: str = cli.url  # type: ignore[attr-defined]
    instance = str(cli("realm", "show", "default", "--json").json["instance"])
    with open_store(url) as store:
        realm = Maintained(store.backend, seed=5, realm=instance)
        realm.pointers = realm.pointers[:3]  # an initialized realm has principals of its own
        realm.clock.micros = store.clock.now_micros() - 60 * 86_400 * 1_000_000
        for _ in range(80):
            realm.step()
        for _ in range(3):
            realm.orphan()
    return instance


def test_history_is_expired_and_swept_and_each_run_is_on_record(cli: Cli) -> None:
    instance = fill(cli)
    would = cli("maintain", "expire", "--realm", "default", "--keep", "*=3n", "--dry-run", "--json").json
    assert cli("maintain", "expire", "--keep", "*=3n").code == 1, "nobody said yes"
    expired = cli("maintain", "expire", "--realm", "default", "--keep", "*=3n", "--yes", "--json").json
    assert would["realms"][0]["pointers"] == expired["realms"][0]["pointers"]
    dry = cli("maintain", "sweep", "--realm", "default", "--dry-run", "--json").json
    assert dry["sample"] and sum(it["purged"] for it in dry["counts"][instance].values()) == 0
    swept = cli("maintain", "sweep", "--realm", "default", "--filter", "bloom", "--json").json
    purged = {name: it["purged"] for name, it in swept["counts"][instance].items()}
    assert purged == {name: it["would_purge"] for name, it in dry["counts"][instance].items()}
    assert purged["entry"] > 20 and purged["content"] > 3
    verified = cli("maintain", "check", "--json").json
    assert verified["holds"] and {it["realm"] for it in verified["realms"]} == {instance, "::system::"}
    runs = cli("maintain", "runs", "--json").json["runs"]
    assert [it["operation"] for it in runs] == ["check", "sweep", "sweep", "expire", "expire"]
    assert all(it["status"] == "DONE" for it in runs)
    shown = cli("maintain", "runs", swept["run"], "--json").json
    assert {name: it["purged"] for name, it in shown["counts"][instance].items()} == purged
    for table in (cli("maintain", "runs"), cli("maintain", "runs", swept["run"])):
        assert table.code == 0 and table.out


@pytest.mark.parametrize("type", ["entry", "content"])
def test_deleting_one_reachable_object_on_purpose_is_noticed(cli: Cli, type: str) -> None:
    instance = fill(cli)
    with open_store(cli.url) as store:  # type: ignore[attr-defined]
        rows = [row for split in store.backend.splits(Table.OBJECTS, 1) for row in store.backend.scan(split, realm=instance)]
        log = whole_log(store.kernel(instance), MAIN)
        put = next(op.after_id for logged in log for op in logged.entry.operations if op.after_id)
        reachable = {"entry": log[-1].object_id, "content": put}[type]
        (victim,) = (row for row in rows if row.id == reachable)
        store.backend.delete_scanned([victim])
    run = cli("maintain", "check", "--realm", "default", "--json")
    assert run.code == 1 and str(victim.id) in run.out and '"holds": false' in run.out


def test_realms_are_purged_only_from_purging(cli: Cli) -> None:
    assert "purging" in cli("maintain", "purge-realms", "default").error.lower()
    cli("realm", "deactivate", "default")
    cli("realm", "purge", "default", "--yes")
    assert cli("maintain", "purge-realms", "--dry-run", "--json").json["realms"][0]["realm"] == "default"
    assert cli("maintain", "purge-realms", "--unlisted", "--catalogs", "--json").json["realms"][0]["failure"] == ""
    assert cli("realm", "show", "default", "--json").json["status"] == "PURGED"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("sweep", "--grace", "10"), "grace"),
        (("sweep", "--grace", "nan"), "--grace"),
        (("sweep", "--grace", "inf"), "--grace"),
        (("sweep", "--rows-per-second", "nan"), "--rows-per-second"),
        (("purge-realms", "--catalogs", "--catalog-age", "nan"), "--catalog-age"),
        (("schedule", "--every", "nan"), "--every"),
        (("sweep", "--realm", "nobody"), "nobody"),
        (("expire", "--keep", "sometimes"), "retention"),
        (("expire", "--realm", "nobody"), "nobody"),
        (("check", "--realm", "nobody"), "nobody"),
        (("purge-realms", "nobody"), "nobody"),
        (("runs", "no-such-run"), "no-such-run"),
        (("sweep", "--supersede", "no-such-run"), "no-such-run"),
        (("sweep", "--filter", "guess"), "guess"),
        (("retained", "--realm", "nobody"), "nobody"),
        (("retained", "--realm", "default", "--kafka"), "kafka_bootstrap"),
        (("retained", "--follow"), "--realm"),
    ],
)
def test_invalid_input_is_one_line_and_deletes_nothing(cli: Cli, arguments: tuple[str, ...], word: str) -> None:
    before = rows_of_all(cli)
    assert word in cli("maintain", *arguments).error
    assert rows_of_all(cli) == before


@pytest.mark.parametrize("command", [("retained",), ("sweep", "--stream")])
def test_a_folder_of_sets_that_cannot_be_used_is_one_line_before_spark_starts(
    cli: Cli, command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    claim_folder(str(tmp_path / "taken"), "another", [])
    (RetainedStore(tmp_path / "taken", "other#1").folder / "step-000000001").mkdir(parents=True)
    for name, word in (("file", "cannot be written"), ("taken", "another store")):
        refused = cli("--set", f"maintenance_dir={tmp_path / name}", "maintain", *command)
        assert "maintenance_dir" in refused.error and word in refused.error


def rows_of_all(cli: Cli) -> list[tuple[str, ...]]:
    """Of objects, pointers and names in all realms; leases and records of runs come and go."""
    with open_store(cli.url) as store:  # type: ignore[attr-defined]
        tables = (Table.OBJECTS, Table.POINTERS, Table.NAMES)
        return sorted(
            (str(table), row.realm, row.key, str(row.id))
            for table in tables
            for split in store.backend.splits(table, 1)
            for row in store.backend.scan(split)
        )


@pytest.mark.parametrize(
    ("status", "operations"),
    [
        ("CREATED", ("sweep", "expire", "check", "retained", "purge-realms")),
        ("ACTIVE", ("purge-realms",)),
        ("INACTIVE", ("purge-realms",)),
        ("PURGING", ("sweep", "expire", "check", "retained")),
        ("PURGED", ("sweep", "expire", "check", "retained", "purge-realms")),
    ],
)
def test_a_realm_of_the_wrong_status_is_refused_by_name_before_anything_runs(
    cli: Cli, status: str, operations: tuple[str, ...]
) -> None:
    steps: dict[str, list[tuple[str, ...]]] = {
        "CREATED": [("create", "other")],
        "ACTIVE": [("create", "other", "--init")],
        "INACTIVE": [("create", "other", "--init"), ("deactivate", "other")],
        "PURGING": [("create", "other", "--init"), ("deactivate", "other"), ("purge", "other", "--yes")],
        "PURGED": [("create", "other", "--init"), ("deactivate", "other"), ("purge", "other", "--yes", "--finish")],
    }
    for words in steps[status]:
        assert cli("realm", *words).code == 0
    before = rows_of_all(cli)
    for operation in operations:
        named = ("other",) if operation == "purge-realms" else ("--realm", "other")
        assert f"'other' is {status}" in cli("maintain", operation, *named).error
    assert rows_of_all(cli) == before and cli("maintain", "runs", "--json").json == {"runs": []}


def test_a_run_that_seems_to_live_is_superseded_by_name_alone_and_then_deletes_nothing_more(cli: Cli) -> None:
    with (
        open_store(cli.url) as store,  # type: ignore[attr-defined]
        pytest.raises(MaintenanceSuperseded),
        Runs(store.backend, store.clock).run("sweep") as run,
    ):
        taken = cli("maintain", "expire", "--supersede", run.record.id, "--yes", "--json")
        assert taken.code == 0
        run.renew()  # as its keeper does every twenty seconds
        run.check()
    statuses = {it["id"]: it["status"] for it in cli("maintain", "runs", "--json").json["runs"]}
    assert statuses == {run.record.id: "SUPERSEDED", taken.json["run"]: "DONE"}


def test_ids_of_runs_and_counts_are_whole_on_a_narrow_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = cli("maintain", "sweep", "--json").json["run"]
    assert run in cli("maintain", "runs").out
    counts = cli("maintain", "runs", run, "--json").json["counts"]
    scanned = [it["scanned"] for by_type in counts.values() for it in by_type.values()]
    shown = cli("maintain", "runs", run).out
    assert scanned and all(f" {count} " in shown for count in scanned)


def test_a_second_run_at_once_is_refused_and_names_the_first(cli: Cli) -> None:
    with open_store(cli.url) as store, Runs(store.backend, store.clock).run("sweep") as run:  # type: ignore[attr-defined]
        for operation in ("sweep", "expire", "check", "purge-realms"):
            assert (
                f"--supersede {run.record.id}"
                in cli("maintain", operation, *(["--yes"] if operation == "expire" else [])).error
            )


def test_an_inactive_realm_is_swept_and_a_purging_one_refused_by_name(cli: Cli) -> None:
    cli("realm", "deactivate", "default")
    report = cli("maintain", "sweep", "--realm", "default", "--json").json
    assert len(report["swept"]) == 1 and report["skipped"] == {}
    cli("realm", "purge", "default", "--yes")
    assert "PURGING" in cli("maintain", "sweep", "--realm", "default").error


def test_one_cycle_of_the_schedule_does_all_of_it(cli: Cli) -> None:
    fill(cli)
    walking = ("--set", "maintain_by_stream=never")
    report = cli("--set", "retention=*=3n", *walking, "maintain", "schedule", "--once", "--json").json
    assert report["expired"] > 20 and report["rows_purged"] > 20 and report["failures"] == []


def test_tables_call_realms_and_pointers_by_their_whole_names_on_a_narrow_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fill(cli)
    dry = cli("maintain", "expire", "--keep", "*=3n", "--dry-run").out
    assert "default " in dry and MAIN in dry and "#" not in dry
    assert "default " in cli("maintain", "sweep").out and "default " in cli("maintain", "check").out


def test_a_run_without_rows_still_shows_its_operation_and_outcome(cli: Cli) -> None:
    run = cli("maintain", "expire", "--yes", "--json").json["run"]
    assert "expire: DONE, begun " in cli("maintain", "runs", run).out


def test_a_policy_decides_what_expires_and_explain_shows_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/policies.db"
    store = ("--store", url)
    headwater(*store, "store", "create").succeeded()
    headwater(*store, "realm", "create", "default", "--init").succeeded()
    headwater(*store, "catalog", "create", "lake").succeeded()
    for name in ("a", "b", "c"):
        headwater(*store, "commit", "--namespace", name).succeeded()
    headwater(*store, "policy", "create", "keep-two", "--type", "retention", "--content", '{"entries": 2}').succeeded()
    headwater(*store, "policy", "attach", "keep-two", "--catalog", "lake", "--path", "a.orders").succeeded()
    told = headwater(*store, "maintain", "expire", "--explain", "--keep", "*=1n", "--json").json
    [main] = [one for realm in told["realms"] for one in realm["pointers"] if one["pointer"] == "cat/1/heads/main"]
    assert told["dry_run"] and (main["floor_before"], main["floor_after"], main["head_seq"]) == (1, 3, 4)
    assert [one["source"] for one in main["allowed"]] == ["policy keep-two on cat/1 a.orders", "setting *"]
    shown = headwater(*store, "maintain", "expire", "--explain", "--keep", "*=1n").succeeded()
    assert "(decides)" in shown.out
    headwater(*store, "maintain", "expire", "--keep", "*=1n", "--yes").succeeded()
    assert [line.split()[0] for line in headwater(*store, "changes", "--after", "2").succeeded().out.splitlines()] == ["3", "4"]
    bad = headwater(*store, "policy", "create", "p", "--type", "retention", "--content", '{"period": "P30D"}')
    assert bad.code == 2 and "content" in bad.err and len(bad.err.strip().splitlines()) == 1
