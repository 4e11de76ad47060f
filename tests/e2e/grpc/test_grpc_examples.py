"""Every example of docs/grpc.md is run against a real server, and buf finds nothing wrong with the protos."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from tests.support.fixtures.cli_runs import headwater as run_cli
from tests.support.servers.feed_server import FeedServer, feed_server
from tests.support.servers.ports import free_port
from tests.support.servers.rpc_tools import PROTOS, buf, go_client

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "grpc.md").read_text()
EXAMPLES = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:8182"
SECONDS = 120


def _examples(kind: str) -> list[str]:
    return [text for found, text in EXAMPLES if found == kind]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FeedServer]:
    url = f"sqlite:///{tmp_path_factory.mktemp('grpc-examples')}/lake.db"
    with feed_server(url, settings={"grpc_port": free_port()}) as running:
        yield running


def _address(server: FeedServer) -> str:
    return server.grpc_url.removeprefix("grpc://")


def test_the_page_has_examples_of_every_kind() -> None:
    assert [len(_examples(kind)) for kind in ("python", "go", "yaml", "", "bash")] == [2, 1, 1, 1, 2]


@pytest.mark.parametrize("text", _examples("python"))
def test_an_example_in_python_runs(server: FeedServer, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ADDRESS in text
    exec(compile(text.replace(ADDRESS, _address(server)), "docs/grpc.md", "exec"), {})
    assert "create" in capsys.readouterr().out


def test_the_example_in_go_is_built_of_the_published_protos_and_runs(server: FeedServer, tmp_path: Path) -> None:
    client = go_client(tmp_path, _examples("yaml")[0], _examples("")[0], _examples("go")[0])
    said = [
        subprocess.run([client, _address(server)], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
        for _ in range(2)
    ]
    first, again = (text.splitlines()[0] for text in said)
    assert re.fullmatch(r"cat/1/heads/main \d+ false", first)
    assert again == first.replace("false", "true"), "the key runs the create once"
    with headwater.connect(server.grpc_url) as engine:
        changes = list(engine.realm().catalog("lake").branch().changes())
    assert said[1].splitlines()[1:] == [f"{change.seq} {change.kind} {change.author}" for change in changes]
    assert changes[-1].headers.get("correlation_id") == "docs-2" or "docs-2" in changes[-1].headers.values()


def test_the_example_for_buf_runs_over_reflection(server: FeedServer, tmp_path: Path) -> None:
    with headwater.connect(server.grpc_url) as engine:
        engine.realm().catalog("lake").branch().commit([headwater.Put(("seen",), headwater.Namespace())])
    text = next(one for one in _examples("bash") if "buf curl" in one)
    path = {**os.environ, "PATH": f"{buf().parent}:{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", text.replace(ADDRESS, _address(server))]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=path, cwd=tmp_path, check=False)
    assert ran.returncode == 0, ran.stderr
    assert '"seen"' in ran.stdout


@pytest.mark.parametrize("flags", [(), ("--follow", "--stream")])
def test_the_command_follows_a_server_over_grpc(server: FeedServer, flags: tuple[str, ...]) -> None:
    with headwater.connect(server.url) as engine:
        changes = list(engine.realm().catalog("lake").branch().changes())
    limit = ("--limit", str(len(changes)))
    done = run_cli("subscribe", "--server", server.grpc_url, "--json", *limit, *flags)
    assert [line.count('"seq"') for line in done.succeeded().out.splitlines()] == [1] * len(changes)


def test_buf_finds_nothing_wrong_with_the_protos() -> None:
    ran = subprocess.run([buf(), "lint", PROTOS], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def _breaking(protos: Path) -> tuple[int, str]:
    """What buf finds against the image of what clients were built against."""
    ran = subprocess.run(
        [buf(), "breaking", protos, "--against", PROTOS / "published.json"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_buf_finds_no_breaking_change_since_what_was_published() -> None:
    assert _breaking(PROTOS) == (0, "")


def test_buf_finds_what_breaks_a_client(tmp_path: Path) -> None:
    """The same as the test of the published protos finds without buf."""
    changed = tmp_path / "proto"
    shutil.copytree(PROTOS, changed)
    common, feed = changed / "io/headwater/common/v1/common.proto", changed / "io/headwater/feed/v1/feed.proto"
    for file, old, new in (
        (common, "repeated string path = 2;", "repeated string levels = 2;"),
        (common, "int64 seq = 2;", "int32 seq = 2;"),
        (common, "  RESOURCE_KIND_VIEW = 4;\n", ""),
        (common, "optional string expected_version = 1;", "string expected_version = 1;"),
        (feed, "  rpc Rewind(RewindRequest) returns (RewindResponse);\n", ""),
        (feed, "returns (stream GetChangeResponse)", "returns (GetChangeResponse)"),
    ):
        text = file.read_text()
        assert text.count(old) >= 1, old
        file.write_text(text.replace(old, new))
    code, told = _breaking(changed)
    assert code != 0
    for name in ('"levels"', '"int32"', "ResourceKind", '"Rewind"', '"GetChange"', '"expected_version"'):
        assert name in told, (name, told)
