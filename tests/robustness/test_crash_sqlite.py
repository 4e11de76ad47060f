"""kill -9 of a process that writes to SQLite: every acknowledged commit is there, whole, and nothing of a lost one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from headwater.persistence.backend import DurabilityLevel
from headwater.persistence.backends import open_backend
from tests.support.processes.acknowledged_writes import assert_all_there, prepare

ROUNDS = 40 if os.environ.get("HEADWATER_SOAK") else 4
WRITERS = 3
REALM = "crash@1"


def test_every_acknowledged_commit_survives_a_kill_of_the_writing_process(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    backend = open_backend(url)
    backend.create_schema()
    prepare(backend, REALM, WRITERS)
    acknowledged = dict.fromkeys(range(WRITERS), 1)
    for number in range(ROUNDS):
        before = sum(acknowledged.values())
        acknowledged |= _write_and_kill(url, seconds=0.2 + 0.07 * number % 0.3)
        assert sum(acknowledged.values()) > before, "the process was killed before it had written anything"
        assert_all_there(backend, REALM, acknowledged)
        # What was under way counts as written if it is there.
        acknowledged = {writer: _version(url, writer) for writer in acknowledged}
    backend.close()


def test_the_settings_of_the_file_promise_durability_beyond_a_kill(tmp_path: Path) -> None:
    """A killed process leaves its writes to the kernel; only the settings say that a power cut would spare them too."""
    backend = open_backend(f"sqlite:///{tmp_path}/store.db")
    backend.create_schema()
    durability = backend.durability()
    assert durability.level is DurabilityLevel.DURABLE
    assert durability.settings == {"journal_mode": "wal", "synchronous": "FULL"}
    backend.close()


def _version(url: str, writer: int) -> int:
    backend = open_backend(url)
    found = backend.read_pointer(REALM, f"w{writer}")
    backend.close()
    assert found is not None
    return found.version


def _write_and_kill(url: str, seconds: float) -> dict[int, int]:
    """Highest acknowledged version by writer."""
    command = [sys.executable, "-m", "tests.support.processes.acknowledged_writes", url, REALM, str(WRITERS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        lines = [first, *process.stdout.readlines()]
    assert process.returncode == -signal.SIGKILL, "the process ended by itself"
    seen = [line.split() for line in lines if line.endswith(b"\n")]
    return {int(writer): int(version) for writer, version in seen}
