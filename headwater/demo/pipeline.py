"""The pipeline part of the demo: commits go through the whole system, and what is no longer needed is purged."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import msgspec

from headwater.demo.backdated_history import write_backdated_history
from headwater.demo.checks import Check
from headwater.demo.pipeline_readers import READERS, PipelineReaders, reading
from headwater.dev.java import java_program
from headwater.persistence.rows import Table
from headwater.persistence.store import Store, open_store
from headwater.schemas.errors import ServerFailed
from headwater.settings import Settings
from headwater.streaming.runs.runs import Runs, RunStatus
from headwater.up.supervisor import ProcessStatus, Supervisor
from headwater.up.system import STORE_FILE, System, SystemOptions, make_system
from headwater.up.up_lock import held_folder

POINTER = "cat/1/heads/main"
MAINTAIN_HOURS = 0.005
READY_SECONDS_MAX = 600.0
ARRIVE_SECONDS_MAX = 120.0
PURGE_SECONDS_MAX = 300.0
LOOK_SECONDS = 0.02
AGAIN_SECONDS = 0.5

Say = Callable[[str], None]


class PipelineResult(msgspec.Struct, frozen=True, kw_only=True):
    commits: int
    ready_seconds: float
    """Seconds from nothing to all processes ready."""
    arrivals: dict[str, list[float]]
    """Reader → seconds from the response to each commit until its arrival; an arrival before the response counts as 0."""
    rows_before: int
    rows_after: int
    purged: int
    purge_seconds: float
    """Seconds from the last commit to the end of the next sweep."""
    seconds: float
    checks: list[Check]

    @property
    def all_kept(self) -> bool:
        return all(check.kept for check in self.checks)


def run_pipeline(settings: Settings, folder: Path, say: Say, show: Callable[[str], None], *, commits: int) -> PipelineResult:
    began = time.monotonic()
    java_program()  # what is missing is reported before anything else happens
    say("a quarter's history is written by a clock that was set back")
    history = write_backdated_history(folder, file=STORE_FILE)
    options = SystemOptions(folder=folder, port=0, every_seconds=0.2, hours=MAINTAIN_HOURS)
    with held_folder(folder) as lock, open_store(history.url) as store:
        rows_before = _count(store, history.instance)
        system = make_system(settings, options)
        say("store, Kafka, registry, server, publisher, views and stream are started")
        with _running(system, lock, show) as supervisor:
            ready_seconds = _wait_until_ready(supervisor, began)
            head = store.backend.read_pointer(history.instance, POINTER)
            after_seq = 0 if head is None else head.seq
            with reading(system, history.instance, POINTER, after_seq=after_seq) as readers:
                say(f"{commits} commits by HTTP, each followed to every reader")
                arrivals = _drive(system, readers, commits, after_seq, show)
                last_at = time.monotonic()
                say("the stream expires and sweeps what is older than 30 days")
                purged = _wait_for_sweep(store)
                purge_seconds = time.monotonic() - last_at
                wrong = readers.missing(after_seq + 1, after_seq + commits)
        rows_after = _count(store, history.instance)
    checks = [
        Check("each commit arrives at every reader once", not wrong, _detail(wrong, commits)),
        Check("what no retained state reaches is purged", purged > 0, f"{purged} rows by the stream's sweeps"),
    ]
    return PipelineResult(
        commits=commits,
        ready_seconds=round(ready_seconds, 3),
        arrivals=arrivals,
        rows_before=rows_before,
        rows_after=rows_after,
        purged=purged,
        purge_seconds=round(purge_seconds, 3),
        seconds=round(time.monotonic() - began, 3),
        checks=checks,
    )


@contextlib.contextmanager
def _running(system: System, lock: int, show: Callable[[str], None]) -> Iterator[Supervisor]:
    def watch(status: ProcessStatus) -> None:
        if status.state in ("ready", "restarting"):
            show(f"{status.name:<10} {status.state:<10} {status.address}  {status.reason}".rstrip())

    supervisor = Supervisor(system.processes, lock, watch=watch)
    supervisor.start()
    try:
        yield supervisor
    finally:
        supervisor.stop()


def _wait_until_ready(supervisor: Supervisor, began: float) -> float:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not supervisor.is_ready:
        if time.monotonic() > deadline:
            late = next(one for one in supervisor.statuses if one.state != "ready")
            raise ServerFailed(f"{late.name} is not ready: {late.reason or late.state}; its log is {late.log}.")
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def _drive(
    system: System, readers: PipelineReaders, commits: int, after_seq: int, show: Callable[[str], None]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in READERS}
    with httpx.Client(base_url=system.server, timeout=30) as client:
        for number in range(commits):
            answered_at = commit_by_http(client, number)
            seq = after_seq + number + 1
            at = _wait_for_arrival(readers, seq)
            took = {name: round(max(0.0, at[name] - answered_at), 3) for name in READERS if name in at}
            for name, seconds in took.items():
                found[name].append(seconds)
            show(f"{seq:>6}  " + "  ".join(f"{name} {took[name]:.2f} s" if name in took else f"{name} –" for name in READERS))
    return found


def commit_by_http(client: httpx.Client, number: int) -> float:
    """When it was answered."""
    content = {"metadata_location": f"s3://lake/pipeline/{number}.metadata.json"}
    body = {
        "catalog": "lake",
        "author": "pipeline",
        "message": f"Commit {number}",
        "operations": [{"op": "put", "key": [f"pipeline_{number}"], "type": "ICEBERG_TABLE", "content": content}],
    }
    answer = client.post("/feed/v1/default/commit", json=body)
    if answer.status_code != httpx.codes.OK:
        raise ServerFailed(f"the server has refused a commit: {answer.text}")
    return time.monotonic()


def _wait_for_arrival(readers: PipelineReaders, seq: int) -> dict[str, float]:
    deadline = time.monotonic() + ARRIVE_SECONDS_MAX
    while len(readers.arrivals(seq)) < len(READERS) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return readers.arrivals(seq)


def _wait_for_sweep(store: Store) -> int:
    """Rows that all sweeps have purged, after one that begins now has ended."""
    runs = Runs(store.backend, store.clock)
    before = {one.id for one in runs.list()}
    deadline = time.monotonic() + PURGE_SECONDS_MAX
    while time.monotonic() < deadline:
        done = [one for one in runs.list() if one.operation == "sweep" and one.status is RunStatus.DONE]
        if any(one.id not in before for one in done):
            return sum(one.totals().purged for one in done)
        time.sleep(AGAIN_SECONDS)
    return 0


def _count(store: Store, realm: str) -> int:
    return sum(1 for split in store.backend.splits(Table.OBJECTS, 1) for _ in store.backend.scan(split, realm=realm))


def _detail(wrong: dict[str, list[int]], commits: int) -> str:
    if wrong:
        return "; ".join(f"{name} lacks or repeats {len(seqs)}" for name, seqs in wrong.items())
    return f"{commits} commits, {len(READERS)} readers"


def median_and_max(seconds: list[float]) -> tuple[float, float]:
    return (statistics.median(seconds), max(seconds)) if seconds else (0.0, 0.0)
