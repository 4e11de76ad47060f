"""`headwater executor`, as Spark on Kubernetes starts it in a pod of our image."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.schemas.errors import InvalidInput
from headwater.streaming.spark.kubernetes_executor import executor_command
from tests.support.fixtures.cli_runs import headwater
from tests.support.servers.ports import free_port

POD = {
    "SPARK_EXECUTOR_MEMORY": "256m",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_APPLICATION_ID": "spark-app",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "headwater-exec-7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def test_options_come_in_their_order_before_the_class_and_its_arguments() -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dn={number} x" for number in range(11)}
    words = executor_command(
        "/bin/java", Path("/jars"), POD | options | {"SPARK_DRIVER_URL": "spark://x", "SPARK_CLASSPATH": "/a"}
    )
    assert words[:12] == ["/bin/java", *(f"-Dn={number} x" for number in range(11))]
    assert words[12:16] == ["-Xms256m", "-Xmx256m", "-cp", "/a:/jars/*"]
    assert words[words.index("--podName") + 1] == "headwater-exec-7"
    with pytest.raises(InvalidInput, match="SPARK_DRIVER_URL"):
        executor_command("/bin/java", Path("/jars"), POD)


def test_it_is_sparks_own_executor_and_asks_for_its_driver() -> None:
    driver = f"127.0.0.1:{free_port()}"
    opened = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"]
    pod = POD | {f"SPARK_JAVA_OPT_{number}": option for number, option in enumerate(opened)}
    pod |= {"SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{driver}", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "headwater", "executor"]
    done = subprocess.run(command, env=os.environ | pod, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert f"Failed to connect to /{driver}" in done.stderr and "KubernetesExecutorBackend" in done.stderr, done.stderr


def test_outside_of_a_pod_it_is_refused_in_one_line() -> None:
    assert "SPARK_EXECUTOR_MEMORY" in headwater("executor").error
