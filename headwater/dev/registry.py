"""A schema registry (Apicurio, with the Confluent-compatible API)."""

from __future__ import annotations

import signal
from pathlib import Path

from headwater.dev.jars import fetch_jars
from headwater.dev.java import java_program
from headwater.dev.kind import Report
from headwater.dev.state import LOOPBACK, ServerRecord

API_PATH = "/apis/ccompat/v7"


class Registry:
    name = "registry"
    port_names = ("main",)
    stop_signal = signal.SIGTERM
    ready_when = "it lists its subjects"

    def choose_data_dir(self, folder: Path) -> Path:
        return folder / "data"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        fetch_jars("registry", jar_cache, report)
        Path(record.data_dir).mkdir(exist_ok=True)

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]:
        runner = next(fetch_jars("registry", jar_cache).glob("**/apicurio-registry-app-*-runner.jar"))
        return [
            java_program(),
            *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Dquarkus.http.host={LOOPBACK}",
            f"-Dquarkus.http.port={record.ports['main']}",
            "-Dapicurio.storage.kind=sql",
            "-Dapicurio.storage.sql.kind=h2",
            f"-Dapicurio.datasource.url=jdbc:h2:file:{record.data_dir}/registry;WRITE_DELAY=0",  # else kill -9 loses schemas
            "-Dquarkus.log.level=WARN",
            "-jar",
            str(runner),
        ]

    def is_ready(self, record: ServerRecord) -> bool:
        return record.answers(f"{API_PATH}/subjects")

    def url(self, record: ServerRecord) -> str:
        return f"http://{record.address}{API_PATH}"
