"""A real standalone cluster, master and two workers as processes: executors that got the package shipped read the log."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater
from headwater.persistence.rows import Table
from tests.spark_lakes import fill, logged_changes

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120
SOAK = os.environ.get("HEADWATER_SOAK") == "1"


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of one core each, on loopback."""
    port = free_port()
    running = [daemon(folder, "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))]
    try:
        wait_for(folder / "master.log", r"I have been elected leader", running[0])
        url = f"spark://127.0.0.1:{port}"
        for name in ("worker-1", "worker-2"):
            worker = ("--host", "127.0.0.1", "--cores", "1", "--memory", "512m", "--work-dir", str(folder / name), url)
            running.append(daemon(folder, name, "org.apache.spark.deploy.worker.Worker", *worker))
        for name, process in zip(("worker-1", "worker-2"), running[1:], strict=True):
            wait_for(folder / f"{name}.log", r"Successfully registered with master", process)
        yield url
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def daemon(folder: Path, name: str, *command: str) -> subprocess.Popen[bytes]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations is not None
    home = Path(next(iter(spec.submodule_search_locations)))
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    (conf / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.c.ref = c\nappender.c.type = Console\nappender.c.name = c\n"
        "appender.c.target = SYSTEM_ERR\nappender.c.layout.type = PatternLayout\nappender.c.layout.pattern = %m%n\n"
    )
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str(conf),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *command, "--webui-port", "0"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not re.search(pattern, log.read_text(errors="replace")):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-2_000:]
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(not SOAK, reason="six JVMs: `make soak` runs it")
@pytest.mark.timeout(600)
def test_executors_of_a_real_cluster_read_the_log_whatever_folder_the_job_starts_in(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/lake.db"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "headwater").mkdir(parents=True)
    (elsewhere / "headwater" / "__init__.py").write_text("raise RuntimeError('the working folder was imported')")
    with headwater.open(store, create=True) as engine, cluster(tmp_path) as master:
        fill(engine, tables=8)
        job = [sys.executable, "-P", str(ROOT / "tests" / "spark_cluster_job.py"), master, store]
        answered = subprocess.run(job, cwd=elsewhere, capture_output=True, text=True, check=False, timeout=400)
        lines = [line for line in answered.stdout.splitlines() if line.startswith("ANSWER ")]
        assert lines, answered.stderr[-3_000:]
        answer = json.loads(lines[0].removeprefix("ANSWER "))
        changes = logged_changes(engine.realm().kernel)
        backend = engine.store.backend
        objects = sum(1 for split in backend.splits(Table.OBJECTS, 1) for _ in backend.scan(split))
    assert answer["changes"] == [[change.pointer, change.seq] for change in changes]
    assert answer["objects"] == objects
    assert answer["executors"] == 2
    assert all("headwater-package.zip" in place for place in answer["packages"]), "executors read the checkout"
