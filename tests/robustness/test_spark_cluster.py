"""A real standalone cluster, a master and workers as processes: executors that got the package shipped read the log, keep the
retained set and sweep, and workers are killed while they are at it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.persistence.store import Store, open_store
from headwater.streaming.retained.retained_seed import seed
from headwater.streaming.retained.retained_store import RetainedStore
from tests.support.fixtures.maintained import Maintained
from tests.support.servers.ports import free_port

JOB = Path(__file__).resolve().parents[1] / "support" / "processes" / "spark_cluster_job.py"
INSTANCE = "lake#0000000000000001"
START_SECONDS = 120
SOAK = os.environ.get("HEADWATER_SOAK") == "1"
KILLS = ("retained", "sweep") if SOAK else ("sweep",)
"""When a worker dies; another one is left for what follows. Each costs two JVMs more."""


class Cluster:
    def __init__(self, url: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.url = url
        self._workers = workers

    def kill_a_worker(self) -> None:
        """With the executor that it started, which is in its group."""
        worker = self._workers.pop()
        assert worker.poll() is None
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A master and workers of one core each, on loopback."""
    port = free_port()
    running = [daemon(folder, "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))]
    try:
        wait_for(folder / "master.log", r"I have been elected leader", running[0])
        url = f"spark://127.0.0.1:{port}"
        names = [f"worker-{number}" for number in range(workers)]
        for name in names:
            worker = ("--host", "127.0.0.1", "--cores", "1", "--memory", "512m", "--work-dir", str(folder / name), url)
            running.append(daemon(folder, name, "org.apache.spark.deploy.worker.Worker", *worker))
        for name, process in zip(names, running[1:], strict=True):
            wait_for(folder / f"{name}.log", r"Successfully registered with master", process)
        yield Cluster(url, running[1:])
    finally:
        for process in running:
            if process.poll() is None:
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


@pytest.mark.timeout(400)
def test_a_real_cluster_reads_retains_and_sweeps_while_its_workers_are_killed(tmp_path: Path) -> None:
    """Started in a folder that is not the checkout, and that would break whoever imports from it."""
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "headwater").mkdir(parents=True)
    (elsewhere / "headwater" / "__init__.py").write_text("raise RuntimeError('the working folder was imported')")
    url = f"sqlite:///{tmp_path}/lake.db"
    with open_store(url, create=True) as store:
        realm = old_realm(store, tmp_path / "retained")
        before, reachable = realm.ids(), realm.reachable()
        with cluster(tmp_path, len(KILLS) + 1) as spark, (tmp_path / "job.log").open("wb") as log:
            command = [sys.executable, "-P", str(JOB), spark.url, url, INSTANCE, str(tmp_path), *KILLS, "read" if SOAK else ""]
            job = subprocess.Popen(command, cwd=elsewhere, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                for number, moment in enumerate(KILLS):
                    wait_for_tasks(tmp_path, moment, len(KILLS) + 1 - number, job)
                    gone = before - realm.ids()
                    assert bool(gone) == (moment == "sweep"), "workers have not begun, or have begun too early"
                    assert realm.ids() != reachable, "the sweep was over before a worker was killed"
                    spark.kill_a_worker()
                    (tmp_path / f"go-{moment}").touch()
                out, _ = job.communicate(timeout=240)
            finally:
                job.kill()
                job.wait()
        lines = [line for line in out.splitlines() if line.startswith("ANSWER ")]
        assert lines, (tmp_path / "job.log").read_text(errors="replace")[-3_000:]
        answer = json.loads(lines[0].removeprefix("ANSWER "))
        assert realm.ids() == reachable
        realm.check_states()
        logged = sorted([name, seq] for name, log_of in realm.logs.items() for seq in range(realm.floor(name), len(log_of) + 1))
    assert not SOAK or (answer["changes"] == logged and answer["objects"] == len(before))
    assert all("headwater-package.zip" in place for place in answer["packages"]), "executors read the checkout"
    assert (answer["executors"], answer["executors_left"]) == (len(KILLS) + 1, 1), "no executor was lost"
    assert answer["same"] and answer["steps"] >= 2 and answer["failures"] == [] and answer["purged"] > 0


def old_realm(store: Store, folder: Path) -> Maintained:
    """Of last winter, with garbage; its retained set was seeded when it was young."""
    realm = Maintained(store.backend, seed=3, realm=INSTANCE)
    realm.clock.micros = store.clock.now_micros() - 60 * 86_400 * 1_000_000
    for number in range(90):
        if number == 60:
            seed(store.backend, RetainedStore(folder, INSTANCE))
        realm.step()
    realm.expire("*=12n")
    return realm


def wait_for_tasks(folder: Path, moment: str, executors: int, job: subprocess.Popen[str]) -> None:
    """Until all executors are in the middle of a task."""
    deadline = time.monotonic() + START_SECONDS
    while len(list(folder.glob(f"in-{moment}-*"))) < executors:
        assert job.poll() is None and time.monotonic() < deadline, (folder / "job.log").read_text(errors="replace")[-3_000:]
        time.sleep(0.05)
