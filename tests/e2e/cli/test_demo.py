"""The demo as a newcomer runs it, and its verdicts upon histories in which a promise was broken."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from headwater.cli.operation import demo
from headwater.demo import checks
from headwater.demo.checks import Check
from headwater.demo.journal import JournalEvent, JournalLine, acknowledged, in_flight, read_journal
from headwater.demo.maintenance import MaintenanceResult
from headwater.demo.run import DemoPlan, run_demo
from headwater.demo.summary import Summary, summarize
from headwater.demo.writer_processes import Killed
from headwater.schemas.change import Change, Kind, Op
from tests.support.fixtures.cli_runs import headwater

UPKEPT = MaintenanceResult(
    store="", days=1, kept_days=1, changes=1, expired=0, streamed=0, without_spark="", before={}, after={}, purged=0,
    seconds=0.1, checks=[],
)  # fmt: skip


class Performance(NamedTuple):
    folder: Path
    shown: list[Change]
    said: list[str]
    summary: Summary


@pytest.fixture(scope="module")
def performance(tmp_path_factory: pytest.TempPathFactory) -> Performance:
    folder, shown, said = tmp_path_factory.mktemp("demo"), list[Change](), list[str]()
    happened = run_demo(folder, DemoPlan(writers=3, steps=8, pause_seconds=0.05), shown.append, said.append)
    return Performance(folder, shown, said, summarize(happened))


def test_every_promise_is_kept_although_a_writer_is_killed(performance: Performance) -> None:
    summary, killed = performance.summary, performance.summary.killed
    assert summary.all_kept and len(summary.checks) == 9, summary.checks
    assert killed.exit_code == -9 and killed.acknowledged > 0
    assert any("kill -9" in text for text in performance.said)
    lines = read_journal(performance.folder / "nightly.diary.jsonl")
    assert len(acknowledged(lines)) > killed.acknowledged, "nobody continued for the killed writer"
    assert in_flight(lines) is None


def test_the_writer_is_killed_while_it_waits_for_a_response(performance: Performance) -> None:
    last = performance.summary.killed.in_flight
    assert last is not None and last.operations >= 20
    lines = read_journal(performance.folder / "nightly.diary.jsonl")
    assert [line.event for line in lines if line.request_id == last.request_id] == ["tried", "tried", "acknowledged"]


def test_each_change_is_shown_once_as_it_happens(performance: Performance) -> None:
    assert len(performance.shown) == performance.summary.changes == len({change.entry_id for change in performance.shown})


def test_writers_create_evolve_rename_drop_branch_and_merge(performance: Performance) -> None:
    assert {"commit", "create", "merge", "delete"} <= performance.summary.kinds.keys()
    operations = [op for change in performance.shown for op in change.operations]
    assert {op.op for op in operations} == set(Op)
    assert any(op.before and op.after for op in operations)
    assert {"sales", "nightly", "web"} <= {change.author for change in performance.shown}


def test_the_command_shows_changes_and_ends_with_promises_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [sys.executable, "-m", "headwater", "demo", "--keep", str(kept), "--writers", "2", "--steps", "8"]
    command.append("--no-spark")
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9 nightly" in done.stdout and "Every promise was kept." in done.stdout
    assert done.stdout.index("+nightly") < done.stdout.index("Maintenance of 90 days") < done.stdout.index("Promises")
    assert headwater("--store", f"sqlite:///{kept}/demo.db", "log", "--limit", "1").code == 0
    assert "--keep" in headwater("demo", "--keep", str(kept)).error


def test_the_summary_can_be_had_as_json_and_a_broken_promise_is_exit_code_1(
    performance: Performance, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = msgspec.structs.replace(performance.summary, checks=[Check("a promise", False, "it was broken")])
    monkeypatch.setattr(demo, "run_demo", lambda *_, **__: None)
    monkeypatch.setattr(demo, "summarize", lambda _: broken)
    monkeypatch.setattr(demo, "run_maintenance", lambda *_, **__: UPKEPT)
    run = headwater("demo", "--json")
    assert run.code == 1 and json.loads(run.out)["all_kept"] is False
    assert headwater("demo").code == 1


# ── a broken promise is seen ────────────────────────────────────────────────────────────────────────────────


def change(seq: int, request_id: str, operations: int = 0) -> Change:
    blank = dict.fromkeys(("realm", "entry_id", "commit_id", "parent_id", "head_before", "time", "author", "message"), "")
    ops = [{"op": "put", "key": [str(n)], "content_id": "", "type": "T", "after": {}} for n in range(operations)]
    fields = {**blank, "pointer": "p", "seq": seq, "kind": Kind.COMMIT, "headers": {}, "request_id": request_id}
    return msgspec.convert({**fields, "operations": ops, "objects_added": [], "objects_released": []}, Change)


def line(event: JournalEvent, request_id: str, seq: int = 0, operations: int = 0) -> JournalLine:
    return JournalLine(event=event, step=0, request_id=request_id, pointer="p", seq=seq, operations=operations)


def killed(exit_code: int = -9, operations: int = 3) -> Killed:
    return Killed("nightly", 1, exit_code, 5, line(JournalEvent.TRIED, "r", operations=operations))


def test_a_lost_commit_breaks_the_promise() -> None:
    diaries = {"w": [line(JournalEvent.TRIED, "a"), line(JournalEvent.ACKNOWLEDGED, "a", seq=1)]}
    assert checks.nothing_lost(diaries, {"p": [change(1, "a")]}).kept
    assert not checks.nothing_lost(diaries, {"p": [change(1, "b")]}).kept
    assert not checks.nothing_lost(diaries, {}).kept
    assert not checks.nothing_lost({}, {}).kept, "without a witness nothing is shown"


def test_a_doubled_or_invented_commit_breaks_the_promise() -> None:
    assert not checks.nothing_doubled({"p": [change(1, "a"), change(2, "a")]}).kept
    assert not checks.nothing_invented({"w": []}, {"p": [change(1, "a")]}, set()).kept


@pytest.mark.parametrize(
    ("found", "kept"),
    [([], True), ([change(1, "r", 3)], True), ([change(1, "r", 2)], False), ([change(1, "r", 3), change(2, "r", 3)], False)],
)
def test_half_a_commit_breaks_the_promise(found: Sequence[Change], kept: bool) -> None:
    assert checks.all_or_nothing(killed(), found).kept is kept


def test_a_gap_a_change_that_was_not_seen_and_a_wrong_state_break_the_promise() -> None:
    log = [change(1, "a", 1), change(3, "b")]
    assert not checks.dense_and_chained({"p": log}).kept
    assert not checks.follower_saw_all({"p": []}, {"p": log}).kept
    assert not checks.state_is_the_sum(log, {("other",): {}}).kept
    assert not checks.others_finished(["exit code 1: why"]).kept


def test_a_writer_that_ended_by_itself_was_not_killed() -> None:
    assert not checks.kill_was_real(killed(exit_code=0)).kept


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_bytes(msgspec.json.encode(line(JournalEvent.TRIED, "a")) + b'\n{"event"')
    assert in_flight(read_journal(diary)) is not None
    assert read_journal(tmp_path / "none") == []
