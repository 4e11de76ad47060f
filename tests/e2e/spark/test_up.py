"""`headwater up`: the whole system starts, carries commits to every reader, and mends itself after kill -9."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import headwater as library
from headwater.demo.pipeline import POINTER, commit_by_http
from headwater.demo.pipeline_readers import READERS, reading
from headwater.dev.state import LOOPBACK
from headwater.settings import load_settings
from headwater.up.system import System, SystemOptions, make_system
from tests.support.fixtures.cli_runs import headwater
from tests.support.servers.ports import free_port

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
KILLED = ("publisher", "stream") if SOAK else ("publisher",)
"""test_stream_command.py kills a stream each time."""
READY_SECONDS = 420.0
WAIT_SECONDS = 180.0


class Up:
    """The command as a process, and the lines that it prints."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "headwater", "up", "--dir", str(folder), "--port", "0", "--every", "0.2", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self.processes: dict[str, dict[str, Any]] = {}
        self.all: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.all.append(line)
            self.lines.put(msgspec.json.decode(line))

    def wait_for(self, what: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                line = self.lines.get(timeout=1)
            except queue.Empty:
                assert self.process.poll() is None, "".join(self.all)
                continue
            if line["event"] == "state":
                self.processes[line["process"]["name"]] = line["process"]
            if what(line):
                return line
        raise AssertionError("".join(self.all))

    def kill9(self, name: str) -> None:
        """Told when it runs again, as another process."""
        before = self.processes[name]
        os.kill(before["pid"], signal.SIGKILL)

        def is_back(line: dict[str, Any]) -> bool:
            one = line.get("process", {})
            return bool(one.get("name") == name and one["state"] == "ready" and one["pid"] != before["pid"])

        self.wait_for(is_back, READY_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def running_up(folder: Path) -> Iterator[Up]:
    up = Up(folder)
    try:
        yield up
    finally:
        up.close()


def system_of(folder: Path, ready: dict[str, Any]) -> System:
    """Of the addresses that the line named."""
    settings = load_settings({"jar_cache_dir": load_settings().jar_cache_dir})
    known, told = make_system(settings, SystemOptions(folder=folder, port=0)), ready["addresses"]
    assert known.kafka == told["kafka"]
    return msgspec.structs.replace(
        known, server=told["server"], views=told["views"], publisher=told["publisher"], stream=told["stream"]
    )


@pytest.mark.timeout(1_200)
def test_a_commit_by_http_reaches_every_reader_also_after_kill_9_of_processes(tmp_path: Path) -> None:
    folder = tmp_path / "up"
    with running_up(folder) as up:
        ready = up.wait_for(lambda line: line["event"] == "ready", READY_SECONDS)
        assert "--dir" in headwater("up", "--dir", str(folder)).error  # another one runs there
        system = system_of(folder, ready)
        with library.open(system.settings["HEADWATER_STORE"]) as engine:
            instance = engine.realms.get("default").instance
        with httpx.Client(base_url=system.server, timeout=60) as client:
            commit_by_http(client, 0)
            first = client.get("/feed/v1/default/changes", params={"pointer": POINTER, "after": "earliest"}).json()
            after_seq = len(first["changes"])
            with reading(system, instance, POINTER, after_seq=after_seq, group="test-up") as readers:

                def arrive(seq: int) -> None:
                    deadline = time.monotonic() + WAIT_SECONDS
                    while len(readers.arrivals(seq)) < len(READERS):
                        assert time.monotonic() < deadline, (readers.missing(after_seq + 1, seq), "".join(up.all[-10:]))
                        time.sleep(0.1)

                commit_by_http(client, 1)
                arrive(after_seq + 1)
                for number, name in enumerate(KILLED):
                    commit_by_http(client, 2 + number)
                    up.kill9(name)
                    commit_by_http(client, 4 + number)
                last = after_seq + 1 + 2 * len(KILLED)
                arrive(last)
                assert readers.missing(after_seq + 1, last) == {}
        pids = [one["pid"] for one in up.processes.values()]
        up.process.send_signal(signal.SIGTERM)
        up.wait_for(lambda line: line["event"] == "stopped", WAIT_SECONDS)
        assert up.process.wait(60) == 0
        assert {one["state"] for one in up.processes.values()} == {"stopped"}
        assert not [pid for pid in pids if pid and Path(f"/proc/{pid}").exists()]


def test_invalid_options_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    place = str(tmp_path / "up")
    with socket.socket() as taken:
        port = free_port()
        taken.bind((LOOPBACK, port))
        taken.listen()
        assert "--port" in headwater("up", "--dir", place, "--port", str(port)).error
    (tmp_path / "file").write_text("")
    assert "--dir" in headwater("up", "--dir", str(tmp_path / "file" / "up")).error
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "Java is not" in headwater("up", "--dir", place).error
    assert "Java is not" in headwater("demo", "--pipeline").error
