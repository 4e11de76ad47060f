"""Finds a Java 17 on this machine, or says in one sentence what to install."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from headwater.schemas.errors import MissingDependency

JAVA_VERSION = 17
"""Kafka 4 and Spark 4 need at least 17; Cassandra 5 does not start on anything newer."""
INSTALL = f"Install Java {JAVA_VERSION} (Debian: apt-get install openjdk-17-jre-headless) and put it on PATH or set JAVA_HOME."


def java_program(versions: Collection[int] = (JAVA_VERSION,)) -> str:
    """The one in JAVA_HOME, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"in JAVA_HOME ({home})" if home else "on this machine"
        raise MissingDependency(f"Java is not {where}.", remedy=INSTALL, program="java")
    version = java_version(found)
    if version.split(".")[0] not in map(str, versions):
        what = f"is version {version or 'unknown'}, not {' or '.join(map(str, versions))}"
        raise MissingDependency(f"{found} {what}.", remedy=INSTALL, program="java", version=version)
    return found


@functools.cache
def java_version(program: str) -> str:
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r'version "([^"]+)"', answer.stderr)
    return match.group(1) if match else ""
