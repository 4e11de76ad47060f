"""`headwater stream --master` on a real standalone cluster, of whose two workers one is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import headwater
from headwater.persistence.rows import SYSTEM_REALM
from tests.support.fixtures.publisher_runs import new_lake, put
from tests.support.processes.stream_process import StreamProcess, streaming
from tests.support.servers.spark_cluster import CONF, cluster

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
ROUNDS = 60 if SOAK else 2
"""Of commits after the kill."""


def is_current(stream: StreamProcess, step: int) -> bool:
    shown = stream.realms()
    known = all(shown[name]["behind"] == 0 and not shown[name]["failure"] for name in ("default", SYSTEM_REALM))
    return known and bool(shown["default"]["step"] > step)


@pytest.mark.timeout(600 if not SOAK else 3_600)
def test_the_stream_continues_when_one_of_two_workers_is_killed(tmp_path: Path) -> None:
    settings = {"store": f"sqlite:///{tmp_path}/lake.db", "maintenance_dir": str(tmp_path / "sets"), "spark_conf": CONF}
    with headwater.open(settings["store"], create=True) as engine:
        branch = new_lake(engine).branch()
        branch.commit([put("t", 0)])
        with cluster(tmp_path, 2) as spark:
            arguments = ("--master", spark.url, "--every", "0.5")
            with streaming(*arguments, settings=settings) as stream:
                stream.wait_for(lambda: is_current(stream, -1), "the sets are seeded on the cluster")
                branch.commit([put("t", 1)])
                stream.wait_for(lambda: is_current(stream, 0), "a commit arrives")
                spark.kill_a_worker()
                for number in range(ROUNDS):
                    step = stream.realms()["default"]["step"]
                    branch.commit([put("t", 2 + number)])
                    stream.wait_for(lambda step=step: is_current(stream, step), "a commit arrives without the worker")  # type: ignore[misc]
                stream.process.send_signal(signal.SIGTERM)
                assert stream.process.wait(120) == 0, stream.log()
