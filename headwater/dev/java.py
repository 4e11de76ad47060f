"""Finds a Java 17 on this machine, or a newer one, or says in one sentence what to install."""

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
JVM_FOLDER = Path("/usr/lib/jvm")
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


def newer_java(version_min: int) -> str:
    """One that is new enough: in JAVA_HOME, on PATH, or where Linux distributions put them (the oldest, if several)."""
    home = os.environ.get("JAVA_HOME")
    first = [Path(home, "bin", "java")] if home else []
    first += [Path(found)] if (found := shutil.which("java")) else []
    beside = sorted(JVM_FOLDER.glob("*/bin/java"), key=lambda one: _major(str(one)))
    for program in (*first, *beside):
        if program.exists() and _major(str(program)) >= version_min:
            return str(program)
    raise MissingDependency(
        f"no Java {version_min} or newer is in JAVA_HOME, on PATH, or below {JVM_FOLDER}.",
        remedy=f"Install one (Debian: apt-get install openjdk-{version_min}-jre-headless, or a Temurin), or set JAVA_HOME.",
        program="java",
    )


def _major(program: str) -> int:
    first = java_version(program).split(".")[0]
    return int(first) if first.isdecimal() else 0


@functools.cache
def java_version(program: str) -> str:
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r'version "([^"]+)"', answer.stderr)
    return match.group(1) if match else ""
