"""One log file of several processes: no line is lost or torn by its rotation, and none is written by a caller."""

from __future__ import annotations

import fcntl
import io
import json
import logging
import multiprocessing
import os
from pathlib import Path

import pytest

from headwater.schemas.errors import InvalidInput
from headwater.service.observability import log_files
from headwater.service.observability.log_files import LogFile, RotatingLog, check_log_file
from headwater.service.observability.logs import JsonLines, TextLines

PROCESSES = 4
LINES = 400
KEPT = 100


def _log(file: LogFile) -> RotatingLog:
    made = RotatingLog(file)
    made.setFormatter(JsonLines())
    return made


def _record(message: str, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("headwater", logging.INFO, "file", 1, message, (), None)
    record.__dict__.update(fields)
    return record


def _write_lines(log: RotatingLog, number: int) -> None:
    for line in range(LINES):
        log.handle(_record(f"{number}-{line}", path="x" * (line % 150)))
    log.close()


def _messages(folder: Path) -> list[str]:
    """Of all files; every line must be whole."""
    raw = [line for file in folder.iterdir() for line in file.read_bytes().splitlines(keepends=True)]
    assert all(line.endswith(b"}\n") for line in raw)
    return [json.loads(line)["message"] for line in raw]


def test_processes_that_share_a_file_lose_no_line_and_tear_none_while_it_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = _log(LogFile(path=str(path), bytes_max=8_192, kept=KEPT))
    log.handle(_record("before-the-fork"))  # the children inherit an open descriptor
    forked = multiprocessing.get_context("fork")
    writers = [forked.Process(target=_write_lines, args=(log, number)) for number in range(PROCESSES)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * PROCESSES
    expected = ["before-the-fork", *(f"{number}-{line}" for number in range(PROCESSES) for line in range(LINES))]
    assert sorted(_messages(tmp_path)) == sorted(expected)
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert 10 < len(sizes) < KEPT and max(sizes) <= 8_192


def test_rotation_removes_the_oldest_file_and_numbers_the_newest_one(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = _log(LogFile(path=str(path), bytes_max=1, kept=2))
    for number in range(5):
        log.handle(_record(str(number)))
    log.close()
    shown = {file.name: json.loads(file.read_text())["message"] for file in tmp_path.iterdir()}
    assert shown == {"server.log": "4", "server.log.1": "3", "server.log.2": "2"}


def test_a_file_moved_by_another_process_is_recreated(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = _log(LogFile(path=str(path)))
    log.handle(_record("one"))
    path.rename(tmp_path / "moved")
    log.handle(_record("two"))
    log.close()
    assert json.loads(path.read_text())["message"] == "two" and sorted(_messages(tmp_path)) == ["one", "two"]


def test_a_process_that_was_stopped_with_the_lock_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "TURN_SECONDS", 0.01)
    path = tmp_path / "server.log"
    log = _log(LogFile(path=str(path), bytes_max=1))
    log.handle(_record("one"))
    stopped = os.open(path, os.O_RDWR)
    fcntl.flock(stopped, fcntl.LOCK_EX)
    log.handle(_record("two"))
    os.close(stopped)
    log.close()
    assert _messages(tmp_path) == ["one", "two"]


def test_a_forked_process_does_not_write_under_its_parents_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under it, it would take itself for the owner and rotate the file."""
    monkeypatch.setattr(log_files, "TURN_SECONDS", 0.01)
    log = _log(LogFile(path=str(tmp_path / "server.log"), bytes_max=1))
    log.handle(_record("one"))
    fcntl.flock(log._fd, fcntl.LOCK_EX)
    child = multiprocessing.get_context("fork").Process(target=log.handle, args=(_record("two"),))
    child.start()
    child.join()
    log.close()
    assert child.exitcode == 0 and len(list(tmp_path.iterdir())) == 1
    assert _messages(tmp_path) == ["one", "two"]


def test_half_a_line_of_a_machine_that_went_down_is_not_joined_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text('{"message": "ha')
    log = _log(LogFile(path=str(path)))
    log.handle(_record("whole"))
    log.close()
    assert json.loads(path.read_text().splitlines()[1])["message"] == "whole"


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.log"
    log = _log(LogFile(path=str(path)))
    log.handle(_record("one"))
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, raw: write(fd, raw[:5]))
    monkeypatch.setattr("sys.stderr", io.StringIO())  # where the handler tells of it
    log.handle(_record("lost"))
    monkeypatch.undo()
    log.handle(_record("two"))
    log.close()
    assert _messages(tmp_path) == ["one", "two"]


@pytest.mark.parametrize("path", ["nowhere/server.log", ".", "a\0b"])
def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput) as refused:
        check_log_file(LogFile(path=path))
    assert refused.value.field == "log_file"


EVIL = 'a\n{"message": "forged"}\r\x1b[2J\udcff'


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()])
def test_text_of_a_caller_starts_no_log_line(formatter: logging.Formatter) -> None:
    shown = formatter.format(_record(f"GET {EVIL}", path=EVIL, names={"realm": EVIL}))
    assert shown.isprintable() and shown.encode()
    if isinstance(formatter, JsonLines):
        assert json.loads(shown)["path"] == EVIL
