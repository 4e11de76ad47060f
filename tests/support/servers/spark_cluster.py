"""A standalone Spark cluster on loopback: a master and workers as processes, of which some may be killed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.ports import free_port

START_SECONDS = 300
CONF = (
    "spark.driver.host=127.0.0.1 spark.driver.bindAddress=127.0.0.1 spark.ui.enabled=false spark.executor.memory=512m "
    "spark.sql.shuffle.partitions=3 spark.executor.cores=1 spark.sql.adaptive.enabled=false "
    "spark.sql.codegen.wholeStage=false spark.sql.streaming.noDataMicroBatches.enabled=false "
    "spark.executor.extraJavaOptions='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
    "spark.driver.extraJavaOptions='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'"
)
"""For little data on executors of these workers."""


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
