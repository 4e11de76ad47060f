"""The examples of docs/jobs.md run against a real server: each runs its job once for every change of the table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.consumers.webhooks.webhook_signing import new_secret
from tests.support.servers.served import served
from tests.support.servers.webhook_receiver import receiving

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "jobs.md").read_text()
EXAMPLES = re.findall(r"^```(python|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAM, JOB, HOOK = EXAMPLES
KEEPS_ITS_INPUT = "#!/bin/sh\ntee -a jobs.jsonl >/dev/null\n"
FAILS_AT_FIRST = "#!/bin/sh\nif mkdir failed 2>/dev/null; then exit 3; fi\ntee -a jobs.jsonl >/dev/null\n"


class Shop:
    """A server, whose catalog has two tables, and commands for it in a folder of their own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder
        self._secret = new_secret()
        self._number = 0

    def change(self, table: str) -> str:
        """Commits a new version of the table; its commit id."""
        self._number += 1
        with headwater.connect(self.url) as remote:
            branch = remote.realm().catalog("lake").branch("main")
            content = headwater.IcebergTable(f"s3://shop/{table}/{self._number}.json", snapshot_id=self._number)
            return branch.commit([headwater.Put(("shop", table), content)], message=f"Write {table}").commit_id

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        given = {**os.environ, "PATH": path, "SERVER": self.url, "HEADWATER_WEBHOOK_SECRET": self._secret, **more}
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self._folder,
            env=given,
            capture_output=True,
            text=True,
            check=False,
        )

    def jobs(self) -> list[str]:
        """Commit ids of the changes that jobs were given."""
        file = self._folder / "jobs.jsonl"
        return [json.loads(line)["commit_id"] for line in file.read_text().splitlines()] if file.exists() else []

    def program(self, text: str) -> None:
        file = self._folder / "refresh.sh"
        file.write_text(text)
        file.chmod(0o700)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('jobs')}/lake.db") as running:
        with headwater.connect(running.url) as remote:
            branch = remote.realm().catalog("lake").branch("main")
            branch.commit([headwater.Put(("shop",), headwater.Namespace())])
        yield running.url


@pytest.fixture
def shop(server: str, tmp_path: Path) -> Shop:
    return Shop(server, tmp_path)


def test_a_program_runs_once_for_each_change_of_the_table(shop: Shop) -> None:
    shop.program(KEEPS_ITS_INPUT)
    shop.change("orders")
    first = shop.run(PROGRAM[1])
    assert first.returncode == 0 and shop.jobs() == [], first.stderr
    made = [shop.change("orders"), shop.change("returns"), shop.change("orders")]
    for _ in range(2):
        assert shop.run(PROGRAM[1]).returncode == 0
        assert shop.jobs() == [made[0], made[2]]


def test_a_program_that_fails_is_given_the_same_change_again(shop: Shop) -> None:
    shop.program(FAILS_AT_FIRST)
    assert shop.run(PROGRAM[1]).returncode == 0
    made = [shop.change("orders"), shop.change("orders")]
    failed = shop.run(PROGRAM[1])
    assert failed.returncode == 1 and "ended with 3" in failed.stderr and shop.jobs() == []
    assert shop.run(PROGRAM[1]).returncode == 0
    assert shop.jobs() == made


def test_a_subscription_with_a_filter_runs_the_program_too(shop: Shop) -> None:
    shop.program(FAILS_AT_FIRST)
    command = PROGRAM[1].replace("--cursor-file orders.cursor", "--subscription refresh-orders")
    assert shop.run(command).returncode == 0
    made = [shop.change("orders"), shop.change("returns"), shop.change("orders")]
    assert shop.run(command).returncode == 1 and shop.jobs() == []
    assert shop.run(command).returncode == 0
    assert shop.jobs() == [made[0], made[2]]
    other = shop.run(command.replace("shop.orders", "shop.returns"))
    assert other.returncode == 2 and "another filter" in other.stderr


@pytest.mark.parametrize(("command", "word"), [("nowhere.sh", "names no program"), ("'", "Close every quote")])
def test_a_program_that_is_not_there_is_refused_before_anything_is_read(shop: Shop, command: str, word: str) -> None:
    refused = shop.run(PROGRAM[1].replace("./refresh.sh", f'"{command}"'))
    assert refused.returncode == 2 and word in refused.stderr
    assert shop.run("test ! -e orders.cursor").returncode == 0


def test_a_job_in_python_runs_once_for_each_change_of_the_table(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done: list[str] = []
    names: dict[str, object] = {"SERVER": shop.url, "refresh": lambda change: done.append(change.commit_id)}
    shop.change("orders")
    exec(compile(JOB[1], "docs/jobs.md", "exec"), dict(names))
    made = [shop.change("returns"), shop.change("orders"), shop.change("orders")]
    for _ in range(2):
        exec(compile(JOB[1], "docs/jobs.md", "exec"), dict(names))
        assert done == made[1:]


def test_a_url_is_called_once_for_each_change_of_the_table(shop: Shop) -> None:
    with receiving() as receiver:
        assert shop.run(HOOK[1], HOOK=receiver.url).returncode == 0
        made = [shop.change("orders"), shop.change("returns"), shop.change("orders")]
        for _ in range(2):
            sent = shop.run(HOOK[1], HOOK=receiver.url)
            assert sent.returncode == 0, sent.stderr
            assert [json.loads(body)["data"]["commit_id"] for _, body in receiver.calls] == [made[0], made[2]]
