"""Two Headwaters and a Nessie are bridged into a third store while all are written, and the reconciler is killed with -9 again
and again: nothing is lost, doubled or out of order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from tests.support.fixtures.bridged_lakes import Destination, SourceLake
from tests.support.fixtures.nessie_lake import NessieLake
from tests.support.servers.feed_server import feed_server
from tests.support.servers.servers import nessie_url

SOAK = bool(os.environ.get("HEADWATER_SOAK"))
KILLS, WRITING_SECONDS = (20, 600.0) if SOAK else (3, 0.0)
"""At least so many kills, for at least so long."""
WAIT_SECONDS = 120.0


class Lake(Protocol):
    """A source as its engines write it."""

    def create(self, namespace: str, name: str) -> None: ...
    def update(self, namespace: str, name: str, value: str) -> None: ...
    def rename(self, namespace: str, name: str, to: str) -> None: ...
    def drop(self, namespace: str, name: str) -> None: ...


def test_a_killed_reconciler_commits_every_commit_of_a_log_once_and_in_order(tmp_path: Path) -> None:
    with ExitStack() as sources, ThreadPoolExecutor() as pool:
        servers = [feed_server(f"sqlite:///{tmp_path}/{name}.db") for name in ("first", "second")]
        starting = [pool.submit(sources.enter_context, one) for one in (*servers, nessie_url())]
        destination = Destination(tmp_path, "file:///")
        first_server, second_server, nessie = [one.result() for one in starting]
        first, second, third = SourceLake(first_server.url), SourceLake(second_server.url), NessieLake(nessie)
        for lake in (first, second, third):
            sources.callback(lake.close)
            lake.namespace("db")
        destination.add("headwater", first_server.url)
        destination.add("iceberg-rest", first_server.url)
        destination.add("nessie", second_server.url)
        destination.add_source("real-nessie", "nessie", third.api, f"reference={third.branch}")

        cut = _kill_while_all_are_written(destination, [first, second, third])
        assert cut >= KILLS
        time.sleep(2.5)  # the leases of the last process
        last = destination.json("reconcile", "--once")["jobs"]
        assert [(one["state"], one["failures"]) for one in last] == [("SUCCEEDED", [])] * 4
        for name, versions in {
            "headwater": [one["entry_id"] for one in first.changes()],
            "nessie": [one["entry_id"] for one in second.changes()],
            "real-nessie": [one["hash"] for one in third.log()],
        }.items():
            observed = destination.observed(name)
            assert [one["headers"]["headwater.observed.version"] for one in observed] == versions, name
            assert len(versions) > KILLS, name
            assert not [one for one in observed if "headwater.observed.gap" in one["headers"]], name
        for name, lake in {"headwater": first, "iceberg-rest": first, "nessie": second, "real-nessie": third}.items():
            assert destination.state(name) == lake.state(), name
        _check_polled(destination, first.changes())


def _kill_while_all_are_written(destination: Destination, lakes: Iterable[Lake]) -> int:
    """The number of kills, each of a process that was at work."""
    stopping, failed = threading.Event(), list[Exception]()
    writers = [threading.Thread(target=_write, args=(lake, stopping, failed)) for lake in lakes]
    for writer in writers:
        writer.start()
    rolled, cut, until = random.Random(19), 0, time.monotonic() + WRITING_SECONDS
    while cut < KILLS or time.monotonic() < until:
        before = destination.head_seq()
        process = destination.start_reconciler()
        _wait_until(lambda before=before: destination.head_seq() > before, process)
        time.sleep(rolled.random() * 0.5)  # the kill may come at any step
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        cut += 1
    stopping.set()
    for writer in writers:
        writer.join()
    assert not failed
    return cut


def _write(lake: Lake, stopping: threading.Event, failed: list[Exception]) -> None:
    """Creates, updates, renames and drops until it is stopped."""
    try:
        number = 0
        while not stopping.is_set():
            number += 1
            name = f"t{number}"
            lake.create("db", name)
            lake.update("db", name, "1")
            if number % 3 == 0:
                lake.rename("db", name, f"renamed{number}")
            if number % 4 == 0:
                lake.update("db", "t1", str(number))
            if number > 4 and number % 5 == 0:
                lake.drop("db", f"t{number - 1}" if (number - 1) % 3 else f"renamed{number - 1}")
            stopping.wait(1.0 if SOAK else 0.2)
    except Exception as error:
        failed.append(error)


def _wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """⚠ A kill counts only if the process was at work."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert process.poll() is None, "the reconciler ended by itself"
        assert time.monotonic() < deadline, "the reconciler commits nothing"
        time.sleep(0.1)


def _check_polled(destination: Destination, commits: list[dict[str, Any]]) -> None:
    """Of each table, versions in the source's order, none twice."""
    order: dict[str, int] = {}
    for commit in commits:
        for operation in commit["operations"]:
            after = operation["after"] or {}
            if "metadata_location" in after:
                order.setdefault(after["metadata_location"], len(order))
    by_table: dict[str, list[str]] = {}
    for change in destination.observed("iceberg-rest"):
        for operation in change["operations"]:
            if operation["op"] == "put" and "metadata_location" in (operation["after"] or {}):
                by_table.setdefault(operation["content_id"], []).append(operation["after"]["metadata_location"])
    for versions in by_table.values():
        places = [order[one] for one in versions]
        assert places == sorted(set(places))
    assert by_table
