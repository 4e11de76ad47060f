"""A Nessie server, whose commit log a connector follows. It needs Java 21 or newer."""

from __future__ import annotations

import signal
from pathlib import Path

from headwater.dev.jars import fetch_jars
from headwater.dev.java import newer_java
from headwater.dev.kind import Report
from headwater.dev.state import LOOPBACK, ServerRecord

API_PATH = "/api/v2"
JAVA_VERSION_MIN = 21


class Nessie:
    name = "nessie"
    port_names = ("main", "management")
    stop_signal = signal.SIGTERM
    ready_when = "it names its main branch"

    def choose_data_dir(self, folder: Path) -> Path:
        return folder / "data"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        newer_java(JAVA_VERSION_MIN)
        fetch_jars("nessie-server", jar_cache, report)
        Path(record.data_dir).mkdir(exist_ok=True)

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]:
        (runner,) = fetch_jars("nessie-server", jar_cache).glob("*.jar")
        return [
            newer_java(JAVA_VERSION_MIN),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dquarkus.http.host={LOOPBACK}",
            f"-Dquarkus.http.port={record.ports['main']}",
            f"-Dquarkus.management.host={LOOPBACK}",
            f"-Dquarkus.management.port={record.ports['management']}",
            "-Dnessie.version.store.type=ROCKSDB",
            f"-Dnessie.version.store.persist.rocks.database-path={record.data_dir}/rocks",
            "-Dquarkus.log.level=WARN",
            "-jar",
            str(runner),
        ]

    def is_ready(self, record: ServerRecord) -> bool:
        return record.answers(f"{API_PATH}/trees/main")

    def url(self, record: ServerRecord) -> str:
        return f"http://{record.address}{API_PATH}"
