"""A one-node Cassandra that syncs its commit log before it acknowledges."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
from pathlib import Path

from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program
from headwater.dev.kind import Report
from headwater.dev.state import LOOPBACK, ServerRecord

OPTIONS_FRAME = struct.pack(">BBhBi", 4, 0, 0, 5, 0)
"""Protocol 4, no flags, stream 0, opcode OPTIONS, empty body."""
SUPPORTED_OPCODE = 6

EXPORTS = [
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
]
OPENS = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.lang.reflect",
    "java.base/java.lang",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "jdk.compiler/com.sun.tools.javac",
]

LOGBACK = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


class Cassandra:
    name = "cassandra"
    port_names = ("main", "storage")
    stop_signal = signal.SIGTERM
    ready_when = "it takes connections of its own protocol"

    def choose_data_dir(self, folder: Path) -> Path:
        return folder / "data"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        fetch_jars("cassandra", jar_cache, report)
        folder = Path(record.folder)
        (folder / "cassandra.yaml").write_text(json.dumps(self.config(record), indent=2))  # JSON is YAML
        (folder / "logback.xml").write_text(LOGBACK)

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]:
        jars, folder = fetch_jars("cassandra", jar_cache), Path(record.folder)
        return [
            java_program(),
            *("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-javaagent:{next(jars.glob('jamm-*.jar'))}",
            f"-Dcassandra.config=file://{folder / 'cassandra.yaml'}",
            f"-Dcassandra.storagedir={record.data_dir}",
            f"-Dlogback.configurationFile={folder / 'logback.xml'}",
            *("-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=0", "-Dcassandra-foreground=yes"),
            *("-Djdk.attach.allowAttachSelf=true", "-Dio.netty.tryReflectionSetAccessible=true"),
            "-Djava.net.preferIPv4Stack=true",
            *(f"--add-exports={package}=ALL-UNNAMED" for package in EXPORTS),
            *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENS),
            *("-cp", class_path(jars), "org.apache.cassandra.service.CassandraDaemon"),
        ]

    def is_ready(self, record: ServerRecord) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, record.ports["main"]), timeout=2) as connection:
            return answers(connection)
        return False

    def config(self, record: ServerRecord) -> dict[str, object]:
        return _config(record)

    def url(self, record: ServerRecord) -> str:
        """Address of the server; a store's URL has a keyspace after the slash."""
        return f"cassandra://{record.address}/headwater"


def answers(connection: socket.socket) -> bool:
    connection.sendall(OPTIONS_FRAME)
    answer = connection.recv(9)
    return len(answer) == 9 and answer[4] == SUPPORTED_OPCODE


def _config(record: ServerRecord) -> dict[str, object]:
    """`commitlog_sync: periodic`, the usual default, lost acknowledged rows in every kill -9 tried; batch lost none."""
    data = Path(record.data_dir)
    seeds = {"seeds": f"{LOOPBACK}:{record.ports['storage']}"}
    return {
        "cluster_name": "headwater-dev",
        "num_tokens": 1,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [{"class_name": "org.apache.cassandra.locator.SimpleSeedProvider", "parameters": [seeds]}],
        "listen_address": LOOPBACK,
        "rpc_address": LOOPBACK,
        "storage_port": record.ports["storage"],
        "native_transport_port": record.ports["main"],
        "data_file_directories": [str(data / "data")],
        **{f"{name}_directory": str(data / name) for name in ("commitlog", "saved_caches", "hints", "cdc_raw")},
        "commitlog_sync": "batch",
        "commitlog_segment_size": "8MiB",
        "memtable_heap_space": "64MiB",
        "paxos_variant": "v2",
        "hinted_handoff_enabled": False,
        "auto_snapshot": False,
    }
