"""The driver of a stream is killed; the next one continues, and an exactly-once sink holds each Change once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headwater
from tests.support.fixtures.spark_lakes import fill, logged_changes, put_tables

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180


def follower(store: str, folder: Path, mode: str) -> subprocess.Popen[bytes]:
    """In a group of its own: the JVM and the workers are its children, and die with it."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.processes.spark_follower", store, str(folder), mode],
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def sink_rows(folder: Path) -> list[tuple[str, int]]:
    if not (folder / "sink.db").exists():
        return []
    with sqlite3.connect(folder / "sink.db") as sink:
        has_table = sink.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone()
        return sink.execute("SELECT pointer, seq FROM rows ORDER BY pointer, seq").fetchall() if has_table else []


@pytest.mark.timeout(600)
def test_a_killed_driver_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/lake.db"
    with headwater.open(store, create=True) as engine:
        fill(engine, tables=20)
        first = follower(store, tmp_path, "follow")
        try:
            deadline = time.monotonic() + START_SECONDS
            while len(sink_rows(tmp_path)) < 8 and time.monotonic() < deadline:
                assert first.poll() is None, "the driver ended by itself"
                time.sleep(0.05)
        finally:
            os.killpg(first.pid, signal.SIGKILL)
            first.wait()
        before = sink_rows(tmp_path)
        everything = [(change.pointer, change.seq) for change in logged_changes(engine.realm().kernel)]
        assert 8 <= len(before) < len(everything), "it was killed before it began, or after it had ended"
        put_tables(engine, "after-the-kill")
        everything = [(change.pointer, change.seq) for change in logged_changes(engine.realm().kernel)]
        second = follower(store, tmp_path, "catch-up")
        try:
            assert second.wait(START_SECONDS) == 0
        finally:
            if second.poll() is None:
                os.killpg(second.pid, signal.SIGKILL)
    assert sink_rows(tmp_path) == everything
