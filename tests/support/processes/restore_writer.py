"""A process that commits to `lake`, whatever happens to the store. It prints of each commit when it was begun and under which
key it landed, and ends with its input."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time

import headwater
from headwater import IcebergTable, Put
from headwater.schemas.errors import HeadwaterError

PAUSE_SECONDS = 0.02


def main(url: str, name: str) -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with headwater.open(url) as engine:
        branch = engine.realm().catalog("lake").branch()
        for n in itertools.count():
            if ended.is_set():
                return
            key, began = f"{name}-{n}", time.time()
            try:
                branch.commit([Put((key,), IcebergTable(f"s3://lake/{key}"))])
            except HeadwaterError as error:
                print(type(error).__name__, error, file=sys.stderr, flush=True)
            else:
                print(began, key, flush=True)
            time.sleep(PAUSE_SECONDS)


class RestoreWriter:
    """The same, from the outside."""

    def __init__(self, url: str, name: str) -> None:
        self.acknowledged: list[tuple[float, str]] = []
        """When each commit was begun, and its key."""
        command = [sys.executable, "-m", "tests.support.processes.restore_writer", url, name]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._threads = [threading.Thread(target=read) for read in (self._read_acknowledged, self._read_errors)]
        self.errors = ""
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> RestoreWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:  # closes its pipes
            if self._process.poll() is None:
                self._process.kill()
            for thread in self._threads:
                thread.join()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        for thread in self._threads:
            thread.join()
        assert self._process.wait(60) == 0, self.errors

    def _read_acknowledged(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            began, key = line.split()
            self.acknowledged.append((float(began), key))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.errors += line


if __name__ == "__main__":
    main(*sys.argv[1:])
