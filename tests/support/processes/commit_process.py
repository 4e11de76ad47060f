"""A process that commits a given number of times to a store, and prints each commit that landed.

Each acknowledged request id is printed, and flushed, before the next commit begins. Whoever is killed in between may have
committed one that it did not print, never the reverse. It begins with a line on its input, so that several can begin together.
A count of 0 continues until the process is ended.
"""

from __future__ import annotations

import itertools
import subprocess
import sys

from headwater.persistence.store import open_store
from tests.support.models.commit_harness import MAIN, REALM, Bump, Write


def main(url: str, writer: str, count: int, with_others: int) -> None:
    with open_store(url) as store:
        committer = store.kernel(REALM).committer
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(count) if count else itertools.count():
            bump = Bump(writer=writer)
            extras = [Write(puts={f"{writer}-{n % 50}-{extra}": {"v": n, "text": "x" * 200}}) for extra in range(with_others)]
            requests: list[Bump | Write] = [bump, *extras]
            futures = [committer.submit(MAIN, request) for request in requests]
            for request, future in zip(requests, futures, strict=True):
                future.result()
                print(request.request_id, flush=True)
    print("done", flush=True)


class CommitProcess:
    """The same, from the outside."""

    def __init__(self, url: str, writer: str, commits: int = 0, with_others: int = 0) -> None:
        command = [sys.executable, "-m", "tests.support.processes.commit_process", url, writer, str(commits), str(with_others)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert self._process.stdout is not None
        self._output = self._process.stdout

    def wait_ready(self) -> None:
        assert self._output.readline().strip() == "ready", self._process.communicate()[1]

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def read_acknowledged(self, count: int) -> list[str]:
        return [self._output.readline().strip() for _ in range(count)]

    def finish(self, timeout_seconds: float) -> list[str]:
        """All that it acknowledged, once it has come to its end by itself."""
        output, errors = self._process.communicate(timeout=timeout_seconds)
        assert self._process.returncode == 0, errors
        *ids, done = output.split()
        assert done == "done"
        return ids

    def kill(self) -> list[str]:
        """End it with SIGKILL, wherever it is; what it has acknowledged beyond what was read."""
        self._process.kill()
        if self._output.closed:  # it has finished by itself
            return []
        output = self._output.read()  # not by communicate: that passes over lines which were buffered here already
        self._process.communicate()
        return [line.strip() for line in output.splitlines(keepends=True) if line.endswith("\n")]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
