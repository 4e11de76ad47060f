"""A one-node Kafka (KRaft) that starts fast and creates no topic by itself."""

from __future__ import annotations

import base64
import contextlib
import secrets
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from headwater.dev.jars import class_path, fetch_jars
from headwater.dev.java import java_program, java_version
from headwater.dev.kind import Report, silent
from headwater.dev.processes import ProcessId, launch_detached, myself, read_process, stop
from headwater.dev.state import LOOPBACK, ServerRecord, free_ports, locked, made_whole, write_private
from headwater.schemas.errors import ServerFailed

OFFSETS_TOPIC = b"__consumer_offsets"
PROBED_GROUP = b"headwater-probe"
METADATA_REQUEST = struct.pack(">hhihih", 3, 1, 1, -1, 1, len(OFFSETS_TOPIC)) + OFFSETS_TOPIC
"""Metadata, version 1, correlation 1, no client id; one topic. The answer counts the brokers that serve."""
GROUP_REQUEST = struct.pack(">hhihih", 15, 0, 2, -1, 1, len(PROBED_GROUP)) + PROBED_GROUP
"""DescribeGroups, version 0, correlation 2, no client id; one group, which nobody need have made."""
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
MEMORY = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
ARCHIVE_TIMEOUT_SECONDS = 120.0

# ⚠ A broker that is late with its heartbeats by `broker.session.timeout.ms` loses its partitions and gets them back. If the
# offsets topic is still being loaded then, Kafka 4.3.1 takes the end of the earlier load for that of the later one, writes into
# a coordinator that is half loaded, and may refuse every group until it is started again. With 3 s, busy machines got there. A
# longer time delays the start after a kill -9 by as much: the controller refuses a new broker while the old one may live.
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://{host}:{main},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{main}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=9000
broker.heartbeat.interval.ms=500
controller.quorum.election.timeout.ms=200
controller.quorum.election.backoff.max.ms=100
controller.quorum.fetch.timeout.ms=1000
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=4
"""


class Kafka:
    name = "kafka"
    port_names: tuple[str, ...] = ("main", "controller")
    stop_signal = signal.SIGTERM
    ready_when = "it names itself, and its group coordinator has loaded"

    def choose_data_dir(self, folder: Path) -> Path:
        return folder / "data"

    def prepare(self, record: ServerRecord, jar_cache: Path, report: Report) -> None:
        jars = fetch_jars("kafka", jar_cache, report)
        _ensure_archive(jars, jar_cache, report)
        _configure(self, record, jars, report)

    def command(self, record: ServerRecord, jar_cache: Path) -> list[str]:
        jars = fetch_jars("kafka", jar_cache)
        return _kafka(record, jars, f"-XX:SharedArchiveFile={_archive_file(jars)}")

    def is_ready(self, record: ServerRecord) -> bool:
        """A broker that is still fenced names no broker; one that names itself may still refuse every group."""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, record.ports["main"]), timeout=2) as connection:
            return answers(connection)
        return False

    def properties(self, record: ServerRecord, data: Path) -> str:
        return PROPERTIES.format(host=LOOPBACK, data=data, **record.ports)

    def format_arguments(self, record: ServerRecord) -> list[str]:
        """More arguments for the tool that formats its storage."""
        return []

    def url(self, record: ServerRecord) -> str:
        return record.address


def answers(connection: socket.socket) -> bool:
    """Names a broker, and its group coordinator serves, if there is an offsets topic to load."""
    metadata = _ask(connection, METADATA_REQUEST)
    (brokers,) = struct.unpack_from(">i", metadata, 4)
    _, _, topic = metadata.rpartition(OFFSETS_TOPIC)
    _internal, partitions = struct.unpack_from(">?i", topic)
    if brokers == 0 or partitions == 0:
        return bool(brokers > 0)
    (error,) = struct.unpack_from(">h", _ask(connection, GROUP_REQUEST), 8)
    return bool(error == 0)


def _ask(connection: socket.socket, request: bytes) -> bytes:
    """The answer after its length: a correlation id, then the fields."""
    connection.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _receive(connection, 4))
    return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        if not (part := connection.recv(length - len(received))):
            raise ConnectionError("The broker has closed the connection.")
        received += part
    return received


def _kafka(record: ServerRecord, jars: Path, archive_option: str) -> list[str]:
    options = [*MEMORY, archive_option, "-Xlog:disable", "-Xlog:all=error:stderr", QUIET]
    return [java_program(), *options, "-cp", class_path(jars), "kafka.Kafka", str(_properties_file(record))]


def _properties_file(record: ServerRecord) -> Path:
    return Path(record.folder) / "server.properties"


def _configure(kind: Kafka, record: ServerRecord, jars: Path, report: Report) -> None:
    data = Path(record.data_dir)
    if not data.exists():
        report("formatting")
        with made_whole(data) as unfinished:
            _write_properties(kind, record, unfinished)
            _format(kind, record, jars)
    _write_properties(kind, record, data)


def _write_properties(kind: Kafka, record: ServerRecord, data: Path) -> None:
    write_private(_properties_file(record), kind.properties(record, data).encode())


def _format(kind: Kafka, record: ServerRecord, jars: Path) -> None:
    # The first byte keeps the id from beginning with "-", which the tool takes for another option.
    cluster_id = base64.urlsafe_b64encode(b"h" + secrets.token_bytes(15)).decode().rstrip("=")
    java = [java_program(), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", QUIET, "-cp", class_path(jars)]
    format_storage = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(_properties_file(record))]
    format_storage += kind.format_arguments(record)
    done = subprocess.run([*java, *format_storage], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-800:]
        raise ServerFailed(f"Kafka's storage could not be formatted: {said}", server="kafka")


def _archive_file(jars: Path) -> Path:
    """Stored beside the jars whose loaded classes it holds; another Java cannot use it."""
    return jars / f"kafka-{java_version(java_program())}.jsa"


def _ensure_archive(jars: Path, jar_cache: Path, report: Report) -> None:
    """Run a throw-away broker once and keep the classes it loaded: every later start takes a third of the time."""
    if _archive_file(jars).exists():
        return
    with locked(jar_cache / "locks" / "kafka-archive") as lock:
        if not _archive_file(jars).exists():
            report("making a class archive, once")
            _make_archive(jars, lock)


def _make_archive(jars: Path, lock: int) -> None:
    unfinished = _archive_file(jars).with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="headwater-kafka-", ignore_cleanup_errors=True) as name:
        folder, (main, controller) = Path(name), free_ports(2)
        record = ServerRecord("kafka", name, f"{name}/data", {"main": main, "controller": controller}, "")
        _configure(Kafka(), record, jars, silent)
        launch_detached(
            _kafka(record, jars, f"-XX:ArchiveClassesAtExit={unfinished}"),
            folder=folder,
            process_file=folder / "process.json",
            log_file=folder / "server.log",
            owner=myself(),
            lock=lock,
        )
        _stop_when_ready(record, read_process(folder / "process.json"))
        if not unfinished.exists():
            log = (folder / "server.log").read_text(errors="replace").strip()[-800:]
            raise ServerFailed(f"The throw-away Kafka that makes the class archive did not start: {log}", server="kafka")
    unfinished.replace(_archive_file(jars))


def _stop_when_ready(record: ServerRecord, process: ProcessId | None) -> None:
    deadline = time.monotonic() + ARCHIVE_TIMEOUT_SECONDS
    while process is not None and process.is_alive and time.monotonic() < deadline:
        if Kafka().is_ready(record):
            stop(process, stop_signal=Kafka.stop_signal, timeout_seconds=ARCHIVE_TIMEOUT_SECONDS)
        time.sleep(0.1)
