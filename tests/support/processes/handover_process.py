"""A worker that commits from several threads and hands over to its peer, until it kills (-9) or stops itself at a named point.

`python -m tests.support.processes.handover_process URL FOLDER NAME COMMITS [kill|stop POINT COUNT]` prints `holds` or `sends`
when it sees its peer, waits for a line, prints `id SEQ` for each acknowledged commit, `unknown ID` for an outcome that nobody
can tell, `fault POINT` when the fault fires, and `done`. The point `before-cas` is any CAS of its lane.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.persistence.backends.sqlite.sqlite_backend import SqliteBackend
from headwater.persistence.handover.fault_points import FaultPoint
from headwater.schemas.errors import CommitOutcomeUnknown
from tests.support.fixtures.shared_lanes import Worker

WRITERS = 4
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
BEFORE_CAS = "before-cas"


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


class Fault:
    """⚠ A process that is stopped inside a transaction of SQLite keeps all others from writing, which is not the fault that is
    meant. So no thread is inside one, and the signal goes to the calling thread: after `os.kill` that thread runs on for a
    moment, often into the transaction."""

    def __init__(self, action: str, point: str, count: str, between_writes: Callable[[Callable[[], None]], None]) -> None:
        self._action, self._point, self._left = action, point, int(count)
        self._between_writes = between_writes
        self._lock = threading.Lock()
        self.is_armed = False

    def at(self, point: FaultPoint | str) -> None:
        if point != self._point or not self.is_armed:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                say(f"fault {point}")
                self._between_writes(lambda: signal.pthread_kill(threading.get_ident(), SIGNALS[self._action]))


def main(url: str, folder: str, name: str, commits: str, *fault: str) -> None:
    worker = Worker(url, Path(folder), name)
    planned = Fault(fault[0], fault[1], fault[2], _between_writes(worker)) if fault else None
    if planned is not None:
        worker.at = planned.at
        _before_cas(worker, planned.at)
    while not worker.sees_another():
        time.sleep(0.01)
    say("holds" if worker.holds() else "sends")
    sys.stdin.readline()
    worker.lake.kernel.committer.commit(worker.pointer, worker.put(f"{name}-first"))
    if planned is not None:
        planned.is_armed = True
    writers = [threading.Thread(target=_write, args=(worker, f"{name}{number}", int(commits))) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    say("done")
    sys.stdin.readline()
    worker.store.close()


def _between_writes(worker: Worker) -> Callable[[Callable[[], None]], None]:
    backend = worker.store.backend
    return backend._commits.exclusively if isinstance(backend, SqliteBackend) else lambda action: action()


def _before_cas(worker: Worker, at: Callable[[str], None]) -> None:
    cas = worker.store.backend.commit

    def faulty(*arguments: Any, **named: Any) -> bool:
        at(BEFORE_CAS)
        return cas(*arguments, **named)

    worker.store.backend.commit = faulty  # type: ignore[method-assign]


def _write(worker: Worker, writer: str, commits: int) -> None:
    """Half of the requests bring their own id along."""
    for number in range(commits):
        key = f"{writer}-{number}"
        request = worker.put(key, key if number % 2 else None)
        try:
            outcome = worker.lake.kernel.committer.commit(worker.pointer, request)
        except CommitOutcomeUnknown:
            say(f"unknown {key}")
            continue
        if outcome.logged is None or outcome.replayed:
            raise AssertionError(f"{key} was answered as if it had been there before")
        say(f"{key} {outcome.logged.entry.seq}")


if __name__ == "__main__":
    main(*sys.argv[1:])
