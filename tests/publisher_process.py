"""A store, a broker and a fault enter; a publisher runs until it kills (-9) or stops (SIGSTOP) its own process there.

`python -m tests.publisher_process URL BOOTSTRAP LEASE_SECONDS [kill|stop POINT COUNT]` prints `POINT` when the fault fires at
the COUNT-th time that the point is passed, and `owns N` when the number of its shards changes.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from headwater.persistence.store import open_store
from headwater.producer.publisher.faults import FaultPoint, no_fault
from headwater.producer.publisher.publisher import Publisher
from tests.publisher_runs import options

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def at_point(action: str, point: str, count: int) -> object:
    passed, lock = 0, threading.Lock()

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
    at = at_point(fault[0], fault[1], int(fault[2])) if fault else no_fault
    with open_store(url) as store:
        publisher = Publisher(store, options(bootstrap, lease_seconds=float(lease_seconds)), at=at)  # type: ignore[arg-type]
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
