"""The whole system under eight writers, while its processes are killed in turn: nothing is lost, doubled or wrongly purged."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from headwater.demo.backdated_history import write_backdated_history
from headwater.demo.pipeline_readers import READERS, PipelineReaders, reading
from headwater.persistence.reading.pointer_log import PointerLog
from headwater.persistence.store import Store, open_store
from headwater.settings import load_settings
from headwater.streaming.reachability.retained_identifiers import Identifiers
from headwater.streaming.runs.runs import Runs
from headwater.streaming.sweep.verify import verify_realm
from headwater.up.supervisor import ProcessStatus, Supervisor
from headwater.up.system import STORE_FILE, SystemOptions, make_system
from headwater.up.up_lock import held_folder

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
SECONDS = float(os.environ.get("HEADWATER_SOAK_SECONDS", "3600")) if SOAK else 0.0
KILLED = ("server", "publisher", "views", "stream", "driver", "kafka", "registry") if SOAK else ("server", "stream")
"""Each at least once; `driver` is the JVM of Spark below the stream."""
WRITERS = 8
PAUSE_SECONDS = 0.2
WAIT_SECONDS = 420.0
POINTER = "cat/1/heads/main"


class Writer(threading.Thread):
    """Commits again and again, each under a key, and repeats what was not answered."""

    def __init__(self, server: str, number: int, stopping: threading.Event) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self._server = server
        self._number = number
        self._stopping = stopping
        self.acknowledged: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._server, timeout=30) as client:
            while not self._stopping.wait(PAUSE_SECONDS):
                name = f"writer {self._number} commit {len(self.acknowledged)}"
                if self._commit(client, name, uuid.uuid4().hex):
                    self.acknowledged.append(name)

    def _commit(self, client: httpx.Client, name: str, key: str) -> bool:
        location = f"s3://lake/{self._number}/{len(self.acknowledged)}.metadata.json"
        put = {"op": "put", "key": [f"t{self._number}"], "type": "ICEBERG_TABLE", "content": {"metadata_location": location}}
        body = {"catalog": "lake", "author": self.name, "message": name, "operations": [put]}
        while True:
            try:
                answer = client.post("/feed/v1/default/commit", json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 200:
                return True
            assert answer is None or answer.status_code in (409, 429, 500, 503), answer.text
            if self._stopping.wait(PAUSE_SECONDS):
                return False


@contextmanager
def writing(server: str) -> Iterator[list[Writer]]:
    stopping = threading.Event()
    writers = [Writer(server, number, stopping) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        stopping.set()
        for writer in writers:
            writer.join(60)


def wait_until(what: Callable[[], object], why: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < deadline, why()
        time.sleep(0.1)


def kill(supervisor: Supervisor, name: str) -> float:
    """Seconds until it is ready again."""
    process = "stream" if name == "driver" else name
    before = status_of(supervisor, process)
    assert before.pid is not None
    os.kill(java_below(before.pid) if name == "driver" else before.pid, signal.SIGKILL)
    began = time.monotonic()
    wait_until(
        lambda: status_of(supervisor, process).restarts > before.restarts and supervisor.is_ready,
        lambda: f"{name} was killed: {supervisor.statuses}",
    )
    return time.monotonic() - began


def status_of(supervisor: Supervisor, name: str) -> ProcessStatus:
    return next(one for one in supervisor.statuses if one.name == name)


def java_below(pid: int) -> int:
    children = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    return next(child for child in children if "java" in Path(f"/proc/{child}/exe").resolve().name)


@pytest.mark.timeout(1_500 + SECONDS)
def test_nothing_is_lost_doubled_or_wrongly_purged_while_processes_are_killed(tmp_path: Path) -> None:
    history = write_backdated_history(tmp_path, file=STORE_FILE)
    options = SystemOptions(folder=tmp_path, port=0, every_seconds=0.2, hours=0.005)
    with held_folder(tmp_path) as lock, open_store(history.url) as store:
        head = store.backend.read_pointer(history.instance, POINTER)
        assert head is not None
        system = make_system(load_settings({"jar_cache_dir": load_settings().jar_cache_dir}), options)
        supervisor = Supervisor(system.processes, lock)
        supervisor.start()
        try:
            wait_until(lambda: supervisor.is_ready, lambda: supervisor.statuses)
            with reading(system, history.instance, POINTER, after_seq=head.seq, group="kills") as readers:
                with writing(system.server) as writers:
                    until = time.monotonic() + SECONDS
                    for name in KILLED:
                        told(name, kill(supervisor, name), writers)
                    while time.monotonic() < until:
                        for name in KILLED:
                            told(name, kill(supervisor, name), writers)
                check(store, history.instance, readers, head.seq, [name for one in writers for name in one.acknowledged])
                wait_until(lambda: purged(store), lambda: "nothing was purged")
        finally:
            supervisor.stop()
        report = verify_realm(store.backend, history.instance, store.clock, Identifiers())
        assert report.holds, report


def told(name: str, seconds: float, writers: list[Writer]) -> None:
    """Shown with -s: the figures of docs/pipeline.md."""
    print(f"{name} killed, all ready after {seconds:.1f} s, {sum(len(one.acknowledged) for one in writers)} commits so far")


def check(store: Store, instance: str, readers: PipelineReaders, after_seq: int, acknowledged: list[str]) -> None:
    """The log has each acknowledged commit once, and each reader has the log."""
    logged = Counter(one.entry.message for one in PointerLog(store.kernel(instance), POINTER).forward(after_seq))
    assert len(acknowledged) > WRITERS and not [name for name in acknowledged if logged[name] != 1]
    assert set(logged.values()) == {1}, "a commit is in the log twice"
    last = after_seq + sum(logged.values())
    wait_until(
        lambda: len(readers.arrivals(last)) == len(READERS),
        lambda: f"{readers.arrivals(last).keys()} of {READERS} have entry {last}",
    )
    missing = readers.missing(after_seq + 1, last)
    # A Kafka group is given again what it has not acknowledged: a broker that is killed may keep it from that.
    repeated = [seq for seq in missing.pop("Kafka group", []) if "Kafka group" not in readers.arrivals(seq)]
    assert (missing, repeated) == ({}, [])


def purged(store: Store) -> int:
    return sum(one.totals().purged for one in Runs(store.backend, store.clock).list() if one.operation == "sweep")
