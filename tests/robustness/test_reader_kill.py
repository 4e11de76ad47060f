"""kill -9 of readers that keep their own position: they continue where they were, even if they had not read anything yet."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path

import msgspec
import pytest

import headwater
from headwater import IcebergTable, Put
from headwater.client.remote import RemoteReference
from headwater.consumers.webhooks.cloud_event import CloudEvent
from headwater.consumers.webhooks.webhook_signing import new_secret
from tests.support.servers.served import ServedStore, served
from tests.support.servers.webhook_receiver import receiving

WAIT_SECONDS = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('killed')}/lake.db") as server:
        yield server


@pytest.fixture
def branch(server: ServedStore) -> Iterator[RemoteReference]:
    with headwater.connect(server.url) as remote:
        yield remote.realm().catalog("lake").branch()


def put(branch: RemoteReference, number: int) -> str:
    return branch.commit([Put(("k",), IcebergTable(f"s3://{number}"))]).commit_id


@contextmanager
def killed_at_the_end(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-m", "headwater", *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()
        assert process.wait() == -signal.SIGKILL, "the reader ended before it was killed"


def wait_for_file(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, "the reader keeps nowhere where it began"
        time.sleep(0.02)


def test_a_webhook_killed_before_its_first_delivery_continues_where_it_began(
    server: ServedStore, branch: RemoteReference, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_WEBHOOK_SECRET", new_secret())
    cursor, tried, may_be_taken = tmp_path / "cursor", threading.Event(), threading.Event()

    def answer(_: int) -> int:
        tried.set()
        return 204 if may_be_taken.is_set() else 503

    put(branch, 0)
    with receiving(answer) as receiver:
        send = ["webhook", "send", "--server", server.url, "--branch", "main", "--url", receiver.url, "--allow-private"]
        send += ["--cursor-file", str(cursor), "--dead-letters", str(tmp_path / "dead"), "--after", "latest"]
        with killed_at_the_end(*send, "--follow") as sender:
            wait_for_file(cursor, sender)
            first = put(branch, 1)
            assert tried.wait(WAIT_SECONDS), "the kill came before the first attempt"
        put(branch, 2)
        may_be_taken.set()
        receiver.calls.clear()
        subprocess.run([sys.executable, "-m", "headwater", *send], check=True, stdout=subprocess.DEVNULL)
        taken = [msgspec.json.decode(body, type=CloudEvent).data.commit_id for _, body in receiver.calls]
    assert taken == [first, branch.info().commit_id] and not (tmp_path / "dead").exists()


@pytest.mark.parametrize("flags", [(), ("--stream",)], ids=["poll", "sse"])
def test_a_subscriber_with_a_cursor_file_is_killed_at_any_line_and_skips_nothing(
    server: ServedStore, branch: RemoteReference, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    cursor = tmp_path / "cursor"
    command = ["subscribe", "--server", server.url, "--branch", "main", "--after", "latest", "--follow", "--json"]
    command += ["--cursor-file", str(cursor), *flags]
    with killed_at_the_end(*command) as process:  # before the first line
        wait_for_file(cursor, process)
    expected = [put(branch, number) for number in range(40)]
    seen: list[str] = []
    for lines in (1, 7, 41):
        with killed_at_the_end(*command) as process:
            assert process.stdout is not None
            for line in islice(process.stdout, lines):
                seen.append(json.loads(line)["commit_id"])
                if seen[-1] == expected[-1]:
                    break
            process.kill()
            seen += [json.loads(line)["commit_id"] for line in process.stdout]
        if seen[-1] == expected[-1]:
            break
    assert [commit for commit, _ in groupby(seen)] == expected, "a kill may repeat the last line, and nothing else"
