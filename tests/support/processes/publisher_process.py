"""A publisher that kills (-9) or stops (SIGSTOP) its own process at a given point.

`python -m tests.support.processes.publisher_process URL BOOTSTRAP LEASE_SECONDS [kill|stop POINT COUNT]` prints `POINT`
when the fault fires at the COUNT-th time that the point is passed, and `owns N` when the number of its shards changes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from headwater.persistence.backend import Backend
from headwater.persistence.store import open_store
from headwater.producer.publisher.publisher import Publisher
from headwater.producer.publisher.shards.fault_points import At, FaultPoint, no_fault
from tests.support.fixtures.publisher_runs import options

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def one_write_at_a_time(backend: Backend) -> threading.RLock:
    """A process that is stopped in the middle of a write would hold the database's own lock, and stop everybody."""
    writing = threading.RLock()

    def guarded(write: Callable[..., bool]) -> Callable[..., bool]:
        def locked(*arguments: object) -> bool:
            with writing:
                return write(*arguments)

        return locked

    for name in ("insert_mutable", "update_mutable", "delete_mutable"):
        setattr(backend, name, guarded(getattr(backend, name)))
    return writing


def at_point(action: str, point: str, count: int, lock: threading.RLock) -> At:
    passed = 0

    def at(here: FaultPoint) -> None:
        nonlocal passed
        if here != point:
            return
        with lock:
            passed += 1
            if passed == count:
                say(point)
                os.kill(os.getpid(), SIGNALS[action])

    return at


def main(url: str, bootstrap: str, lease_seconds: str, *fault: str) -> None:
    with open_store(url) as store:
        lock = one_write_at_a_time(store.backend)
        at = at_point(fault[0], fault[1], int(fault[2]), lock) if fault else no_fault
        publisher = Publisher(store, options(bootstrap, lease_seconds=float(lease_seconds)), at=at)
        signal.signal(signal.SIGTERM, lambda *_: publisher.stop())
        threading.Thread(target=tell, args=(publisher,), daemon=True).start()
        publisher.run()


def tell(publisher: Publisher) -> None:
    before = -1
    while True:
        shards = publisher.status()
        if len(shards) != before:
            before = len(shards)
            say(f"owns {before}")
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
