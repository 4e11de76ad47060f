"""The command line of a Spark executor in a pod of our image, from the variables that Spark's driver sets for the pod.

Spark starts executor pods with the single argument `executor`, which its own image expands to this. So our image needs no
script of Spark's: the image that runs the driver runs the executors too, with the same packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headwater.schemas.errors import InvalidInput

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
ARGUMENTS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def executor_command(java: str, jars: Path, environ: Mapping[str, str]) -> list[str]:
    """`InvalidInput` outside a pod that Spark created."""
    missing = [name for name in ("SPARK_EXECUTOR_MEMORY", *ARGUMENTS.values()) if name not in environ]
    if missing:
        raise InvalidInput(
            f"{missing[0]} is not set: Spark's driver sets it in the pods that it makes.",
            remedy="Run `headwater stream --master k8s://…`; it starts executors by itself.",
        )
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    numbers = sorted(int(name.removeprefix(OPTION)) for name in environ if name.startswith(OPTION))
    options = [environ[f"{OPTION}{number}"] for number in numbers]
    classes = ":".join(path for path in (environ.get("SPARK_CLASSPATH", ""), f"{jars}/*") if path)
    arguments = [word for flag, name in ARGUMENTS.items() for word in (flag, environ[name])]
    return [java, *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", classes, BACKEND, *arguments]
