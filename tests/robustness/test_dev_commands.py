"""`headwater dev` under bad treatment: called twice at once, killed at any moment, ports taken, folders out of reach."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from headwater.dev import fleet
from headwater.dev.processes import wait_until_gone
from headwater.dev.server import Server
from tests.support.servers.servers import shared_server_url

HEADWATER = [sys.executable, "-m", "headwater"]


@contextmanager
def temporary_dev_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headwater-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        fleet.down([], Path(folder), delete=True)


@pytest.fixture
def dev_dir() -> Iterator[Path]:
    with temporary_dev_dir() as folder:
        yield folder


@pytest.fixture(scope="module")
def settled_dir() -> Iterator[Path]:
    """Shared by tests that leave a server that can be started: making its data takes longest."""
    with temporary_dev_dir() as folder:
        yield folder


def dev(dev_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HEADWATER, "dev", *arguments], env=environ(dev_dir), capture_output=True, text=True, timeout=240)


def begin_dev(dev_dir: Path, *arguments: str) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*HEADWATER, "dev", *arguments], env=environ(dev_dir), text=True, **pipes)  # type: ignore[call-overload]


def environ(dev_dir: Path) -> dict[str, str]:
    return os.environ | {"HEADWATER_DEV_DIR": str(dev_dir)}


def postmasters(dev_dir: Path) -> set[int]:
    """Every PostgreSQL that was started for this folder and lives."""
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                arguments = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"-D" in arguments and str(dev_dir).encode() in arguments[arguments.index(b"-D") + 1]:
                found.add(int(process.name))
    return found


def test_two_callers_at_once_get_the_same_server(settled_dir: Path) -> None:
    callers = [begin_dev(settled_dir, "up", "postgres", "--json") for _ in range(2)]
    answers = [json.loads(caller.communicate(timeout=240)[0]) for caller in callers]
    assert answers[0] == answers[1]
    assert answers[0][0]["state"] == "running"
    assert postmasters(settled_dir) == {answers[0][0]["pid"]}


def test_status_shows_what_runs_and_down_stops_it_and_keeps_the_data(settled_dir: Path) -> None:
    up = json.loads(dev(settled_dir, "up", "postgres", "--json").stdout)[0]
    states = {it["name"]: it["state"] for it in json.loads(dev(settled_dir, "status", "--json").stdout)}
    assert states.pop("postgres") == "running"
    assert {"kafka", "kafka-secure", "cassandra", "cassandra-secure", "registry", "nessie", "hive"} == states.keys()
    assert set(states.values()) == {"absent"}
    assert up["address"] in dev(settled_dir, "status").stdout
    url = dev(settled_dir, "url", "postgres").stdout.strip()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t (n int)")
    stopped = json.loads(dev(settled_dir, "down", "postgres", "--json").stdout)[0]
    assert (stopped["state"], stopped["pid"], postmasters(settled_dir)) == ("stopped", None, set())
    assert start_postgres(settled_dir).address == up["address"]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def start_postgres(dev_dir: Path) -> fleet.ServerStatus:
    return fleet.up(["postgres"], dev_dir, jar_cache=dev_dir)[0]


def test_tests_may_use_a_server_that_dev_up_runs_and_leave_it_running(
    settled_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_postgres(settled_dir)
    monkeypatch.setenv("HEADWATER_TEST_SERVERS", str(settled_dir))
    with shared_server_url("postgres") as url:
        assert url == Server("postgres", settled_dir).url
    assert Server("postgres", settled_dir).pid == server.pid


def test_up_restarts_a_server_that_was_killed_meanwhile(settled_dir: Path) -> None:
    first = start_postgres(settled_dir)
    os.kill(first.pid or 0, signal.SIGKILL)
    second = start_postgres(settled_dir)
    assert second.state == "running"
    assert second.pid != first.pid
    assert second.address == first.address


def test_a_server_that_cannot_start_shows_its_log_and_exits_with_2(settled_dir: Path) -> None:
    up = start_postgres(settled_dir)
    fleet.down([], settled_dir)
    with socket.create_server(("127.0.0.1", int(str(up.address).rpartition(":")[2]))):
        failed = dev(settled_dir, "up", "postgres")
    assert failed.returncode == 2
    assert "Address already in use" in failed.stderr
    assert "SERVER_FAILED: postgres ended while it was starting; its log is" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert Server("postgres", settled_dir).state == "died"
    assert start_postgres(settled_dir).state == "running"


@pytest.mark.parametrize("stage", ["data.new-*", "data", "process.json"])
def test_up_continues_where_a_killed_caller_stopped(stage: str, dev_dir: Path) -> None:
    with begin_dev(dev_dir, "up", "postgres") as caller:
        deadline = time.monotonic() + 120
        while not list((dev_dir / "postgres").glob(stage)) and time.monotonic() < deadline:
            time.sleep(0.002)
        caller.kill()
    assert caller.returncode == -signal.SIGKILL, "the caller was done before it could be killed"
    up = start_postgres(dev_dir)
    assert up.state == "running"
    assert postmasters(dev_dir) == {up.pid}
    psycopg.connect(Server("postgres", dev_dir).url).close()


def test_a_server_whose_caller_was_killed_is_stopped_by_down(settled_dir: Path) -> None:
    fleet.down([], settled_dir)
    with begin_dev(settled_dir, "up", "postgres") as caller:
        deadline = time.monotonic() + 120
        while Server("postgres", settled_dir).process is None and time.monotonic() < deadline:
            time.sleep(0.002)
        caller.kill()
    assert postmasters(settled_dir)
    assert dev(settled_dir, "down").returncode == 0
    assert postmasters(settled_dir) == set()


def test_the_url_of_a_server_that_was_never_started_is_refused_with_the_start_command(dev_dir: Path) -> None:
    failed = dev(dev_dir, "url", "kafka")
    assert failed.returncode == 2
    assert "headwater dev up kafka" in failed.stderr


def test_postgres_runs_and_is_deleted_also_where_only_we_can_reach_the_folder(dev_dir: Path) -> None:
    """Root lends PostgreSQL another user, who cannot walk into a private folder."""
    private = dev_dir / "private"
    private.mkdir(mode=0o700)
    up = start_postgres(private)
    assert up.state == "running"
    assert dev(private, "down", "--delete").returncode == 0
    assert not Path(str(up.data_dir)).exists()
    assert [entry.name for entry in private.iterdir()] == ["lock"]


TEST_RUN = """
import sys, time
from pathlib import Path
from headwater.dev.server import running
with running("postgres", Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    time.sleep(600)
"""


def test_a_server_of_a_test_run_dies_with_the_run_even_by_kill_9(dev_dir: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", TEST_RUN, str(dev_dir)], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        process = Server("postgres", dev_dir).process
        assert process is not None
        assert process.pid == pid
        run.kill()
    assert wait_until_gone([process], timeout_seconds=30)
    deadline = time.monotonic() + 30
    while (dev_dir / "postgres").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not (dev_dir / "postgres").exists()
