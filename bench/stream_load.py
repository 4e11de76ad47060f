"""Measures what `headwater stream` does under load: `python -m bench.stream_load --rate 100 --realms 1 --seconds 60`.

The stream reads the log of a SQLite store, as a process of its own, or with `--kafka HOST:PORT` the topics that
`headwater publish` fills; commits go to all realms in turn, from this process. The lag of a commit is the time from its
answer to the moment that its realm's retained set on disk has it; with Kafka, also until a consumer of the topics has it.
Each task runs once before the load begins, so that no first sweep is part of it; `--sweeping` repeats them meanwhile.
Memory is the resident set of the driver (its JVM, in which local executors run, and Python) and of the Python workers below
it, sampled each second.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from confluent_kafka import Consumer

import headwater
from headwater.embedded import ReferenceHandle
from headwater.schemas.topics import commits_topic
from headwater.streaming.retained.retained_store import RetainedStore
from tests.support.processes.stream_process import StreamProcess, streaming

WRITERS = 16
SWEEPING = ["--expire-every", "0.001", "--purge-every", "0.001", "--sweep-every", "0.001"]
LOOK_SECONDS = 0.2
POINTER = "cat/1/heads/main"
OPERATIONS = headwater.IcebergTable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=100.0, help="commits a second over all realms; 0: none")
    parser.add_argument("--realms", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--every", default="1")
    parser.add_argument("--sweeping", action="store_true", help="expire, purge and sweep again and again under the load")
    parser.add_argument("--kafka", default="", help="brokers; without them the stream reads the log")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        url = f"sqlite:///{folder}/lake.db"
        with headwater.open(url, create=True) as engine:
            realms = [engine.ensure_realm(f"realm{number}") for number in range(given.realms)]
            branches = [realm.ensure_catalog("lake").branch() for realm in realms]
            for branch in branches:
                _commit(branch, 0)
            sets = [RetainedStore(f"{folder}/sets", realm.kernel.realm) for realm in realms]
            began = time.monotonic()
            settings = {"store": url, "maintenance_dir": f"{folder}/sets", "kafka_bootstrap": given.kafka}
            arguments = ["--every", given.every, *(["--kafka"] if given.kafka else []), *(SWEEPING if given.sweeping else [])]
            publisher = _publishing(url, given.kafka) if given.kafka else contextlib.nullcontext()
            with publisher, streaming(*arguments, settings=settings) as stream:
                stream.wait_for(lambda: stream.get("/readyz").status_code == 200, "it is ready")
                first = time.monotonic() - began
                stream.wait_for(lambda: all(one["runs"] for one in stream.status()["tasks"].values()), "each task has run")
                topics = Arrivals(given.kafka, [commits_topic(realm.kernel.realm) for realm in realms])
                with topics.watched():
                    _measure(stream, branches, sets, topics, given.rate, given.seconds, first)


class Arrivals:
    """When a consumer of the topics was given each entry, by the number of its realm."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self._bootstrap = bootstrap
        self._topics = {topic: at for at, topic in enumerate(topics)}
        self._stopping = threading.Event()
        self.at: list[dict[int, float]] = [{} for _ in topics]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        if not self._bootstrap:
            yield
            return
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join()

    def _watch(self) -> None:
        names = {"bootstrap.servers": self._bootstrap, "group.id": f"bench-{time.time()}", "isolation.level": "read_committed"}
        consumer = Consumer({**names, "auto.offset.reset": "latest", "fetch.wait.max.ms": 50})
        consumer.subscribe(list(self._topics))
        while not self._stopping.is_set():
            for message in consumer.consume(1_000, 0.1):
                headers = dict(message.headers() or ())  # type: ignore[arg-type]
                if not message.error() and headers.get("ce_subject") == POINTER.encode():
                    self.at[self._topics[str(message.topic())]][int(headers["ce_sequence"])] = time.monotonic()
        consumer.close()


@contextlib.contextmanager
def _publishing(url: str, bootstrap: str) -> Iterator[None]:
    """With the settings that a user has, and an interpreter of its own."""
    command = [sys.executable, "-m", "headwater", "--store", url, "publish", "--kafka", bootstrap]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _measure(
    stream: StreamProcess,
    branches: list[ReferenceHandle],
    sets: list[RetainedStore],
    topics: Arrivals,
    rate: float,
    seconds: float,
    first: float,
) -> None:
    stopping = threading.Event()
    answered: list[dict[int, float]] = [{} for _ in branches]
    lags: list[float] = []
    memory: list[tuple[int, int]] = []
    rounds: list[float] = []
    follower = threading.Thread(target=_follow, args=(sets, answered, lags, stopping), daemon=True)
    sampler = threading.Thread(target=_sample, args=(stream, memory, rounds, stopping), daemon=True)
    rounds_before, cpu_before = stream.status()["rounds"], _cpu_seconds(stream.process.pid)
    for thread in (follower, sampler):
        thread.start()
    began = time.monotonic()
    committed: list[dict[int, float]] = [{} for _ in branches]
    commits = _write(branches, answered, committed, rate, seconds) if rate else 0
    if not rate:
        time.sleep(seconds)
    took = time.monotonic() - began
    deadline = time.monotonic() + 300
    while len(lags) < commits and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    caught_up = time.monotonic() - began - took
    whole = time.monotonic() - began
    stopping.set()
    cores = (_cpu_seconds(stream.process.pid) - cpu_before) / whole
    lags.sort()
    published = sorted(
        topics.at[at][seq] - when
        for at, of_realm in enumerate(committed)
        for seq, when in of_realm.items()
        if seq in topics.at[at]
    )
    told = {
        "realms": len(branches),
        "first round s": round(first, 1),
        "commits/s": round(commits / took),
        "rounds": stream.status()["rounds"] - rounds_before,
        "update s p50": round(statistics.median(rounds), 2) if rounds else None,
        "update s max": round(max(rounds), 2) if rounds else None,
        "lag s p50": round(lags[len(lags) // 2], 2) if lags else None,
        "lag s p99": round(lags[int(len(lags) * 0.99)], 2) if lags else None,
        "to Kafka s p50": round(published[len(published) // 2], 2) if published else None,
        "to Kafka s p99": round(published[int(len(published) * 0.99)], 2) if published else None,
        "caught up after s": round(caught_up, 1),
        "driver MiB": max((driver for driver, _ in memory), default=0),
        "workers MiB": max((workers for _, workers in memory), default=0),
        "cores": round(cores, 2),
        "missing": commits - len(lags),
    }
    load = f"load {os.getloadavg()[0]:.0f}"
    print("  ".join([*(f"{name}: {value}" for name, value in told.items()), load]), flush=True)


def _commit(branch: ReferenceHandle, number: int) -> int:
    return branch.commit([headwater.Put((f"t{number % 50}",), OPERATIONS(f"s3://lake/{number}.metadata.json"))]).seq


def _write(
    branches: list[ReferenceHandle],
    answered: list[dict[int, float]],
    committed: list[dict[int, float]],
    rate: float,
    seconds: float,
) -> int:
    """Each writer commits at its share of the rate, or as fast as it can. How many there were."""
    until = time.monotonic() + seconds

    def work(writer: int) -> int:
        commits = 0
        due, number = time.monotonic(), writer
        while (now := time.monotonic()) < until:
            if now < due:
                time.sleep(due - now)
            at = number % len(branches)
            seq = _commit(branches[at], number)
            answered[at][seq] = committed[at][seq] = time.monotonic()
            number += WRITERS if len(branches) == 1 else 1
            due += WRITERS / rate
            commits += 1
        return commits

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(work, range(WRITERS)))


def _follow(sets: list[RetainedStore], answered: list[dict[int, float]], lags: list[float], stopping: threading.Event) -> None:
    while not stopping.wait(LOOK_SECONDS):
        for at, one in enumerate(sets):
            state = one.load()
            position = None if state is None else state.positions.get(POINTER)
            now = time.monotonic()
            if position is None:
                continue
            lags += [now - answered[at].pop(seq) for seq in list(answered[at]) if seq <= position.seq]


def _sample(stream: StreamProcess, memory: list[tuple[int, int]], rounds: list[float], stopping: threading.Event) -> None:
    while not stopping.wait(1.0):
        memory.append(_megabytes(stream.process.pid))
        with contextlib.suppress(httpx.TransportError):  # it ends while it is asked
            rounds += [one["seconds"] for one in stream.realms().values() if one["updates"]]


def _megabytes(pid: int) -> tuple[int, int]:
    """Of driver (Python and JVM), and of Python workers."""
    driver = workers = 0
    for one in _family(pid):
        kilobytes = _resident(one)
        is_driver = one == pid or "java" in _name(one)
        driver, workers = driver + kilobytes * is_driver, workers + kilobytes * (not is_driver)
    return driver // 1024, workers // 1024


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(task).split():
            yield from _family(int(child))


def _cpu_seconds(pid: int) -> float:
    return sum(sum(map(int, _read(Path(f"/proc/{one}/stat")).rpartition(")")[2].split()[11:15])) for one in _family(pid)) / 100


def _resident(pid: int) -> int:
    line = next((line for line in _read(Path(f"/proc/{pid}/status")).splitlines() if line.startswith("VmRSS")), "VmRSS: 0 kB")
    return int(line.split()[1])


def _name(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/comm"))


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    main()
