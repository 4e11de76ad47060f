"""The examples of docs/feed.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from headwater.service.feed.feed_routes import FEED_API
from tests.support.servers.feed_server import feed_server

DOCS = Path(__file__).parents[3] / "docs" / "feed.md"
EXAMPLE = re.compile(r"```sh\n(.*?)```", re.DOTALL)


def test_the_examples_run(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(DOCS.read_text())
    assert len(examples) == 3
    with feed_server(f"sqlite:///{tmp_path}/lake.db") as server:
        for example in examples:
            script = example.replace(
                "jq .acknowledge page.json",
                "python3 -c \"import json; print(json.dumps(json.load(open('page.json'))['acknowledge']))\"",
            )
            run = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", script], env={**os.environ, "FEED": server.feed},
                cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert run.returncode == 0, f"{example}\n{run.stdout}{run.stderr}"


def test_every_route_is_described() -> None:
    text = DOCS.read_text()
    for route in FEED_API.routes:
        words = [word for word in route.path.removeprefix("/feed/v1/{realm}/").split("/") if not word.startswith("{")]
        assert all(word in text for word in words), route.path
