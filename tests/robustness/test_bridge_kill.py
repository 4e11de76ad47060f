"""A reconciler is killed with -9 again and again while the source is written: nothing is lost, doubled or out of order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.support.fixtures.bridged_lakes import KINDS, Destination, SourceLake
from tests.support.servers.feed_server import feed_server

SOAK = bool(os.environ.get("HEADWATER_SOAK"))
KILLS = 60 if SOAK else 3
WAIT_SECONDS = 120.0


def test_a_killed_reconciler_commits_every_commit_of_a_log_once_and_in_order(tmp_path: Path) -> None:
    with feed_server(f"sqlite:///{tmp_path}/source.db") as server:
        source, destination = SourceLake(server.url), Destination(tmp_path, "file:///")
        source.namespace("db")
        for kind in KINDS:
            destination.add(kind, server.url)
        stopping, failed = threading.Event(), list[Exception]()
        writer = threading.Thread(target=_write, args=(source, stopping, failed))
        writer.start()
        rolled, cut = random.Random(19), 0
        for _ in range(KILLS):
            before = len(_observed(destination))
            process = destination.start_reconciler()
            _wait_until_more(destination, before, process)
            time.sleep(rolled.random() * 0.5)  # the kill may come at any step
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            cut += 1
        stopping.set()
        writer.join()
        assert not failed
        time.sleep(2.5)  # the leases of the last process
        destination.run("reconcile", "--once")
        commits, state = source.changes(), source.state()
        assert cut == KILLS and len(commits) > KILLS
        for kind in ("headwater", "nessie"):
            seen = [one["headers"]["headwater.observed.version"] for one in destination.observed(kind)]
            assert seen == [one["entry_id"] for one in commits], kind
        for kind in KINDS:
            assert destination.state(kind) == state, kind
        _check_polled(destination, commits)
        source.close()


def _write(source: SourceLake, stopping: threading.Event, failed: list[Exception]) -> None:
    """Creates, updates, renames and drops until it is stopped."""
    try:
        number = 0
        while not stopping.is_set():
            number += 1
            name = f"t{number}"
            source.create("db", name)
            source.update("db", name, "1")
            if number % 3 == 0:
                source.rename("db", name, f"renamed{number}")
            if number % 4 == 0:
                source.update("db", "t1", str(number))
            if number > 4 and number % 5 == 0:
                source.drop("db", f"t{number - 1}" if (number - 1) % 3 else f"renamed{number - 1}")
            stopping.wait(0.1)
    except Exception as error:
        failed.append(error)


def _observed(destination: Destination) -> list[str]:
    return destination.run("changes", "--json").splitlines()


def _wait_until_more(destination: Destination, before: int, process: subprocess.Popen[bytes]) -> None:
    """⚠ A kill counts only if the process was at work."""
    deadline = time.monotonic() + WAIT_SECONDS
    while len(_observed(destination)) <= before:
        assert process.poll() is None, "the reconciler ended by itself"
        assert time.monotonic() < deadline, "the reconciler commits nothing"
        time.sleep(0.2)


def _check_polled(destination: Destination, commits: list[dict[str, object]]) -> None:
    """Of each table, versions in the source's order, none twice."""
    order = {}
    for commit in commits:
        for operation in commit["operations"]:  # type: ignore[attr-defined]
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
