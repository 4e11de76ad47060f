"""A process is known by pid and start time: a stranger with the same pid is never taken for it, nor killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headwater.dev.processes import ProcessId, kill9, launch_detached, myself, read_process, stop, wait_until_gone
from headwater.dev.server import Server
from headwater.dev.state import PORTS, free_ports, locked, made_whole, make_record, write_private

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def sleeper() -> Iterator[ProcessId]:
    with subprocess.Popen(SLEEP) as process:
        yield identity_of(process.pid)
        process.kill()


def identity_of(pid: int) -> ProcessId:
    from headwater.dev.launch import started_at

    return ProcessId(pid, started_at(pid) or "")


def test_a_process_is_alive_until_it_ends(sleeper: ProcessId) -> None:
    assert sleeper.is_alive
    os.kill(sleeper.pid, signal.SIGKILL)
    assert wait_until_gone([sleeper], timeout_seconds=30)


def test_a_reused_pid_is_not_the_recorded_process_and_is_left_alone(sleeper: ProcessId) -> None:
    earlier = ProcessId(sleeper.pid, "another-start")
    assert not earlier.is_alive
    stop(earlier, stop_signal=signal.SIGTERM, timeout_seconds=1)
    kill9(earlier)
    assert sleeper.is_alive


def test_a_stale_process_file_is_not_taken_for_a_running_server(tmp_path: Path, sleeper: ProcessId) -> None:
    server = Server("kafka", tmp_path)
    make_record("kafka", server.folder, server.kind.port_names, server.kind.choose_data_dir)
    (server.folder / "process.json").write_bytes(msgspec.json.encode(ProcessId(sleeper.pid, "before the reboot")))
    assert (server.process, server.state) == (None, "died")
    server.stop()
    assert sleeper.is_alive
    assert server.state == "stopped"


def test_a_torn_process_file_is_read_as_no_process(tmp_path: Path) -> None:
    (tmp_path / "process.json").write_text('{"pid": 1')
    assert read_process(tmp_path / "process.json") is None


def launch_sleeper(folder: Path, owner: ProcessId | None) -> ProcessId:
    folder.mkdir()
    with locked(folder.parent) as lock:
        file = folder / "process.json"
        launch_detached(SLEEP, folder=folder, process_file=file, log_file=folder / "log", owner=owner, lock=lock)
    process = read_process(file)
    assert process is not None
    return process


def test_a_launched_process_is_on_record_not_our_child_and_stops_on_request(tmp_path: Path) -> None:
    process = launch_sleeper(tmp_path / "server", owner=None)
    assert process.is_alive
    with pytest.raises(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    stop(process, stop_signal=signal.SIGTERM, timeout_seconds=30)
    assert not process.is_alive


def test_a_frozen_process_can_be_stopped(tmp_path: Path) -> None:
    process = launch_sleeper(tmp_path / "server", owner=None)
    os.kill(process.pid, signal.SIGSTOP)
    stop(process, stop_signal=signal.SIGTERM, timeout_seconds=30)
    assert not process.is_alive


def test_an_owned_process_and_its_folder_go_when_the_owner_is_killed(tmp_path: Path, sleeper: ProcessId) -> None:
    process = launch_sleeper(tmp_path / "server", owner=sleeper)
    assert process.is_alive
    os.kill(sleeper.pid, signal.SIGKILL)
    assert wait_until_gone([process], timeout_seconds=30)
    deadline = time.monotonic() + 30
    while (tmp_path / "server").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not (tmp_path / "server").exists()


def test_an_owned_process_lives_while_its_owner_does(tmp_path: Path) -> None:
    process = launch_sleeper(tmp_path / "server", owner=myself())
    time.sleep(1.2)
    assert process.is_alive
    kill9(process)
    assert (tmp_path / "server").exists()


def test_a_program_that_cannot_run_leaves_its_reason_in_the_log(tmp_path: Path) -> None:
    with locked(tmp_path) as lock:
        file, log = tmp_path / "process.json", tmp_path / "log"
        launch_detached(["/no/such/program"], folder=tmp_path, process_file=file, log_file=log, owner=None, lock=lock)
    process = read_process(file)
    assert process is not None
    assert wait_until_gone([process], timeout_seconds=30)
    assert "/no/such/program: No such file" in log.read_text()


def test_only_its_owner_may_read_the_password_file(tmp_path: Path) -> None:
    record = make_record("postgres", tmp_path / "postgres", ("main",), lambda folder: folder / "data")
    file = tmp_path / "postgres" / "server.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(record.password) >= 32
    write_private(tmp_path / "x", b"new")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600


def test_two_records_never_share_a_password_or_a_port(tmp_path: Path) -> None:
    first, second = (make_record("kafka", tmp_path / n, ("main", "controller"), lambda folder: folder) for n in "ab")
    assert first.password != second.password
    assert len({*first.ports.values()}) == 2
    assert all(port in PORTS for port in free_ports(3))


def test_a_folder_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), made_whole(tmp_path / "data") as unfinished:
        (unfinished / "half").touch()
        raise ZeroDivisionError
    assert not (tmp_path / "data").exists()
    with made_whole(tmp_path / "data") as unfinished:
        (unfinished / "whole").touch()
    assert [entry.name for entry in tmp_path.rglob("*")] == ["data", "whole"]
