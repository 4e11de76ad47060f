"""`headwater executor`: what pods of our image run when Spark on Kubernetes makes them."""

from __future__ import annotations

import os

import rich_click as click

from headwater.schemas.extras import needs_extra


@click.command()
def command() -> None:
    """Run a Spark executor on Kubernetes. Spark starts it in the pods of `headwater stream --master k8s://…`."""
    from pathlib import Path

    from headwater.dev.java import java_program
    from headwater.streaming.spark.kubernetes_executor import executor_command
    from headwater.wiring.spark import JAVA_VERSIONS

    with needs_extra("a Spark executor", "spark"):
        import pyspark
    words = executor_command(java_program(JAVA_VERSIONS), Path(pyspark.__file__).parent / "jars", os.environ)
    os.execv(words[0], words)  # noqa: S606 - the pod's one process is the executor
